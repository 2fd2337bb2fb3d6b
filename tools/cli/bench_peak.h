// Loops in registers: the yardstick of `fold8 bench` and of bench/.
#pragma once

#include <string_view>

namespace fold8::cli {

// The most multiply-adds a second that one core does with the instructions a target's kernels use,
// measured in registers alone: what "% of peak" refers to.
struct Peaks {
  double int8 = 0, f32 = 0;
};
Peaks measure_peaks(std::string_view target);

// Some tens of microseconds of the INT8 loop; how many multiply-adds it was.
double int8_turns(std::string_view target);

}  // namespace fold8::cli
