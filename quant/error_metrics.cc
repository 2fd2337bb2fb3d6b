#include "quant/error_metrics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "quant/wide.h"
#include "runtime/kernels/math_double.h"

namespace fold8::quant {

namespace {

bool all_finite(const float* a, const float* b, std::size_t n) {
  std::uint32_t odd = 0;
  wide([&] {
    constexpr std::uint32_t kExponent = 0x7f800000u;
    std::uint32_t any = 0;
    for (std::size_t i = 0; i < n; ++i)
      any |= (std::bit_cast<std::uint32_t>(a[i]) & kExponent) == kExponent ||
                     (std::bit_cast<std::uint32_t>(b[i]) & kExponent) == kExponent
                 ? 1u
                 : 0u;
    odd = any;
  });
  return odd == 0;
}

}  // namespace

// The sums are chains of additions, element after element: what can be done is to keep them in
// registers, and everything else out of their loop.
void ErrorMeter::add_finite(const float* reference, const float* got, std::size_t n) {
  double ref2 = ref2_, got2 = got2_, dot = dot_, err2 = err2_, err = err_, max_abs = max_abs_;
  for (std::size_t i = 0; i < n; ++i) {
    const double r = reference[i], g = got[i], e = g - r;
    ref2 += r * r;
    got2 += g * g;
    dot += r * g;
    err2 += e * e;
    err += e;
    max_abs = std::max(max_abs, std::abs(e));
  }
  ref2_ = ref2;
  got2_ = got2;
  dot_ = dot;
  err2_ = err2;
  err_ = err;
  max_abs_ = max_abs;
}

Status ErrorMeter::add(std::span<const float> reference, std::span<const float> got) {
  if (reference.size() != got.size())
    return internal_error("comparing " + std::to_string(reference.size()) + " elements with " +
                          std::to_string(got.size()));
  constexpr std::size_t kBlock = 2048;
  for (std::size_t begin = 0; begin < got.size(); begin += kBlock) {
    const std::size_t n = std::min(kBlock, got.size() - begin);
    const float *r = reference.data() + begin, *g = got.data() + begin;
    if (all_finite(r, g, n)) {
      add_finite(r, g, n);
      continue;
    }
    for (std::size_t i = 0; i < n; ++i) {
      if (std::isfinite(r[i]) && std::isfinite(g[i]))
        add_finite(r + i, g + i, 1);
      else if (!(r[i] == g[i]))
        return invalid_model("element " + std::to_string(begin + i) + " is " +
                             std::to_string(static_cast<double>(r[i])) + " in the reference and " +
                             std::to_string(static_cast<double>(g[i])) + " in the other model");
    }
  }
  n_ += got.size();
  return ok_status();
}

Status ErrorMeter::add(const Numbers& reference, const Numbers& got) {
  if (reference.size() != got.size())
    return internal_error("comparing " + std::to_string(reference.size()) + " elements with " +
                          std::to_string(got.size()));
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double r = reference.values[i], g = got.values[i];
    if (!std::isfinite(r) || !std::isfinite(g)) {
      if (r == g) continue;
      return invalid_model("element " + std::to_string(i) + " is " + std::to_string(r) +
                           " in the reference and " + std::to_string(g) + " in the other model");
    }
    const double e = reference.to(got, i);
    ref2_ += r * r;
    got2_ += g * g;
    dot_ += r * g;
    err2_ += e * e;
    err_ += e;
    max_abs_ = std::max(max_abs_, std::abs(e));
  }
  n_ += got.size();
  return ok_status();
}

ErrorSummary ErrorMeter::summary() const {
  ErrorSummary s;
  s.elements = n_;
  s.exact = n_ > 0 && max_abs_ == 0;
  s.max_abs = max_abs_;
  s.bias = n_ ? err_ / static_cast<double>(n_) : 0;
  if (err2_ > 0 && ref2_ > 0) s.sqnr_db = 10 * kernels::log10_f64(ref2_ / err2_);
  if (ref2_ > 0) s.rel_l2 = std::sqrt(err2_ / ref2_);
  if (ref2_ > 0 && got2_ > 0) s.cosine = s.exact ? 1.0 : dot_ / std::sqrt(ref2_) / std::sqrt(got2_);
  return s;
}

namespace {

// Rows that are non-negative and sum to one are distributions already.
template <class T>
std::vector<double> distribution(std::span<const T> row) {
  double sum = 0;
  bool negative = false;
  for (const T v : row) {
    sum += v;
    negative |= v < 0;
  }
  std::vector<double> p(row.begin(), row.end());
  if (!negative && std::abs(sum - 1) < 1e-3) return p;
  const double m = *std::max_element(p.begin(), p.end());
  sum = 0;
  for (double& v : p) sum += v = kernels::exp_f64(v - m);
  for (double& v : p) v /= sum;
  return p;
}

// How many elements are greater than element k, ties before it counting as greater.
template <class T>
std::size_t rank_of(std::span<const T> row, std::size_t k) {
  std::size_t rank = 0;
  for (std::size_t i = 0; i < row.size(); ++i)
    rank += row[i] > row[k] || (row[i] == row[k] && i < k);
  return rank;
}

}  // namespace

template <class T>
void ClassMeter::add_rows(std::span<const T> reference, std::span<const T> got,
                          std::size_t classes) {
  if (classes < 2) return;
  for (std::size_t b = 0; b + classes <= reference.size(); b += classes) {
    const auto r = reference.subspan(b, classes), g = got.subspan(b, classes);
    const auto best = static_cast<std::size_t>(std::max_element(r.begin(), r.end()) - r.begin());
    const std::size_t rank = rank_of(g, best);
    top1_ += rank == 0;
    top5_ += rank < 5;
    const std::vector<double> p = distribution(r), q = distribution(g);
    for (std::size_t i = 0; i < classes; ++i)
      if (p[i] > 0)
        kl_ += p[i] * (kernels::log_f64(p[i]) - kernels::log_f64(std::max(q[i], 1e-30)));
    ++rows_;
  }
}

void ClassMeter::add(std::span<const float> reference, std::span<const float> got,
                     std::size_t classes) {
  add_rows(reference, got, classes);
}
void ClassMeter::add(std::span<const double> reference, std::span<const double> got,
                     std::size_t classes) {
  add_rows(reference, got, classes);
}

std::optional<double> ClassMeter::top1() const {
  return rows_ ? std::optional(static_cast<double>(top1_) / static_cast<double>(rows_))
               : std::nullopt;
}
std::optional<double> ClassMeter::top5() const {
  return rows_ ? std::optional(static_cast<double>(top5_) / static_cast<double>(rows_))
               : std::nullopt;
}
std::optional<double> ClassMeter::kl() const {
  return rows_ ? std::optional(kl_ / static_cast<double>(rows_)) : std::nullopt;
}

}  // namespace fold8::quant
