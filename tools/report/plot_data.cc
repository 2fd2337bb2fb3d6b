#include "tools/report/plot_data.h"

#include <algorithm>
#include <cmath>

#include "tools/report/metrics_json.h"

namespace fold8::report {
namespace {

using Json = nlohmann::ordered_json;

// Seven significant digits are what a float has.
double brief(double v) {
  if (v == 0 || !std::isfinite(v)) return 0;
  const double unit = std::pow(10.0, std::floor(std::log10(std::abs(v))) - 6);
  return unit > 0 ? std::round(v / unit) * unit : 0;
}

// Counts on a logarithmic scale: a tail of ten values is seen beside a peak of a million.
std::string count_digits(const std::vector<double>& counts) {
  std::vector<double> logs;
  for (const double n : counts) logs.push_back(std::log1p(n));
  return digits(logs, 0, *std::max_element(logs.begin(), logs.end()));
}

// Counts of a histogram in `bins` equal steps from lo to hi; a bin counts where its middle lies.
std::vector<double> counts_in(const quant::Histogram& h, double lo, double hi, std::size_t bins) {
  std::vector<double> counts(bins);
  const double scale = hi > lo ? static_cast<double>(bins) / (hi - lo) : 0;
  for (std::size_t i = 0; i < h.bins().size(); ++i) {
    if (h.bins()[i] == 0) continue;
    const double at = (h.lower(i) + h.width() / 2 - lo) * scale;
    const double last = static_cast<double>(bins) - 1;
    counts[static_cast<std::size_t>(std::clamp(at, 0.0, last))] += static_cast<double>(h.bins()[i]);
  }
  return counts;
}

Json histogram_json(const quant::LayerPlots& p, std::size_t bins) {
  const double lo = std::min(p.reference.min(), p.got.min()),
               hi = std::max(p.reference.max(), p.got.max());
  // Not finer than the stored bins, or the plot would show gaps that are none.
  const double width = std::max(p.reference.histogram().width(), p.got.histogram().width());
  const auto most = static_cast<std::size_t>(
      std::clamp(std::floor((hi - lo) / width), 1.0, static_cast<double>(bins)));
  const std::vector<double> a = counts_in(p.reference.histogram(), lo, hi, most),
                            b = counts_in(p.got.histogram(), lo, hi, most);
  std::vector<double> both = a;
  both.insert(both.end(), b.begin(), b.end());
  const std::string text = count_digits(both);
  return {{"lo", brief(lo)},
          {"hi", brief(hi)},
          {"most", *std::max_element(both.begin(), both.end())},
          {"reference", text.substr(0, text.size() / 2)},
          {"other", text.substr(text.size() / 2)}};
}

// Neighbouring channels share a bar where there are more than `most`.
Json channels_json(const quant::LayerPlots& p, std::size_t most) {
  const std::size_t each = (p.channels.size() + most - 1) / most;
  std::vector<double> low[2], high[2], db;
  for (std::size_t begin = 0; begin < p.channels.size(); begin += each) {
    quant::ChannelRange all = p.channels[begin];
    for (std::size_t c = begin + 1; c < std::min(begin + each, p.channels.size()); ++c) {
      const quant::ChannelRange& next = p.channels[c];
      all.min = {std::min(all.min.reference, next.min.reference),
                 std::min(all.min.got, next.min.got)};
      all.max = {std::max(all.max.reference, next.max.reference),
                 std::max(all.max.got, next.max.got)};
      all.power += next.power;
      all.error += next.error;
    }
    low[0].push_back(all.min.reference);
    low[1].push_back(all.min.got);
    high[0].push_back(all.max.reference);
    high[1].push_back(all.max.got);
    const bool defined = all.power > 0 && all.error > 0;
    db.push_back(defined ? 10 * std::log10(all.power / all.error) : 1e3);
  }
  const double lo = std::min(p.reference.min(), p.got.min()),
               hi = std::max(p.reference.max(), p.got.max());
  return {{"count", p.channels.size()},
          {"each", each},
          {"axis", p.channel_axis},
          {"lo", brief(lo)},
          {"hi", brief(hi)},
          {"reference_min", digits(low[0], lo, hi)},
          {"reference_max", digits(high[0], lo, hi)},
          {"other_min", digits(low[1], lo, hi)},
          {"other_max", digits(high[1], lo, hi)},
          {"db_lo", -20},
          {"db_hi", 120},  // more: no error that counts
          {"db", digits(db, -20, 120)}};
}

Json values_json(const quant::LayerPlots& p, std::size_t most) {
  std::vector<double> x, y;
  const std::size_t each = (p.values.size() + most - 1) / most;
  for (std::size_t i = 0; i < p.values.size(); i += each) {
    x.push_back(p.values[i].reference);
    y.push_back(p.values[i].got);
  }
  const double lo = std::min(*std::min_element(x.begin(), x.end()),
                             *std::min_element(y.begin(), y.end())),
               hi = std::max(*std::max_element(x.begin(), x.end()),
                             *std::max_element(y.begin(), y.end()));
  return {{"lo", brief(lo)}, {"hi", brief(hi)}, {"x", digits(x, lo, hi)}, {"y", digits(y, lo, hi)}};
}

Json worst_json(const quant::WorstElement& w) {
  std::vector<std::int64_t> index(static_cast<std::size_t>(w.shape.rank()));
  std::size_t rest = w.element;
  for (int a = w.shape.rank(); a-- > 0;) {
    const auto extent = static_cast<std::size_t>(w.shape.extent(a));
    index[static_cast<std::size_t>(a)] = static_cast<std::int64_t>(rest % extent);
    rest /= extent;
  }
  return {{"sample", w.sample},
          {"index", index},
          {"reference", brief(w.value.reference)},
          {"other", brief(w.value.got)}};
}

}  // namespace

std::string digits(const std::vector<double>& values, double lo, double hi) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const double scale = hi > lo ? kSteps / (hi - lo) : 0;
  std::string out;
  for (const double v : values) {
    const double step = std::rint((v - lo) * scale);
    const int n = step > 0 ? static_cast<int>(std::min(step, double{kSteps})) : 0;
    out += kDigits[n / 64];
    out += kDigits[n % 64];
  }
  return out;
}

PlotSize plot_size(std::size_t layers) {
  if (layers <= 250) return {};
  return {48, 48, 96};
}

Json plots_json(const quant::LayerError& l, const PlotSize& size) {
  Json j = Json::object();
  if (l.range) j["range"] = {brief(l.range->first), brief(l.range->second)};
  if (!l.code_counts.empty()) {
    const std::vector<double> counts(l.code_counts.begin(), l.code_counts.end());
    j["codes"] = {{"most", *std::max_element(counts.begin(), counts.end())},
                  {"counts", count_digits(counts)}};
  }
  if (!l.plots || l.plots->reference.empty()) return j;
  const quant::LayerPlots& p = *l.plots;
  j["hist"] = histogram_json(p, size.bins);
  if (!p.channels.empty()) j["channels"] = channels_json(p, size.channels);
  if (!p.values.empty()) j["values"] = values_json(p, size.values);
  if (p.worst && !l.accumulated.exact) j["worst"] = worst_json(*p.worst);
  return j;
}

Json weights_json(const quant::WeightRanges& w, const PlotSize& size) {
  const std::size_t count = std::max(w.reference.size(), w.limit.size()),
                    each = (count + size.channels - 1) / size.channels;
  const auto grouped = [&](const std::vector<float>& of) {
    std::vector<double> largest;
    for (std::size_t begin = 0; begin < of.size(); begin += each)
      largest.push_back(*std::max_element(
          of.begin() + static_cast<std::ptrdiff_t>(begin),
          of.begin() + static_cast<std::ptrdiff_t>(std::min(begin + each, of.size()))));
    return largest;
  };
  const std::vector<double> reference = grouped(w.reference), limit = grouped(w.limit);
  double hi = 0;
  for (const auto* values : {&reference, &limit})
    for (const double v : *values) hi = std::max(hi, v);
  const auto first = [](const std::vector<std::size_t>& channels) {
    constexpr std::size_t kMost = 16;
    return std::vector<std::size_t>(
        channels.begin(),
        channels.begin() + static_cast<std::ptrdiff_t>(std::min(kMost, channels.size())));
  };
  Json j{{"name", w.name},
         {"count", count},
         {"each", each},
         {"hi", brief(hi)},
         {"rescaled", w.rescaled},
         {"dead", w.dead.size()},
         {"huge", w.huge.size()},
         {"first_dead", first(w.dead)},
         {"first_huge", first(w.huge)}};
  if (!w.reference.empty()) {
    std::vector<float> sorted = w.reference;
    std::sort(sorted.begin(), sorted.end());
    j["reference"] = digits(reference, 0, hi);
    j["largest"] = brief(sorted.back());
    j["median"] = brief(sorted[sorted.size() / 2]);
  }
  if (!w.limit.empty()) {
    const auto [least, most] = std::minmax_element(w.scales.begin(), w.scales.end());
    j["limit"] = digits(limit, 0, hi);
    j["scales"] = w.scales.size();
    j["scale_min"] = brief(*least);
    j["scale_max"] = brief(*most);
  }
  return j;
}

}  // namespace fold8::report
