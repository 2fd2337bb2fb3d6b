// How far one tensor is from another, over any number of samples; sums in double.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "quant/numbers.h"
#include "runtime/core/result.h"

namespace fold8::quant {

struct ErrorSummary {
  std::optional<double>
      sqnr_db;  // 10 log10(sum ref^2 / sum (ref-got)^2); none if the error or the reference is zero
  bool exact = false;            // every element equal
  std::optional<double> cosine;  // none if a vector is zero
  double max_abs = 0;
  std::optional<double> rel_l2;  // sqrt(sum (ref-got)^2 / sum ref^2)
  double bias = 0;               // mean of got - ref
  std::uint64_t elements = 0;
};

class ErrorMeter {
 public:
  // Adds a sample. NaN or infinity in either is an error that says which (infinities that agree are
  // taken as equal).
  Status add(std::span<const float> reference, std::span<const float> got);
  Status add(const Numbers& reference, const Numbers& got);
  ErrorSummary summary() const;

 private:
  void add_finite(const float* reference, const float* got, std::size_t n);
  double ref2_ = 0, err2_ = 0, got2_ = 0, dot_ = 0, err_ = 0, max_abs_ = 0;
  std::uint64_t n_ = 0;
};

// Agreement of classifiers: rows of `classes` scores. top-k: the reference's best class is among
// got's k best, with k=1, 5. kl: mean over rows of KL(softmax(ref) || softmax(got)), or of the rows
// themselves if they are already distributions.
class ClassMeter {
 public:
  void add(std::span<const float> reference, std::span<const float> got, std::size_t classes);
  void add(std::span<const double> reference, std::span<const double> got, std::size_t classes);
  std::optional<double> top1() const;
  std::optional<double> top5() const;
  std::optional<double> kl() const;
  std::uint64_t rows() const { return rows_; }

 private:
  template <class T>
  void add_rows(std::span<const T> reference, std::span<const T> got, std::size_t classes);
  std::uint64_t rows_ = 0, top1_ = 0, top5_ = 0;
  double kl_ = 0;
};

}  // namespace fold8::quant
