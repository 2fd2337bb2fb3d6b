// What the statistics say about the samples themselves: too few, blank, repeated, not alike.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "quant/calibrate.h"

namespace fold8::quant {

inline constexpr std::uint64_t kFewRows = 8;         // fewer than these say little about ranges
inline constexpr double kOneSampleShare = 0.8;       // of the tensors whose largest value it holds
inline constexpr double kOneSampleFactor = 1.5;      // over the second largest, in the middle one
inline constexpr double kUnsettledHalf = 0.6;        // of the other half's range, likewise
inline constexpr std::uint64_t kLeastForSpread = 8;  // different samples; with fewer, chance rules
inline constexpr std::uint64_t kLeastInHalf = 3;     // of them: hashes need not part them evenly

// Whole sentences with what to do. They depend on the set of samples alone, so merged statistics
// give the same ones.
std::vector<std::string> data_warnings(const CalibrationTable& table);

// Of one tensor's range: filled by no sample, or constant.
std::optional<std::string> range_warning(const std::string& name, const Observer& seen);

}  // namespace fold8::quant
