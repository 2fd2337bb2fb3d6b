#include "tools/report/text.h"

#include <cstdint>

namespace fold8::report {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd", kEllipsis = "\xe2\x80\xa6";

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// Bytes of the character at the beginning of s, and its code; 0 bytes if it is no valid UTF-8.
struct Character {
  std::size_t bytes = 0;
  std::uint32_t code = 0;
};
Character first_character(std::string_view s) {
  const auto lead = static_cast<unsigned char>(s[0]);
  if (lead < 0x80) return {1, lead};
  const std::size_t n = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 0;
  if (n == 0 || lead > 0xf4 || s.size() < n) return {};
  std::uint32_t code = lead & (0xffu >> (n + 1));
  for (std::size_t i = 1; i < n; ++i) {
    if (!continues(s[i])) return {};
    code = code << 6 | (static_cast<unsigned char>(s[i]) & 0x3f);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return code < kLeast[n] || code > 0x10ffff || surrogate ? Character{} : Character{n, code};
}

bool is_control(std::uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 ||
         (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) ||  // turn text around
         (c & 0xfffe) == 0xfffe;
}

}  // namespace

std::string printable(std::string_view s) {
  std::string out;
  while (!s.empty()) {
    const Character c = first_character(s);
    if (c.bytes == 0)
      out += kReplacement;
    else if (is_control(c.code))
      out += ' ';
    else
      out += s.substr(0, c.bytes);
    s.remove_prefix(c.bytes == 0 ? 1 : c.bytes);
  }
  return out;
}

std::size_t columns(std::string_view utf8) {
  std::size_t n = 0;
  for (const char c : utf8) n += !continues(c);
  return n;
}

std::string shortened(std::string_view s, std::size_t width) {
  const std::size_t n = columns(s);
  if (n <= width) return std::string(s);
  const std::size_t tail = (width - 1) / 2, head = width - 1 - tail;
  std::string out;
  std::size_t seen = 0;
  for (const char c : s) {
    seen += !continues(c);
    if (seen == head + 1 && !continues(c)) out += kEllipsis;
    if (seen <= head || seen > n - tail) out += c;
  }
  return out;
}

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    text = space == std::string_view::npos ? std::string_view() : text.substr(space + 1);
    if (word.empty()) continue;
    if (!lines.empty() && columns(lines.back()) + 1 + columns(word) <= width)
      (lines.back() += ' ') += word;
    else
      lines.emplace_back(word);
  }
  return lines;
}

}  // namespace fold8::report
