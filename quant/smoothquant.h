// SmoothQuant (Xiao et al. 2022, arXiv 2211.10438): for a linear layer Y = X W with input channels
// j
//   Y = (X / s) (s W)      s_j = max|X_j|^alpha / max|W_j|^(1-alpha)
// Large channels of X, which would take all its codes, become smaller, and the weights that
// multiply them larger. Numbers only: fusion/passes/smooth.h edits the graph.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace fold8::quant {

inline constexpr double kSmallestSmoothing = 1e-5;  // of a factor

// s per channel. A channel that is dead on either side (largest magnitude 0) gets 1. x_max, w_max:
// largest magnitudes; alpha in [0, 1].
std::vector<double> smoothing_factors(std::span<const double> x_max, std::span<const double> w_max,
                                      double alpha);

// A layer that reads X: f32 weights [outputs, channels] (leading batches count as outputs).
struct SmoothedReader {
  std::span<const float> w;
};

struct AlphaSearch {
  std::span<const double> x_max;  // [channels], over all samples
  std::span<const float> rows;    // [n, channels] of X, n >= 1
  std::span<const SmoothedReader> readers;
  // Channels of one class share a factor (heads that share V); empty: each has its own.
  std::span<const int> classes;
  bool per_token = true;  // X is rounded with a scale per row, else with one for all
};

struct AlphaChoice {
  double alpha = 0;
  std::vector<double> factors;        // of alpha, from x_max
  double error = 0, error_plain = 0;  // expected squared error of the readers' outputs on the rows
};

// Factors of one alpha for the search's tensor: classes joined, weights over all readers.
std::vector<double> factors_of(const AlphaSearch& search, double alpha);
// The expected squared error of the readers' outputs on the rows with these factors. Every rounding
// errs by a step of its own, uniformly and independently of the others:
//   sum_r step_x(r)^2/12 * sum_j s_j^2 |W_j|^2  +  sum_n step_w(n)^2/12 * sum_rj (X_rj / s_j)^2
// step_x(r) = max_j|X_rj / s_j| / 127 (not per token: the largest of all), step_w(n) = max_j |s_j
// W_nj| / 127.
double expected_output_error(const AlphaSearch& search, std::span<const double> factors);
// The alpha of 0.3, 0.35 .. 0.9 with the least expected error (ties: the smallest). Each half of
// the rows is judged with factors of the other half's magnitudes: a channel that is small on a few
// samples may be large on the next one, and a large alpha leaves its weights no codes.
AlphaChoice choose_alpha(const AlphaSearch& search);

}  // namespace fold8::quant
