#include "quant/round_weights.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace fold8::quant {
namespace {

constexpr std::size_t kBlock = 48;  // channels whose effect on the others is summed up at a time
constexpr std::size_t kTile = 16;   // outputs rounded side by side

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
      for (std::size_t i = end + first; i < end + last; ++i) {
        double* ri = a.data() + i * n;
        for (std::size_t k = b; k < end; ++k) {
          const double* rk = a.data() + k * n;
          const double f = rk[i];
          for (std::size_t j = i; j < n; ++j) ri[j] -= f * rk[j];
        }
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

  void round(std::span<const float> w, std::size_t first, std::size_t count,
             std::span<const float> scales, std::int8_t* codes) {
    const std::size_t width = factor_.width();
    const auto order = factor_.order();
    std::fill(w_.begin(), w_.end(), 0.0);
    std::fill(sum_.begin(), sum_.end(), 0.0);
    for (std::size_t b = 0; b < blocks_; ++b)
      for (std::size_t t = 0; t < kTile; ++t)
        scales_[b * kTile + t] = t < count ? double{scales[(first + t) * blocks_ + b]} : 1.0;
    for (std::size_t j = 0; j < width; ++j)
      for (std::size_t t = 0; t < count; ++t) w_[j * kTile + t] = w[(first + t) * width + order[j]];
    for (std::size_t end = width; end > 0;) {
      const std::size_t begin = end > kBlock ? end - kBlock : 0;
      for (std::size_t j = end; j-- > begin;) {
        add_effects(j, j + 1, end);
        double q[kTile];
        choose(j, q);
        for (std::size_t t = 0; t < count; ++t)
          codes[(first + t) * width + order[j]] = static_cast<std::int8_t>(q[t]);
      }
      for (std::size_t j = 0; j < begin; ++j) add_effects(j, begin, end);
      end = begin;
    }
  }

 private:
  // sum_j += R_ji e_i for i in [begin, end).
  void add_effects(std::size_t j, std::size_t begin, std::size_t end) {
    const double* r = factor_.row(j);
    double sum[kTile];
    double* kept = sum_.data() + j * kTile;
    for (std::size_t t = 0; t < kTile; ++t) sum[t] = kept[t];
    for (std::size_t i = begin; i < end; ++i) {
      const double* e = e_.data() + i * kTile;
      const double f = r[i];
      for (std::size_t t = 0; t < kTile; ++t) sum[t] += f * e[t];
    }
    for (std::size_t t = 0; t < kTile; ++t) kept[t] = sum[t];
  }

  void choose(std::size_t j, double* q) {
    const double diagonal = factor_.row(j)[j];
    const double* scale = scales_.data() + factor_.order()[j] / group_ * kTile;
    for (std::size_t t = 0; t < kTile; ++t) {
      const double w = w_[j * kTile + t], wanted = w + sum_[j * kTile + t] / diagonal;
      q[t] = std::clamp(__builtin_rint(wanted / scale[t]), -127.0, 127.0);
      e_[j * kTile + t] = w - q[t] * scale[t];
    }
  }

  const RoundingFactor& factor_;
  const std::size_t group_, blocks_;
  std::vector<double> w_, e_, sum_;  // [width, kTile]
  std::vector<double> scales_;       // [blocks, kTile]
};

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
  pool.parallel_for(tiles * factors.size(), 1,
                    [&](std::size_t begin, std::size_t end, std::size_t) {
                      for (std::size_t i = begin; i < end; ++i) {
                        const std::size_t group = i / tiles, first = i % tiles * kTile;
                        Tile(factors[group], block)
                            .round(w, group * per_group + first, std::min(kTile, per_group - first),
                                   scales, result.codes.data());
                      }
                    });
  return result;
}

}  // namespace fold8::quant
