// Two classifiers on the same labelled samples: is one better, and by how much?
#pragma once

#include <cstdint>
#include <span>

#include "runtime/core/result.h"
#include "runtime/core/shape.h"

namespace fold8::quant {

// Samples by who was right; the pairs, not two separate counts, tell how sure the difference is.
struct PairedCounts {
  std::uint64_t both = 0, only_reference = 0, only_other = 0, neither = 0;

  std::uint64_t samples() const { return both + only_reference + only_other + neither; }
  double reference() const;  // share of samples that it has right; 0 without samples
  double other() const;
  double difference() const;  // other() - reference(): negative is a loss
};

struct Interval {
  double low = 0, high = 0;
};

// 95 % confidence interval of difference(). R. G. Newcombe, "Improved confidence intervals for the
// difference between binomial proportions based on paired data", Statistics in Medicine 17 (1998)
// 2635-2650, method 10: Wilson's score intervals of both shares, combined by squares with their
// correlation phi (of which the numerator is shrunk by n/2, for continuity). With p = share right
// in the first model, q in the second, d = p - q:
//   low  = d - sqrt((p-lp)^2 - 2 phi (p-lp)(uq-q) + (uq-q)^2)
//   high = d + sqrt((up-p)^2 - 2 phi (up-p)(q-lq) + (q-lq)^2)
// [-1, 1] without samples.
Interval difference_interval(const PairedCounts& counts);

// Exact two-sided McNemar test: the probability of a split of the samples on which the two differ
// at least as uneven as this one, if both were equally good. (Q. McNemar, Psychometrika 12 (1947).)
double mcnemar_p(const PairedCounts& counts);

// Adds rows of class scores [rows, classes] and their labels; a row's class is the first of its
// largest scores. A label outside 0..classes-1 is an error that names its place, counted from
// `first`.
Status count_right(std::span<const double> reference, std::span<const double> other,
                   std::span<const std::int64_t> labels, std::size_t first, PairedCounts& counts);

// How many scores a row has if a tensor of this shape is rows of class scores: its last axis that
// is not followed by extents of 1 only, of at least two axes, no pictures behind it. Else an error
// in words.
Result<std::size_t> classes_of(const Shape& shape);

}  // namespace fold8::quant
