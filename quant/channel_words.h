// Channels that stand out, and how sentences name them.
#pragma once

#include <string>
#include <vector>

namespace fold8::quant {

double median(std::vector<double> v);  // 0 of nothing
std::vector<double> as_doubles(const std::vector<float>& v);

// Channels above `times` the median, largest first; empty if they are many (above one in 16), or
// channels are too few to speak of a median.
std::vector<std::size_t> outliers(const std::vector<double>& magnitude, double times);

// "channel 5", "channels 5, 7, 9 and 3 more"
std::string channel_list(const std::vector<std::size_t>& channels);

}  // namespace fold8::quant
