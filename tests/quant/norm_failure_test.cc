// Where an INT8 LayerNorm or RMSNorm goes wrong, and fold8's on the same input. Each naive variant
// makes one mistake and is otherwise in double; SQNR is against the norm of the exact input in
// double.
//   quant_test --gtest_filter='NormFailure*'    prints the figures
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "runtime/kernels/kernel_table.h"
#include "tests/support/random.h"

namespace fold8::quant {
namespace {

using fold8::testing::SeededRng;
using kernels::NormKind;
using Values = std::vector<double>;

constexpr std::size_t kRows = 16, kCols = 768;
constexpr double kEpsilon = 1e-5;

// Rows as INT32 sums of the layer in front (scales per channel and, with row_scale, per token), or
// as codes.
struct Input {
  std::vector<std::int32_t> acc;
  std::vector<float> multiplier = std::vector<float>(kCols, 1.0f),
                     offset = std::vector<float>(kCols), row_scale;
  std::vector<std::uint8_t> codes;
  float scale = 1;
  std::int32_t zero_point = 0;
  std::vector<float> gamma = std::vector<float>(kCols, 1.0f);

  Values exact() const {
    Values x(kRows * kCols);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t r = i / kCols, c = i % kCols;
      x[i] = codes.empty() ? double{row_scale.empty() ? 1.0f : row_scale[r]} * acc[i] *
                                     double{multiplier[c]} +
                                 double{offset[c]}
                           : double{scale} * (codes[i] - zero_point);
    }
    return x;
  }
};

// Mean (0 for RMSNorm) and mean square around it.
struct Statistics {
  double mean = 0, square = 0;
};
Statistics exact_statistics(NormKind kind, const double* x) {
  Statistics s;
  if (kind == NormKind::layer)
    for (std::size_t c = 0; c < kCols; ++c) s.mean += x[c] / kCols;
  for (std::size_t c = 0; c < kCols; ++c) s.square += (x[c] - s.mean) * (x[c] - s.mean) / kCols;
  return s;
}

// x normalized by what `statistics(row's x)` and `inverse(mean square)` say.
template <class StatisticsOf, class Inverse>
Values normalized(const Values& x, const std::vector<float>& gamma, const StatisticsOf& statistics,
                  const Inverse& inverse) {
  Values y(x.size());
  for (std::size_t r = 0; r < kRows; ++r) {
    const Statistics s = statistics(x.data() + r * kCols);
    for (std::size_t c = 0; c < kCols; ++c)
      y[r * kCols + c] = (x[r * kCols + c] - s.mean) * inverse(s.square) * double{gamma[c]};
  }
  return y;
}
double exact_inverse(double square) { return 1 / std::sqrt(square + kEpsilon); }
Values exact_norm(NormKind kind, const Values& x, const std::vector<float>& gamma) {
  return normalized(
      x, gamma, [&](const double* row) { return exact_statistics(kind, row); }, exact_inverse);
}

double sqnr_db(const Values& want, const Values& got) {
  double signal = 0, noise = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    signal += want[i] * want[i];
    noise += (want[i] - got[i]) * (want[i] - got[i]);
  }
  return 10 * std::log10(signal / noise);
}

// One scale and zero point for everything, from the range with zero in it.
struct Codes {
  double scale, zero_point;
  explicit Codes(const Values& x) {
    double low = 0, high = 0;
    for (double v : x) low = std::min(low, v), high = std::max(high, v);
    scale = (high - low) / 255;
    zero_point = std::nearbyint(-low / scale);
  }
  double rounded(double x) const {
    return (std::clamp(std::nearbyint(x / scale) + zero_point, 0.0, 255.0) - zero_point) * scale;
  }
};
Values rounded(const Values& x) {
  const Codes codes(x);
  Values y;
  for (double v : x) y.push_back(codes.rounded(v));
  return y;
}

// fold8's norm, as f32 or rounded to u8 inside.
Values fold8_norm(NormKind kind, const Input& in, const kernels::KernelTable& table,
                  const Codes* codes) {
  std::vector<float> y(kRows * kCols), scratch(kCols);
  std::vector<std::uint8_t> q(codes ? y.size() : 0);
  kernels::NormOutput out;
  if (codes == nullptr) {
    out.y = y.data();
  } else {
    out.quant = kernels::NormQuant::fixed;
    out.q = q.data();
    out.q_scale = static_cast<float>(codes->scale);
    out.q_zero_point = static_cast<std::int32_t>(codes->zero_point);
  }
  if (!in.codes.empty()) {
    table.norm_rows_q8({.kind = kind,
                        .rows = kRows,
                        .cols = kCols,
                        .x = in.codes.data(),
                        .scale = in.scale,
                        .zero_point = in.zero_point,
                        .gamma = in.gamma.data(),
                        .epsilon = static_cast<float>(kEpsilon),
                        .out = out});
  } else {
    table.norm_rows({.kind = kind,
                     .rows = kRows,
                     .cols = kCols,
                     .acc = in.acc.data(),
                     .multiplier = in.multiplier.data(),
                     .offset = in.offset.data(),
                     .row_scale = in.row_scale.empty() ? nullptr : in.row_scale.data(),
                     .gamma = in.gamma.data(),
                     .epsilon = static_cast<float>(kEpsilon),
                     .scratch = scratch.data(),
                     .out = out});
  }
  Values got(y.begin(), y.end());
  for (std::size_t i = 0; i < q.size(); ++i)
    got[i] = (q[i] - double{codes->zero_point}) * codes->scale;
  return got;
}

// The naive norm is at most 15 dB, fold8's at least 40 dB as u8 and 90 dB as f32, on every target.
void expect_fold8_holds(const std::string& row, NormKind kind, const Input& in,
                        const Values& naive) {
  const Values want = exact_norm(kind, in.exact(), in.gamma);
  const Codes codes(want);
  const double naive_db = sqnr_db(want, naive);
  EXPECT_LE(naive_db, 15) << row;
  double u8_db = 1e9, f32_db = 1e9;
  for (const kernels::Target& t : kernels::targets()) {
    if (!t.cpu_can_run()) continue;
    SCOPED_TRACE(std::string(t.name));
    u8_db = std::min(u8_db, sqnr_db(want, fold8_norm(kind, in, *t.kernels, &codes)));
    f32_db = std::min(f32_db, sqnr_db(want, fold8_norm(kind, in, *t.kernels, nullptr)));
    EXPECT_GE(u8_db, 40) << row;
    EXPECT_GE(f32_db, 90) << row;
  }
  std::printf("%-28s %-9s naive %6.1f dB   fold8 u8 %5.1f dB   f32 %6.1f dB\n", row.c_str(),
              kind == NormKind::layer ? "LayerNorm" : "RMSNorm", naive_db, u8_db, f32_db);
}

// ---- x - mu cancels, the step is coarse
TEST(NormFailure, TheStepIsCoarserThanTheDeviation) {
  SeededRng rng;
  Input near_mean;  // about 100, off by at most a half; RMSNorm: one channel of 1,000 that gamma
                    // damps
  near_mean.acc.resize(kRows * kCols);
  rng.fill_integers(std::span(near_mean.acc), -5000, 5000);
  for (float& m : near_mean.multiplier) m = 1e-4f;
  for (float& b : near_mean.offset) b = 100;
  const Values x = near_mean.exact();
  expect_fold8_holds("coarse step", NormKind::layer, near_mean,
                     exact_norm(NormKind::layer, rounded(x), near_mean.gamma));

  Input one_loud = near_mean;
  for (float& b : one_loud.offset) b = 0;
  one_loud.offset[5] = 1000;
  one_loud.gamma[5] = 1e-4f;
  const Values loud = one_loud.exact();
  expect_fold8_holds("coarse step", NormKind::rms, one_loud,
                     exact_norm(NormKind::rms, rounded(loud), one_loud.gamma));
}

// ---- the sum of squares outgrows 16 bits
TEST(NormFailure, TheSumOfSquaresOutgrowsItsAccumulator) {
  SeededRng rng;
  Input in;
  in.codes.resize(kRows * kCols);
  rng.fill_integers(std::span(in.codes), 0, 255);
  in.scale = 0.02f;
  in.zero_point = 128;
  const Values x = in.exact();
  for (NormKind kind : {NormKind::layer, NormKind::rms}) {
    const auto saturated = [&](const double* row) {
      Statistics s = exact_statistics(kind, row);
      const double unit = double{in.scale} * double{in.scale}, sum = s.square * kCols / unit;
      s.square = std::min(sum, 32767.0) * unit / kCols;
      return s;
    };
    expect_fold8_holds("16-bit sum of squares", kind, in,
                       normalized(x, in.gamma, saturated, exact_inverse));
  }
}

// ---- near values share a bucket: means of codes and of their squares, rounded to integers
TEST(NormFailure, TheVarianceComesFromRoundedMeans) {
  SeededRng rng;
  Input in;
  in.codes.resize(kRows * kCols);
  for (std::size_t i = 0; i < in.codes.size(); ++i)
    in.codes[i] = static_cast<std::uint8_t>(200 + i / kCols % 4 + rng.integer(0, 3));
  in.scale = 0.05f;
  in.zero_point = 201;
  const Values x = in.exact();
  for (NormKind kind : {NormKind::layer, NormKind::rms}) {
    const auto biased = [&](const double* row) {
      double sum = 0, squares = 0;
      for (std::size_t c = 0; c < kCols; ++c) {
        const double q = std::nearbyint(row[c] / double{in.scale}) + in.zero_point;
        sum += q;
        squares += q * q;
      }
      const double mean = std::nearbyint(sum / kCols), z = in.zero_point;
      const double square = std::nearbyint(squares / kCols) -
                            (kind == NormKind::layer ? mean * mean : 2 * z * mean - z * z);
      return Statistics{kind == NormKind::layer ? (mean - z) * double{in.scale} : 0,
                        std::max(square, 0.0) * double{in.scale} * double{in.scale}};
    };
    expect_fold8_holds("variance of rounded means", kind, in,
                       normalized(x, in.gamma, biased, exact_inverse));
  }
}

// ---- dividing by sigma amplifies: its reciprocal has one u8 scale for all rows
TEST(NormFailure, TheReciprocalDeviationIsACode) {
  SeededRng rng;
  Input in;
  in.acc.resize(kRows * kCols);
  rng.fill_integers(std::span(in.acc), -20000, 20000);
  for (std::size_t r = 0; r < kRows; ++r) in.row_scale.push_back(r == 0 ? 1e-6f : 1e-3f);
  const Values x = in.exact();
  for (NormKind kind : {NormKind::layer, NormKind::rms}) {
    Values inverses;
    for (std::size_t r = 0; r < kRows; ++r)
      inverses.push_back(exact_inverse(exact_statistics(kind, x.data() + r * kCols).square));
    const Codes codes(inverses);
    expect_fold8_holds(
        "1 / sigma as a code", kind, in,
        normalized(
            x, in.gamma, [&](const double* row) { return exact_statistics(kind, row); },
            [&](double square) { return codes.rounded(exact_inverse(square)); }));
  }
}

// ---- every token has its own range: one static scale for all of them
TEST(NormFailure, TokensOfDifferentSizeShareAScale) {
  SeededRng rng;
  Input in;
  in.acc.resize(kRows * kCols);
  rng.fill_integers(std::span(in.acc), -20000, 20000);
  for (std::size_t r = 0; r < kRows; ++r) in.row_scale.push_back(r == 0 ? 1e-2f : 1e-5f);
  const Values x = in.exact();
  for (NormKind kind : {NormKind::layer, NormKind::rms})
    expect_fold8_holds("one scale for all tokens", kind, in,
                       exact_norm(kind, rounded(x), in.gamma));
}

}  // namespace
}  // namespace fold8::quant
