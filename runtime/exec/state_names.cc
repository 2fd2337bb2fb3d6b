// Which outputs are which inputs, by patterns of names.
#include <algorithm>
#include <string_view>

#include "runtime/exec/states.h"

namespace fold8::exec {
namespace {

// What each '*' of the pattern matched, or nothing: shortest runs first.
bool match(std::string_view pattern, std::string_view text, std::vector<std::string_view>& stars) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (text.substr(0, star) != pattern.substr(0, star)) return false;
  text.remove_prefix(star);
  for (std::size_t n = 0; n <= text.size(); ++n) {
    stars.push_back(text.substr(0, n));
    if (match(pattern.substr(star + 1), text.substr(n), stars)) return true;
    stars.pop_back();
  }
  return false;
}

}  // namespace

Result<std::vector<std::pair<graph::ValueId, graph::ValueId>>> match_states(
    const graph::Graph& g, const std::string& output, const std::string& input) {
  constexpr std::ptrdiff_t kMostStars = 3;  // the time of a match is a power of it
  const auto stars_of = [](const std::string& s) { return std::count(s.begin(), s.end(), '*'); };
  const std::string what = "state " + output + "=" + input + ": ";
  if (stars_of(output) != stars_of(input) || stars_of(output) > kMostStars)
    return invalid_argument(what + "both names need the same number of '*', at most 3");
  std::vector<std::pair<graph::ValueId, graph::ValueId>> pairs;
  for (graph::ValueId v : g.outputs) {
    std::vector<std::string_view> stars;
    if (!match(output, g.value(v).name, stars)) continue;
    std::string wanted;
    std::size_t next = 0;
    for (char c : input)
      if (c == '*')
        wanted += stars[next++];
      else
        wanted += c;
    const graph::ValueId in = g.find_value(wanted);
    if (in == graph::kNoValue || !g.is_input(in))
      return invalid_argument(what + "the model has no input '" + wanted + "' for its output '" +
                              g.value(v).name + "'");
    pairs.emplace_back(v, in);
  }
  if (pairs.empty()) return invalid_argument(what + "no output of the model is named so");
  return pairs;
}

}  // namespace fold8::exec
