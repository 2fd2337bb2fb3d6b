#include "tools/cli/reestimated.h"

#include <fmt/format.h>

#include <algorithm>

namespace fold8::cli {
namespace {

constexpr std::size_t kMostLines = 5;
constexpr std::uint64_t kFewValues = 256;  // of a channel: its variance is known to a tenth

}  // namespace

std::vector<std::string> reestimated_lines(const std::vector<fusion::ReestimatedNorm>& norms) {
  std::vector<std::string> lines;
  if (norms.empty()) return lines;
  std::uint64_t fewest = norms[0].values;
  std::size_t kept = 0;
  for (const auto& n : norms) {
    fewest = std::min(fewest, n.values);
    kept += n.kept;
  }
  lines.push_back(fmt::format("re-estimated {} BatchNorms on {} or more values a channel{}",
                              norms.size(), fewest,
                              kept > 0 ? fmt::format("; {} channels that are constant on the "
                                                     "samples keep what is stored",
                                                     kept)
                                       : ""));
  if (fewest < kFewValues)
    lines.push_back(
        fmt::format("warning: {} values say little about a variance; give more samples", fewest));
  auto sorted = norms;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.most_shift > b.most_shift; });
  for (std::size_t i = 0; i < std::min(sorted.size(), kMostLines); ++i)
    lines.push_back(fmt::format(
        "  {}: means moved by up to {:.2f} standard deviations ({:.2f} on average), variances by "
        "{:.2f} to {:.2f}",
        sorted[i].node, sorted[i].most_shift, sorted[i].mean_shift, sorted[i].least_ratio,
        sorted[i].most_ratio));
  if (sorted.size() > kMostLines)
    lines.push_back(fmt::format("  and {} others (--json lists all)", sorted.size() - kMostLines));
  return lines;
}

Json reestimated_json(const std::vector<fusion::ReestimatedNorm>& norms) {
  Json list = Json::array();
  for (const auto& n : norms)
    list.push_back({{"node", n.node},
                    {"channels", n.channels},
                    {"kept", n.kept},
                    {"values", n.values},
                    {"most_shift", n.most_shift},
                    {"mean_shift", n.mean_shift},
                    {"least_variance_ratio", n.least_ratio},
                    {"most_variance_ratio", n.most_ratio}});
  return list;
}

}  // namespace fold8::cli
