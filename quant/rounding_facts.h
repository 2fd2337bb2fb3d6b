// What rounding a tensor to 8-bit codes does to it, measured on the float tensor sample by sample.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quant/observer.h"
#include "quant/roundings.h"

namespace fold8::quant {

// Counts of positive numbers in steps of a quarter of an octave: medians in constant memory.
class Magnitudes {
 public:
  void add(double v);
  std::uint64_t count() const { return count_; }
  double median() const;  // lower edge of the step where half is reached; 0 without values
  double max() const { return max_; }

 private:
  static constexpr int kSteps = 4, kLowest = -160, kHighest = 140;
  std::array<std::uint32_t, (kHighest - kLowest) * kSteps> bins_{};
  std::uint64_t count_ = 0;
  double max_ = 0;
};

// Sums of squares of values and of what rounding adds to them.
struct Powers {
  double energy = 0, error = 0;
  std::optional<double> sqnr_db() const;  // none if either is 0
};

struct PartFacts {  // of a Concat, rounded with the scale of the whole
  std::string name;
  float max_abs = 0;
  Powers powers;
};

// In the units the model stores (rescaled and standardised values).
struct RoundingFacts {
  Rounding where;
  Observer seen;
  Powers powers;
  double clip_error = 0;      // the part of powers.error that clipping causes
  std::uint64_t clipped = 0;  // values outside the codes, by more than half a step
  std::vector<bool> codes;    // used ones of 256; empty per token
  std::vector<std::pair<std::size_t, double>> clipped_samples;  // worst first: sample, share
  std::vector<float> channel_max;  // largest magnitude; empty: no channels, or varying ones
  std::vector<Powers> channel_powers;
  double token_error = 0;  // powers.error if every row (last axis) had a scale of its own
  Magnitudes rows;         // largest magnitude of each row
  Magnitudes samples;      // of each sample
  std::size_t widest_sample = 0;
  std::vector<PartFacts> parts;

  std::uint64_t count() const { return seen.count(); }
  std::size_t codes_used() const;
  bool per_token() const { return where.params.granularity() == Granularity::per_token; }
  // Of the codes, in stored units; per tensor only.
  double lowest() const;
  double highest() const;

  // `values`: the reference's tensor `where.tensor`, in plain order, as the model stores it.
  void add(std::span<const float> values, const Shape& shape, std::size_t sample);
  void add_part(std::size_t part, std::span<const float> values);

 private:
  std::uint64_t code(std::span<const float> values, std::span<float> rounded);
  void add_channels(std::span<const float> values, std::span<const float> rounded,
                    std::size_t channels, std::size_t inner);
};

// Values as the model stores them: standardised, and divided by the factors of rescaled channels.
void to_stored(const Rounding& where, const Shape& shape, std::span<float> values);
// What codes give back for them.
void round_values(const Rounding& where, const Shape& shape, std::span<float> values);

}  // namespace fold8::quant
