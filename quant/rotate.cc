#include "quant/rotate.h"

#include "runtime/core/rotation.h"

namespace fold8::quant {
namespace {

constexpr double kNorm = 1.0 / kRotatedSegments;

// A row, whose element i is at(i).
template <class At>
void rotate(std::size_t width, const At& at) {
  const std::size_t m = width / kRotatedSegments;
  for (std::size_t j = 0; j < m; ++j) {
    double v[kRotatedSegments];
    for (std::size_t k = 0; k < kRotatedSegments; ++k) v[k] = at(k * m + j);
    rotate_segments(v);
    for (std::size_t k = 0; k < kRotatedSegments; ++k) at(k * m + j) = v[k];
  }
}

std::vector<float> rotated(std::span<const float> rows, std::size_t width, double factor) {
  std::vector<float> result(rows.size());
  std::vector<double> row(width);
  for (std::size_t r = 0; r + width <= rows.size(); r += width) {
    for (std::size_t j = 0; j < width; ++j) row[j] = double{rows[r + j]} * factor;
    rotate(width, [&](std::size_t i) -> double& { return row[i]; });
    for (std::size_t j = 0; j < width; ++j) result[r + j] = static_cast<float>(row[j]);
  }
  return result;
}

}  // namespace

bool can_rotate(std::size_t width) { return width > 0 && width % kRotatedSegments == 0; }

std::vector<float> rotated_rows(std::span<const float> rows, std::size_t width) {
  return rotated(rows, width, 1);
}

std::vector<float> rotated_weights(std::span<const float> w, std::size_t width) {
  return rotated(w, width, kNorm);
}

void rotate_moments(Moments& moments) {
  const std::size_t n = moments.width;
  std::vector<double> xx(moments.xx.begin(), moments.xx.end());
  for (std::size_t r = 0; r < n; ++r)
    rotate(n, [&](std::size_t i) -> double& { return xx[r * n + i]; });
  for (std::size_t c = 0; c < n; ++c)
    rotate(n, [&](std::size_t i) -> double& { return xx[i * n + c]; });
  // Symmetric again, after sums in two orders.
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j)
      moments.xx[i * n + j] = moments.xx[j * n + i] =
          static_cast<float>((xx[i * n + j] + xx[j * n + i]) / 2);
}

}  // namespace fold8::quant
