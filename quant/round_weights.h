// Rounding weights for the sake of the layer's outputs instead of each weight's own: one input
// channel after another, and what its rounding did to the outputs is made up for by the channels
// that follow (Frantar et al. 2022, arXiv 2210.17323; as successive interference cancellation,
// i.e. Babai's nearest plane, which needs no inverse).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "quant/quantize_weights.h"
#include "quant/second_moments.h"
#include "runtime/core/parallel.h"
#include "runtime/core/result.h"

namespace fold8::quant {

// The triangular factor that rounding needs, made once for all layers that read a tensor.
// With H = sum x x^T, channels in ascending order of H_jj (ties: by index), and
// lambda = kDamping * mean(H_jj):
//   R^T R = H + lambda I     (R upper triangular; everything in double, in a fixed order)
class RoundingFactor {
 public:
  static constexpr double kDamping = 0.01;
  // Fails if the moments hold NaN or infinity.
  static Result<RoundingFactor> of(const Moments& moments, ThreadPool& pool);

  std::size_t width() const { return order_.size(); }
  std::span<const std::size_t> order() const { return order_; }
  const double* row(std::size_t j) const { return r_.data() + j * width(); }  // valid from column j

 private:
  std::vector<std::size_t> order_;
  std::vector<double> r_;
};

// w: [outputs, width..]; the outputs are divided evenly among the factors, one for each group.
// Scales as quantize_weight(), or with `group` > 0, for a matrix, as quantize_weight_groups(); for
// each output, j = width-1 .. 0 in its factor's order:
//   t   = w_j + (sum_{i>j} R_ji e_i) / R_jj
//   q_j = clamp(round_half_even(t / scale), -127, 127)       e_j = w_j - q_j scale
Result<QuantizedWeight> round_for_outputs(std::span<const float> w, const Shape& shape,
                                          std::span<const RoundingFactor> factors,
                                          WeightGranularity granularity, ThreadPool& pool,
                                          std::int64_t group = 0);

}  // namespace fold8::quant
