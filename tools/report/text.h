// Names of strangers on a line of text: valid UTF-8, no control characters, no more columns than
// there are.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace fold8::report {

// Bytes that are no UTF-8 become U+FFFD, control characters (escape sequences of a terminal begin
// with one) and what XML cannot hold become spaces.
std::string printable(std::string_view s);
std::size_t columns(std::string_view utf8);  // characters; wide ones count one
// The beginning and the end around an ellipsis, if there are more than `width` characters (>= 3).
std::string shortened(std::string_view s, std::size_t width);
// Words in lines of at most `width` characters; a longer word has a line of its own.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

}  // namespace fold8::report
