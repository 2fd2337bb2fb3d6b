#include "quant/cause_text.h"

#include <charconv>
#include <cmath>

namespace fold8::quant {
namespace {

std::string digits(double v, int significant) {
  char buffer[64];
  const double size = std::abs(v);
  // Plain notation where it is readable.
  if (size != 0 && (size < 1e-4 || size >= 1e7)) {
    const auto r = std::to_chars(buffer, buffer + sizeof buffer, v, std::chars_format::scientific,
                                 significant - 1);
    return {buffer, r.ptr};
  }
  int decimals = significant - 1;
  for (double limit = 10; size >= limit && decimals > 0; limit *= 10) --decimals;
  for (double limit = 1; size != 0 && size < limit; limit /= 10) ++decimals;
  const auto r =
      std::to_chars(buffer, buffer + sizeof buffer, v, std::chars_format::fixed, decimals);
  std::string text(buffer, r.ptr);
  if (text.find('.') != std::string::npos) {
    while (text.back() == '0') text.pop_back();
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

}  // namespace

std::string short_number(double v) { return digits(v, 3); }
std::string plain_number(double v) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, v).ptr};
}
std::string percent(double share) { return digits(share * 100, share < 0.1 ? 2 : 3) + " %"; }
std::string times(double factor) { return digits(factor, 2) + " times"; }

std::string shell_word(const std::string& s) {
  std::string word = "'";
  for (const char c : s) c == '\'' ? word += "'\\''" : word += c;
  return word + "'";
}

std::string join(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) text += (i > 0 ? between : "") + words[i];
  return text;
}

}  // namespace fold8::quant
