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
  // Of every `group` inputs a scale.
  Tile(const RoundingFactor& factor, std::size_t group)
      : factor_(factor),
        group_(group),
        blocks_((factor.width() + group - 1) / group),
        w_(factor.width() * kTile),
        e_(w_.size()),
        sum_(w_.size()),
        scales_(blocks_ * kTile) {}

  void begin(std::span<const float> w, std::size_t first, std::size_t count,
             std::span<const float> scales, std::int8_t* codes) {
    first_ = first;
    count_ = count;
    codes_ = codes;
    const std::size_t width = factor_.width();
    std::fill(w_.begin(), w_.end(), 0.0);
    std::fill(sum_.begin(), sum_.end(), 0.0);
    for (std::size_t b = 0; b < blocks_; ++b)
      for (std::size_t t = 0; t < kTile; ++t)
        scales_[b * kTile + t] = t < count ? double{scales[(first + t) * blocks_ + b]} : 1.0;
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
    const double* scale = scales_.data() + factor_.order()[j] / group_ * kTile;
    for (std::size_t t = 0; t < kTile; ++t) {
      const double w = w_[j * kTile + t], wanted = w + sum_[j * kTile + t] / diagonal;
      q[t] = (std::clamp(wanted / scale[t], -127.0, 127.0) + kToInteger) - kToInteger;
      e_[j * kTile + t] = w - q[t] * scale[t];
    }
  }

  const RoundingFactor& factor_;
  const std::size_t group_, blocks_;
  std::vector<double> w_, e_, sum_;  // [width, kTile]
  std::vector<double> scales_;       // [blocks, kTile]
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
                                          std::span<const RoundingFactor> factors,
                                          WeightGranularity granularity, ThreadPool& pool,
                                          std::int64_t group) {
  // Scales (and what NaN deserves) as without moments.
  FOLD8_TRY(QuantizedWeight result, group > 0 ? quantize_weight_groups(w, shape, group)
                                              : quantize_weight(w, shape, 0, granularity));
  const std::size_t block = group > 0 ? static_cast<std::size_t>(group) : factors[0].width();
  const std::size_t width = factors[0].width(), per_group = w.size() / width / factors.size(),
                    tiles = (per_group + kTile - 1) / kTile;
  const auto scales = result.params.scales();
  const std::size_t turns = (tiles + kTogether - 1) / kTogether;
  pool.parallel_for(
      turns * factors.size(), 1, [&](std::size_t begin, std::size_t end, std::size_t) {
        for (std::size_t i = begin; i < end; ++i) {
          const std::size_t group = i / turns, first = i % turns * kTogether,
                            count = std::min(kTogether, tiles - first);
          std::vector<Tile> together(count, Tile(factors[group], block));
          for (std::size_t t = 0; t < count; ++t) {
            const std::size_t output = (first + t) * kTile;
            together[t].begin(w, group * per_group + output, std::min(kTile, per_group - output),
                              scales, result.codes.data());
          }
          round_tiles(together, width);
        }
      });
  return result;
}

}  // namespace fold8::quant
