#include "quant/channel_words.h"

#include <algorithm>

namespace fold8::quant {
namespace {

constexpr std::size_t kFewChannels = 16, kLeastChannels = 4;

}  // namespace

double median(std::vector<double> v) {
  if (v.empty()) return 0;
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}

std::vector<double> as_doubles(const std::vector<float>& v) { return {v.begin(), v.end()}; }

std::vector<std::size_t> outliers(const std::vector<double>& magnitude, double times) {
  std::vector<std::size_t> found;
  const double middle = median(magnitude);
  if (magnitude.size() < kLeastChannels || !(middle > 0)) return found;
  for (std::size_t c = 0; c < magnitude.size(); ++c)
    if (magnitude[c] > times * middle) found.push_back(c);
  if (found.size() > std::max<std::size_t>(1, magnitude.size() / kFewChannels)) return {};
  std::stable_sort(found.begin(), found.end(),
                   [&](std::size_t a, std::size_t b) { return magnitude[a] > magnitude[b]; });
  return found;
}

std::string channel_list(const std::vector<std::size_t>& channels) {
  constexpr std::size_t kShown = 3;
  std::string text = channels.size() == 1 ? "channel " : "channels ";
  for (std::size_t i = 0; i < std::min(channels.size(), kShown); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(channels[i]);
  if (channels.size() > kShown)
    text += " and " + std::to_string(channels.size() - kShown) + " more";
  return text;
}

}  // namespace fold8::quant
