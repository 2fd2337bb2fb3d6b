#include "quant/wide_loops.h"

#include <cstring>

namespace fold8::quant {
namespace {

// One body for all: vectors of GCC's own, which become what the function around them may use.
#define FOLD8_INLINE inline __attribute__((always_inline))

template <int kWidth>
struct Vector {
  typedef double Type __attribute__((vector_size(kWidth * sizeof(double))));
};

template <int kWidth>
using V = typename Vector<kWidth>::Type;

template <int kWidth>
FOLD8_INLINE void load(V<kWidth>& v, const double* from) {
  std::memcpy(&v, from, sizeof v);
}
template <int kWidth>
FOLD8_INLINE void store(double* to, const V<kWidth>& v) {
  std::memcpy(to, &v, sizeof v);
}

// A tile of kRows x (kVectors * kWidth) elements of c stays in registers over the whole depth.
template <int kWidth, int kRows, int kVectors>
FOLD8_INLINE void subtract_tile(const Products& p, std::size_t i, std::size_t j) {
  V<kWidth> c[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v)
      load<kWidth>(c[r][v], p.c + (i + static_cast<std::size_t>(r)) * p.stride + j +
                                static_cast<std::size_t>(v * kWidth));
  for (std::size_t k = 0; k < p.depth; ++k) {
    V<kWidth> b[kVectors];
    for (int v = 0; v < kVectors; ++v)
      load<kWidth>(b[v], p.b + k * p.stride + j + static_cast<std::size_t>(v * kWidth));
    const double* a = p.a + k * p.stride + i;
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v) c[r][v] -= a[r] * b[v];
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v)
      store<kWidth>(p.c + (i + static_cast<std::size_t>(r)) * p.stride + j +
                        static_cast<std::size_t>(v * kWidth),
                    c[r][v]);
}

FOLD8_INLINE void subtract_singly(const Products& p, std::size_t i, std::size_t end_i,
                                  std::size_t j, std::size_t end_j) {
  for (; i < end_i; ++i)
    for (std::size_t n = j; n < end_j; ++n) {
      double c = p.c[i * p.stride + n];
      for (std::size_t k = 0; k < p.depth; ++k) c -= p.a[k * p.stride + i] * p.b[k * p.stride + n];
      p.c[i * p.stride + n] = c;
    }
}

template <int kWidth, int kRows, int kVectors>
FOLD8_INLINE void subtract_all(const Products& p) {
  constexpr std::size_t kCols = kWidth * kVectors;
  const std::size_t rows = p.rows / kRows * kRows, cols = p.cols / kCols * kCols;
  for (std::size_t j = 0; j < cols; j += kCols)
    for (std::size_t i = 0; i < rows; i += kRows) subtract_tile<kWidth, kRows, kVectors>(p, i, j);
  subtract_singly(p, 0, rows, cols, p.cols);
  subtract_singly(p, rows, p.rows, 0, p.cols);
}

template <int kWidth, int kRows>
FOLD8_INLINE void add_rows(const Effects& p, std::size_t j) {
  constexpr int kVectors = static_cast<int>(Effects::kLanes) / kWidth;
  V<kWidth> sum[kRows][kVectors];
  double* at = p.sum + j * Effects::kLanes;
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v)
      load<kWidth>(sum[r][v], at + static_cast<std::size_t>(r) * Effects::kLanes + v * kWidth);
  for (std::size_t i = 0; i < p.depth; ++i) {
    V<kWidth> e[kVectors];
    for (int v = 0; v < kVectors; ++v) load<kWidth>(e[v], p.e + i * Effects::kLanes + v * kWidth);
    for (int r = 0; r < kRows; ++r) {
      const double f = p.r[(j + static_cast<std::size_t>(r)) * p.stride + i];
      for (int v = 0; v < kVectors; ++v) sum[r][v] += f * e[v];
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v)
      store<kWidth>(at + static_cast<std::size_t>(r) * Effects::kLanes + v * kWidth, sum[r][v]);
}

template <int kWidth, int kRows>
FOLD8_INLINE void add_all(const Effects& p) {
  std::size_t j = 0;
  for (; j + kRows <= p.rows; j += kRows) add_rows<kWidth, kRows>(p, j);
  for (; j < p.rows; ++j) add_rows<kWidth, 1>(p, j);
}

void subtract_plain(const Products& p) { subtract_all<2, 2, 4>(p); }
__attribute__((target("avx2"))) void subtract_avx2(const Products& p) { subtract_all<4, 4, 2>(p); }
__attribute__((target("avx512f"))) void subtract_avx512(const Products& p) {
  subtract_all<8, 6, 2>(p);
}

void add_plain(const Effects& p) { add_all<2, 1>(p); }
__attribute__((target("avx2"))) void add_avx2(const Effects& p) { add_all<4, 2>(p); }
__attribute__((target("avx512f"))) void add_avx512(const Effects& p) { add_all<8, 6>(p); }

enum class Width { plain, avx2, avx512 };

Width width() {
  static const Width best = __builtin_cpu_supports("avx512f") ? Width::avx512
                            : __builtin_cpu_supports("avx2")  ? Width::avx2
                                                              : Width::plain;
  return best;
}

}  // namespace

void subtract_products(const Products& p) {
  switch (width()) {
    case Width::avx512:
      return subtract_avx512(p);
    case Width::avx2:
      return subtract_avx2(p);
    case Width::plain:
      return subtract_plain(p);
  }
}

void add_effects(const Effects& p) {
  switch (width()) {
    case Width::avx512:
      return add_avx512(p);
    case Width::avx2:
      return add_avx2(p);
    case Width::plain:
      return add_plain(p);
  }
}

}  // namespace fold8::quant
