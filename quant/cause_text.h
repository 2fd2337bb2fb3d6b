// Numbers in sentences, and words of a command line.
#pragma once

#include <string>
#include <vector>

namespace fold8::quant {

std::string short_number(double v);  // three significant digits: "0.0123", "4.5", "1230"
// The shortest that reads back as v.
std::string plain_number(double v);
std::string percent(double share);             // "2.3 %", "0.004 %"
std::string times(double factor);              // "16 times"
std::string shell_word(const std::string& s);  // 'quoted' for a POSIX shell
std::string join(const std::vector<std::string>& words, const char* between);

}  // namespace fold8::quant
