// What calibration remembers of a tensor: exact statistics that merge in any grouping to the same
// bytes, in constant memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace fold8::quant {

// Counts of values in bins of one width, a power of two, aligned at zero: bin i holds [i*w,
// (i+1)*w) for -kSide <= i < kSide. When a value falls outside, neighbouring bins are added up and
// the width doubles. Since every width divides the next, the result depends only on the set of
// values, not on their order or grouping.
class Histogram {
 public:
  static constexpr int kSide = 2048;

  void add(std::span<const float> values);  // finite values
  void merge(const Histogram& other);

  bool empty() const { return total_ == 0; }
  std::uint64_t total() const { return total_; }
  double width() const;  // of a bin
  std::span<const std::uint64_t> bins() const {
    return bins_;
  }  // 2*kSide, or empty if total() == 0
  double lower(std::size_t bin) const { return (static_cast<double>(bin) - kSide) * width(); }

 private:
  void widen(int exponent);  // to bins of 2^exponent
  int exponent_ = kSmallest;
  static constexpr int kSmallest = -160;  // below every float's resolution at kSide bins
  std::uint64_t total_ = 0;
  std::vector<std::uint64_t> bins_;
};

class Observer {
 public:
  // `channels`: extents of the axis for which minima and maxima are kept apart (0: none); values
  // are then [outer, channels, inner].
  void add(std::span<const float> values);
  void add_channels(std::span<const float> values, std::size_t channels, std::size_t inner);
  void merge(const Observer& other);

  std::uint64_t count() const { return histogram_.total(); }
  bool empty() const { return count() == 0; }
  float min() const { return min_; }  // 0 if empty
  float max() const { return max_; }
  bool constant() const { return !empty() && min_ == max_; }
  const Histogram& histogram() const { return histogram_; }
  std::span<const float> channel_min() const { return channel_min_; }
  std::span<const float> channel_max() const { return channel_max_; }

 private:
  Histogram histogram_;
  float min_ = 0, max_ = 0;
  std::vector<float> channel_min_, channel_max_;
};

// Index of the first NaN or infinity; values.size() if all are finite.
std::size_t first_not_finite(std::span<const float> values);

}  // namespace fold8::quant
