// Calibration samples in two parts: most to calibrate on, every third one held out for the search,
// so that what it judges by is not only what ranges, rounding and biases were fitted to. Where few
// are held out, others are judged on too: chance would choose between candidates otherwise.
#pragma once

#include <vector>

#include "quant/sample_source.h"

namespace fold8::fusion {

inline constexpr std::size_t kLeastToSplit = 12;  // samples; of fewer, all serve for both
inline constexpr std::size_t kHoldOutEvery = 3;
inline constexpr std::size_t kLeastToJudge = 32;
inline constexpr std::size_t kMostToJudge = 64;

class SomeSamples : public quant::SampleSource {
 public:
  SomeSamples(quant::SampleSource& all, std::vector<std::size_t> which)
      : all_(all), which_(std::move(which)) {}
  std::size_t count() const override { return which_.size(); }
  Result<std::vector<Tensor>> sample(std::size_t i) override { return all_.sample(which_[i]); }
  std::size_t original(std::size_t i) const { return which_[i]; }

 private:
  quant::SampleSource& all_;
  std::vector<std::size_t> which_;
};

struct SampleSplit {
  SomeSamples calibration, judging;
  std::size_t held_out = 0;  // the first ones of `judging`; 0: both are all samples
  std::size_t total = 0;

  static SampleSplit of(quant::SampleSource& all) {
    const bool split = all.count() >= kLeastToSplit;
    std::vector<std::size_t> fitted, judged;
    for (std::size_t i = 0; i < all.count(); ++i) {
      const bool held_out = split && i % kHoldOutEvery == kHoldOutEvery - 1;
      (held_out ? judged : fitted).push_back(i);
    }
    if (judged.size() > kMostToJudge) judged.resize(kMostToJudge);
    const std::size_t held_out = judged.size();
    for (std::size_t i = 0; i < fitted.size() && judged.size() < kLeastToJudge; ++i)
      judged.push_back(fitted[i]);
    return {SomeSamples(all, std::move(fitted)), SomeSamples(all, std::move(judged)), held_out,
            all.count()};
  }
};

}  // namespace fold8::fusion
