// Numbers as summaries and warnings write them.
#pragma once

#include <cstdlib>
#include <string>

namespace fold8::fusion {

// "15.3 dB"
inline std::string decibels(double db) {
  const long tenths = static_cast<long>(db * 10 + (db < 0 ? -0.5 : 0.5));
  return (tenths < 0 && tenths > -10 ? "-" : "") + std::to_string(tenths / 10) + "." +
         std::to_string(std::abs(tenths % 10)) + " dB";
}

// "4.2 %" of a share in 0..1
inline std::string percent(double share) {
  const long tenths = static_cast<long>(share * 1000 + 0.5);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " %";
}

}  // namespace fold8::fusion
