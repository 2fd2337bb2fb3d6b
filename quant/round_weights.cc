#include "quant/round_weights.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "quant/wide_loops.h"

namespace fold8::quant {
namespace {

constexpr std::size_t kBlock = 48;  // channels whose effect on the others is summed up at a time
constexpr std::size_t kTile = Effects::kLanes;  // outputs rounded side by side
constexpr std::size_t kTogether = 4;            // tiles
constexpr std::size_t kRows = 12;  // of a matrix that a panel is subtracted from at once

constexpr double kToInteger = 0x1.8p52;  // x + it - it: rounded to an integer, half to even

// a (row-major, n x n, its upper triangle) becomes R with R^T R = a.
// `least`: what no pivot is below but for rounding.
void cholesky(std::vector<double>& a, std::size_t n, double least, ThreadPool& pool) {
  for (std::size_t b = 0; b < n; b += kBlock) {
    const std::size_t end = std::min(b + kBlock, n);
    for (std::size_t k = b; k < end; ++k) {
      double* rk = a.data() + k * n;
      const double d = __builtin_sqrt(std::max(rk[k], least));
      rk[k] = d;
      for (std::size_t j = k + 1; j < n; ++j) rk[j] /= d;
      for (std::size_t i = k + 1; i < end; ++i) {
        double* ri = a.data() + i * n;
        const double f = rk[i];
        for (std::size_t j = i; j < n; ++j) ri[j] -= f * rk[j];
      }
    }
    if (end == n) break;
    pool.parallel_for(n - end, 16, [&](std::size_t first, std::size_t last, std::size_t) {
      for (std::size_t i = end + first; i < end + last; i += kRows) {
        const std::size_t rows = std::min(kRows, end + last - i);
        // Whole vectors up to the last column; what lies below the diagonal is never read.
        const std::size_t cols = (n - i + kTile - 1) / kTile * kTile, j = cols <= n ? n - cols : i;
        const double* rk = a.data() + b * n;
        subtract_products({a.data() + i * n + j, rk + i, rk + j, n, rows, n - j, end - b});
      }
    });
  }
}

// One tile of outputs: weights, and what they have been rounded to, channel by channel.
class Tile {
 public:
  explicit Tile(const RoundingFactor& factor)
      : factor_(factor), w_(factor.width() * kTile), e_(w_.size()), sum_(w_.size()) {}

  void begin(std::span<const float> w, std::size_t first, std::size_t count,
             std::span<const float> scales, std::int8_t* codes) {
    first_ = first;
    count_ = count;
    codes_ = codes;
    const std::size_t width = factor_.width();
    std::fill(w_.begin(), w_.end(), 0.0);
    std::fill(sum_.begin(), sum_.end(), 0.0);
    for (std::size_t t = 0; t < kTile; ++t) scale_[t] = t < count ? double{scales[first + t]} : 1.0;
    for (std::size_t j = 0; j < width; ++j)
      for (std::size_t t = 0; t < count; ++t)
        w_[j * kTile + t] = w[(first + t) * width + factor_.order()[j]];
  }

  // Channels [begin, end), the last first; those behind have been rounded and added.
  void round(std::size_t begin, std::size_t end) {
    for (std::size_t j = end; j-- > begin;) {
      add(j, 1, j + 1, end);
      double q[kTile];
      choose(j, q);
      for (std::size_t t = 0; t < count_; ++t)
        codes_[(first_ + t) * factor_.width() + factor_.order()[j]] =
            static_cast<std::int8_t>(q[t]);
    }
  }

  // sum_j += R_ji e_i for i in [begin, end), for `count` channels from j on.
  void add(std::size_t j, std::size_t count, std::size_t begin, std::size_t end) {
    add_effects({sum_.data() + j * kTile, factor_.row(j) + begin, e_.data() + begin * kTile,
                 factor_.width(), count, end - begin});
  }

 private:
  void choose(std::size_t j, double* q) {
    const double diagonal = factor_.row(j)[j];
    for (std::size_t t = 0; t < kTile; ++t) {
      const double w = w_[j * kTile + t], wanted = w + sum_[j * kTile + t] / diagonal;
      q[t] = (std::clamp(wanted / scale_[t], -127.0, 127.0) + kToInteger) - kToInteger;
      e_[j * kTile + t] = w - q[t] * scale_[t];
    }
  }

  const RoundingFactor& factor_;
  std::vector<double> w_, e_, sum_;  // [width, kTile]
  double scale_[kTile] = {};
  std::size_t first_ = 0, count_ = 0;
  std::int8_t* codes_ = nullptr;
};

// Tiles that go through the factor together, so that it is read once for all of them.
void round_tiles(std::span<Tile> tiles, std::size_t width) {
  for (std::size_t end = width; end > 0;) {
    const std::size_t begin = end > kBlock ? end - kBlock : 0;
    for (Tile& tile : tiles) tile.round(begin, end);
    for (std::size_t j = 0; j < begin; j += kBlock)
      for (Tile& tile : tiles) tile.add(j, std::min(kBlock, begin - j), begin, end);
    end = begin;
  }
}

}  // namespace

Result<RoundingFactor> RoundingFactor::of(const Moments& moments, ThreadPool& pool) {
  const std::size_t n = moments.width;
  double mean = 0;
  for (std::size_t j = 0; j < n; ++j)
    mean += double{moments.xx[j * n + j]} / static_cast<double>(n);
  if (!std::isfinite(mean)) return invalid_model("its second moments are not finite");
  RoundingFactor f;
  f.order_.resize(n);
  std::iota(f.order_.begin(), f.order_.end(), std::size_t{0});
  std::stable_sort(f.order_.begin(), f.order_.end(), [&](std::size_t a, std::size_t b) {
    return moments.xx[a * n + a] < moments.xx[b * n + b];
  });
  const double lambda = mean > 0 ? kDamping * mean : 1.0;
  f.r_.assign(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    const float* row = moments.xx.data() + f.order_[i] * n;
    double* r = f.r_.data() + i * n;
    for (std::size_t j = i; j < n; ++j) r[j] = row[f.order_[j]];
    r[i] += lambda;
  }
  cholesky(f.r_, n, lambda / 2, pool);
  return f;
}

Result<QuantizedWeight> round_for_outputs(std::span<const float> w, const Shape& shape,
                                          const RoundingFactor& factor,
                                          WeightGranularity granularity, ThreadPool& pool) {
  // Scales (and what NaN deserves) as without moments.
  FOLD8_TRY(QuantizedWeight result, quantize_weight(w, shape, 0, granularity));
  const std::size_t outputs = w.size() / factor.width(), tiles = (outputs + kTile - 1) / kTile;
  const auto scales = result.params.scales();
  const std::size_t turns = (tiles + kTogether - 1) / kTogether;
  pool.parallel_for(turns, 1, [&](std::size_t begin, std::size_t end, std::size_t) {
    std::vector<Tile> together(std::min(kTogether, tiles), Tile(factor));
    for (std::size_t turn = begin; turn < end; ++turn) {
      const std::size_t first = turn * kTogether, count = std::min(kTogether, tiles - first);
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t output = (first + i) * kTile;
        together[i].begin(w, output, std::min(kTile, outputs - output), scales,
                          result.codes.data());
      }
      round_tiles(std::span(together).first(count), factor.width());
    }
  });
  return result;
}

}  // namespace fold8::quant
