#include "quant/data_warnings.h"

#include <algorithm>
#include <map>

namespace fold8::quant {
namespace {

std::string percent(double share) { return std::to_string(static_cast<int>(share * 100 + 0.5)); }

std::string tenths(double x) {
  const auto t = static_cast<long>(x * 10 + 0.5);
  return std::to_string(t / 10) + "." + std::to_string(t % 10);
}

double middle(std::vector<double> values) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

std::string of_samples(std::uint64_t n, std::uint64_t all) {
  return std::to_string(n) + " of " + std::to_string(all) + " samples";
}

// One sample that is larger than all others nearly everywhere.
void one_sample(const CalibrationTable& table, std::vector<std::string>& warnings) {
  std::map<std::uint64_t, std::vector<double>> factors;  // by sample: over the second largest
  std::size_t tensors = 0;
  for (const auto& [name, o] : table.tensors) {
    const auto& [first, second] = o.peaks();
    if (!(second.size > 0)) continue;
    ++tensors;
    if (first.size > second.size)
      factors[first.sample].push_back(double{first.size} / double{second.size});
  }
  for (const auto& [sample, f] : factors) {
    const double share = static_cast<double>(f.size()) / static_cast<double>(tensors);
    if (share < kOneSampleShare || middle(f) < kOneSampleFactor) continue;
    warnings.push_back(
        "one sample holds the largest values of " + percent(share) + " % of the tensors, " +
        tenths(middle(f)) +
        " times those of any other: the ranges are its own; look whether it belongs there");
  }
}

// Two halves of the samples, by their hashes, that differ in most tensors.
void unsettled(const CalibrationTable& table, std::vector<std::string>& warnings) {
  std::uint64_t odd = 0;
  for (const auto& [hash, times] : table.seen.times()) odd += hash & 1;
  if (std::min<std::uint64_t>(odd, table.seen.times().size() - odd) < kLeastInHalf) return;
  std::vector<double> shares;
  for (const auto& [name, o] : table.tensors) {
    const auto [lo, hi] = std::minmax(o.halves()[0], o.halves()[1]);
    if (hi > 0) shares.push_back(double{lo} / double{hi});
  }
  if (shares.empty()) return;
  const double share = middle(shares);
  if (share >= kUnsettledHalf) return;
  warnings.push_back("ranges still grow with the samples: half of them reach only " +
                     percent(share) +
                     " % of the range of the other half (in the middle tensor); give more samples");
}

}  // namespace

std::vector<std::string> data_warnings(const CalibrationTable& table) {
  std::vector<std::string> warnings;
  if (table.samples == 0) return warnings;
  const std::uint64_t kept = table.seen.times().size(), repeats = table.seen.repeats();
  if (table.rows < kFewRows)
    warnings.push_back("only " + std::to_string(table.samples) +
                       (table.samples == 1 ? " calibration sample" : " calibration samples") +
                       ": ranges are those of these few; give some dozens");
  if (table.blank > 0)
    warnings.push_back(of_samples(table.blank, table.samples) +
                       " are blank (every input has the same value everywhere): is the data what "
                       "the network reads?");
  if (kept == 1 && table.samples > 1)
    warnings.push_back("all " + std::to_string(table.samples) +
                       " samples are the same: they count as one");
  else if (repeats > 0)
    warnings.push_back(of_samples(repeats, table.samples) +
                       " repeat others byte by byte: they add nothing");
  if (kept >= kLeastForSpread) {
    const std::size_t before = warnings.size();
    one_sample(table, warnings);
    if (warnings.size() == before) unsettled(table, warnings);
  }
  return warnings;
}

std::optional<std::string> range_warning(const std::string& name, const Observer& seen) {
  if (seen.empty())
    return "tensor '" + name +
           "' was filled by no sample (empty in all of them); its scale is a guess";
  if (!seen.constant()) return std::nullopt;
  return "tensor '" + name + "' was constant (" + std::to_string(seen.min()) + ", " +
         (seen.min() == 0 ? "zero" : "never anything else") +
         ") in all samples; values outside will be clipped";
}

}  // namespace fold8::quant
