// The most multiply-adds per second one core can do with the instructions a target's INT8 kernels
// use, measured in registers alone: what "percent of peak" refers to.
#pragma once

#include <string_view>

namespace fold8::bench {

double int8_peak_macs_per_second(std::string_view target);

// Some tens of microseconds of that loop; how many multiply-adds it was.
double int8_turns(std::string_view target);

}  // namespace fold8::bench
