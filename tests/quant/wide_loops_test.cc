#include "quant/wide_loops.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/support/random.h"

namespace fold8::quant {
namespace {

std::vector<double> numbers(std::size_t count, testing::SeededRng& rng) {
  std::vector<double> v(count);
  for (double& x : v) x = double{rng.normal()} * rng.uniform(0, 8);
  return v;
}

class WideLoops : public ::testing::TestWithParam<LoopWidth> {};

// Those of this CPU, as the tests of kernels run under the targets it can run.
std::vector<LoopWidth> widths() {
  std::vector<LoopWidth> all;
  for (const LoopWidth w : {LoopWidth::plain, LoopWidth::avx2, LoopWidth::avx512})
    if (cpu_has(w)) all.push_back(w);
  return all;
}

TEST_P(WideLoops, SubtractsProductsOneAfterTheOther) {
  testing::SeededRng rng;
  for (const std::size_t rows : {1, 5, 6, 12, 13})
    for (const std::size_t cols : {1, 7, 8, 15, 16, 17, 33})
      for (const std::size_t depth : {0, 1, 48}) {
        const std::size_t stride = 40;
        std::vector<double> c = numbers(rows * stride, rng);
        const std::vector<double> a = numbers((depth + 1) * stride, rng),
                                  b = numbers((depth + 1) * stride, rng);
        std::vector<double> expected = c;
        for (std::size_t i = 0; i < rows; ++i)
          for (std::size_t j = 0; j < cols; ++j)
            for (std::size_t k = 0; k < depth; ++k) {
              const double product = a[k * stride + i] * b[k * stride + j];
              expected[i * stride + j] -= product;
            }
        subtract_products({c.data(), a.data(), b.data(), stride, rows, cols, depth}, GetParam());
        EXPECT_EQ(c, expected) << rows << " x " << cols << ", " << depth << " deep";
      }
}

TEST_P(WideLoops, AddsEffectsOneAfterTheOther) {
  testing::SeededRng rng;
  constexpr std::size_t kLanes = Effects::kLanes;
  for (const std::size_t rows : {1, 2, 5, 6, 7, 48})
    for (const std::size_t depth : {0, 1, 31, 48}) {
      const std::size_t stride = 50;
      std::vector<double> sum = numbers(rows * kLanes, rng);
      const std::vector<double> r = numbers(rows * stride, rng),
                                e = numbers((depth + 1) * kLanes, rng);
      std::vector<double> expected = sum;
      for (std::size_t j = 0; j < rows; ++j)
        for (std::size_t t = 0; t < kLanes; ++t)
          for (std::size_t i = 0; i < depth; ++i) {
            const double product = r[j * stride + i] * e[i * kLanes + t];
            expected[j * kLanes + t] += product;
          }
      add_effects({sum.data(), r.data(), e.data(), stride, rows, depth}, GetParam());
      EXPECT_EQ(sum, expected) << rows << " rows, " << depth << " deep";
    }
}

std::string name_of(const ::testing::TestParamInfo<LoopWidth>& info) {
  return info.param == LoopWidth::avx512 ? "avx512"
         : info.param == LoopWidth::avx2 ? "avx2"
                                         : "plain";
}
INSTANTIATE_TEST_SUITE_P(All, WideLoops, ::testing::ValuesIn(widths()), name_of);

}  // namespace
}  // namespace fold8::quant
