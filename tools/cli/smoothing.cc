#include "tools/cli/smoothing.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace fold8::cli {

Result<fusion::Smoothing> smoothing_of(const std::string& text) {
  fusion::Smoothing s;
  if (text == "auto") return s;
  s.off = text == "off";
  if (s.off) return s;
  double alpha = 0;
  const char* end = text.data() + text.size();
  const auto r = std::from_chars(text.data(), end, alpha);
  if (r.ec != std::errc() || r.ptr != end || !(alpha >= 0 && alpha <= 1))
    return invalid_argument("--smooth " + text + ": expected auto, off or a number from 0 to 1");
  s.alpha = alpha;
  return s;
}

std::string smoothing_line(const std::vector<fusion::SmoothedTensor>& smoothed) {
  if (smoothed.empty()) return "";
  const auto [least, most] =
      std::minmax_element(smoothed.begin(), smoothed.end(),
                          [](const auto& a, const auto& b) { return a.alpha < b.alpha; });
  const auto widest = std::max_element(
      smoothed.begin(), smoothed.end(),
      [](const auto& a, const auto& b) { return a.range_before < b.range_before; });
  const auto multiplies =
      std::count_if(smoothed.begin(), smoothed.end(), [](const auto& t) { return t.into.empty(); });
  return fmt::format(
      "smoothed {} tensors, alpha {}{}{}; widest: channel {} of {}, {:.3g} -> {:.3g}",
      smoothed.size(), fmt::format("{:.2f}", least->alpha),
      most->alpha > least->alpha ? fmt::format(" to {:.2f}", most->alpha) : "",
      multiplies > 0 ? fmt::format(" ({} by an explicit multiply)", multiplies) : "",
      widest->widest_channel, widest->tensor, widest->range_before, widest->range_after);
}

std::string rotation_line(const std::vector<std::string>& rotated) {
  if (rotated.empty()) return "";
  return fmt::format(
      "rotated the rows of {} tensors, the weights with them (--rotate off leaves that)",
      rotated.size());
}

std::string smoothed_line(const fusion::SmoothedTensor& t) {
  return fmt::format("{} alpha {:.2f}, range {:.3g} -> {:.3g} (channel {}), into {}", t.tensor,
                     t.alpha, t.range_before, t.range_after, t.widest_channel,
                     t.into.empty() ? "an explicit multiply" : t.into);
}

Json smoothed_json(const std::vector<fusion::SmoothedTensor>& smoothed) {
  Json list = Json::array();
  for (const auto& t : smoothed)
    list.push_back({{"tensor", t.tensor},
                    {"layers", t.layers},
                    {"alpha", t.alpha},
                    {"into", t.into.empty() ? Json() : Json(t.into)},
                    {"range_before", t.range_before},
                    {"range_after", t.range_after},
                    {"widest_channel", t.widest_channel}});
  return list;
}

}  // namespace fold8::cli
