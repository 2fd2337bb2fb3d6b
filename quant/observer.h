// What calibration remembers of a tensor: exact statistics that merge in any grouping to the same
// bytes, in constant memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace fold8::quant {

// Smallest and largest value; -0 counts as 0.
struct Extent {
  float lo = 0, hi = 0;
  bool finite = true;  // false: a NaN or an infinity is among the values, lo and hi mean nothing
};
Extent extent_of(std::span<const float> values);  // [0, 0] of none

// Counts of values in bins of one width, a power of two, aligned at zero: bin i holds [i*w,
// (i+1)*w) for -kSide <= i < kSide. When a value falls outside, neighbouring bins are added up and
// the width doubles. Since every width divides the next, the result depends only on the set of
// values, not on their order or grouping.
class Histogram {
 public:
  static constexpr int kSide = 2048;
  static constexpr int kSmallest = -160;  // below every float's resolution at kSide bins
  static constexpr int kLargest = 117;    // holds every float

  void add(std::span<const float> values);                        // finite values
  void add(std::span<const float> values, const Extent& extent);  // whose extent is known
  void merge(const Histogram& other);

  bool empty() const { return total_ == 0; }
  std::uint64_t total() const { return total_; }
  int exponent() const { return exponent_; }
  double width() const;  // of a bin: 2^exponent
  std::span<const std::uint64_t> bins() const {
    return bins_;
  }  // 2*kSide, or empty if total() == 0
  double lower(std::size_t bin) const { return (static_cast<double>(bin) - kSide) * width(); }

  // As stored: `bins` from bin number `first` on. nullopt: no histogram is like that.
  static std::optional<Histogram> of(int exponent, std::size_t first,
                                     std::span<const std::uint64_t> bins);

 private:
  void widen(int exponent);  // to bins of 2^exponent
  int exponent_ = kSmallest;
  std::uint64_t total_ = 0;
  std::vector<std::uint64_t> bins_;
};

// The largest magnitude of a tensor in one sample. Samples are known by a hash of their inputs
// (calibrate.h).
struct Peak {
  float size = 0;
  std::uint64_t sample = 0;
  friend bool operator==(const Peak&, const Peak&) = default;
};

class Observer {
 public:
  // Of one run; finite values. `sample`: whose values they are.
  void add(std::span<const float> values, std::uint64_t sample = 0);
  void add(std::span<const float> values, const Extent& extent, std::uint64_t sample);
  // `channels`: extents of the axis for which minima and maxima are kept apart (0: none); values
  // are then [outer, channels, inner]. 0 is among them. Where a tensor has other channels than
  // before, they are forgotten for good.
  void add_channels(std::span<const float> values, std::size_t channels, std::size_t inner);
  void merge(const Observer& other);

  std::uint64_t count() const { return histogram_.total(); }
  bool empty() const { return count() == 0 && !only_range_; }
  float min() const { return min_; }  // 0 if empty
  float max() const { return max_; }
  bool constant() const { return !empty() && min_ == max_; }
  const Histogram& histogram() const { return histogram_; }
  std::span<const float> channel_min() const { return channel_min_; }
  std::span<const float> channel_max() const { return channel_max_; }

  // The two samples with the largest magnitudes (ties: the smaller hash), largest first; size 0
  // where there are fewer.
  const std::array<Peak, 2>& peaks() const { return peaks_; }
  // The largest magnitudes in samples with an even and with an odd hash: two halves of the data
  // that no order can choose.
  const std::array<float, 2>& halves() const { return halves_; }

  // All that is known of a tensor are its ends: they are its range whatever the method.
  static Observer of_range(float lo, float hi);

  // What a file holds. nullopt: no observer is like that.
  struct Stored {
    float min = 0, max = 0;
    Histogram histogram;
    std::vector<float> channel_min, channel_max;
    bool channels_vary = false;
    std::array<Peak, 2> peaks;
    std::array<float, 2> halves{};
  };
  static std::optional<Observer> of(Stored stored);
  bool channels_vary() const { return channels_vary_; }

 private:
  void see_channels(std::size_t channels);
  void see_peak(const Peak& peak);

  Histogram histogram_;
  float min_ = 0, max_ = 0;
  std::vector<float> channel_min_, channel_max_;
  bool channels_vary_ = false, only_range_ = false;
  std::array<Peak, 2> peaks_;
  std::array<float, 2> halves_{};
};

// Index of the first NaN or infinity; values.size() if all are finite.
std::size_t first_not_finite(std::span<const float> values);

}  // namespace fold8::quant
