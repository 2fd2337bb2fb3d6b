#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/kernels/attention.h"
#include "runtime/kernels/math_ref.h"
#include "runtime/kernels/quantize_ref.h"
#include "runtime/kernels/row_sum.h"

namespace fold8::kernels::reference {
namespace {

constexpr float kInf = __builtin_inff();
constexpr float kRounds = 0x1.8p23f;

// One row's way through the blocks.
class Row {
 public:
  Row(const AttentionArgs& a, std::size_t row)
      : a_(a),
        query_(row / a.heads),
        head_(row % a.heads),
        limit_(a.limit(query_)),
        q_(a.q + query_ * a.q_stride + head_ * a.q_head_stride),
        out_(a.value_depth, 0.0f) {}

  template <class Scores, class Sum>
  void run(const Scores& scores, const Sum& sum) {
    for (std::size_t first = 0; first < limit_; first += kAttentionKeys) {
      const std::size_t count = std::min(kAttentionKeys, a_.keys - first),
                        seen = std::min(count, limit_ - first);
      float x[kAttentionKeys], p[kAttentionKeys] = {};
      float top = top_;
      for (std::size_t j = 0; j < seen; ++j) {
        x[j] = masked(first + j, scores);
        top = x[j] > top ? x[j] : top;
      }
      const bool nothing = top == -kInf;
      for (std::size_t j = 0; j < seen; ++j)
        if (!nothing)
          p[j] = exp_f32(x[j] - top);
        else if (x[j] != x[j])
          p[j] = x[j];
      const float c = nothing ? 1.0f : exp_f32(top_ - top);
      length_ = std::fma(length_, c, row_sum(kAttentionKeys, [&](std::size_t j) { return p[j]; }));
      sum(first, count, p, c, out_.data());
      top_ = top;
    }
    float* y = a_.y + query_ * a_.y_stride + head_ * a_.y_head_stride;
    for (std::size_t e = 0; e < a_.value_depth; ++e) y[e] = out_[e] / length_ + 0.0f;
  }

  const float* q() const { return q_; }

 private:
  template <class Scores>
  float masked(std::size_t key, const Scores& scores) const {
    const std::size_t at =
        query_ * a_.mask_stride + head_ * a_.mask_head_stride + key * a_.mask_step;
    const float mask = a_.mask ? a_.mask[at] : 0.0f;
    const auto [score, factor] = scores(key);
    float x = std::fma(score, factor, mask);
    if (a_.softcap > 0) x = a_.softcap * tanh_f32((score * factor) / a_.softcap) + mask;
    return a_.visible && a_.visible[at] == 0 ? -kInf : x;
  }

  const AttentionArgs& a_;
  std::size_t query_, head_, limit_;
  const float* q_;
  std::vector<float> out_;
  float top_ = -kInf, length_ = 0;
};

struct Score {
  float score, factor;
};

// A row of a head, rounded per token.
struct Codes {
  std::vector<std::int32_t> q;
  float scale;
  Codes(const float* x, std::size_t n) : q(n) {
    float largest = 0;
    for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(x[i]));
    for (std::size_t i = 0; i < n; ++i)
      if (!std::isfinite(x[i])) largest = kInf;
    scale = dynamic_row_scale(largest);
    for (std::size_t i = 0; i < n; ++i) q[i] = round_clamped(x[i] / scale, 0, -127, 127);
  }
};

}  // namespace

void attention_f32(const AttentionArgs& a) {
  for (std::size_t r = a.row_begin; r < a.row_end; ++r) {
    Row row(a, r);
    row.run(
        [&](std::size_t key) {
          float chain = 0;
          for (std::size_t d = 0; d < a.depth; ++d)
            chain = std::fma(row.q()[d], a.k[key * a.k_stride + d], chain);
          return Score{chain, a.scale};
        },
        [&](std::size_t first, std::size_t count, const float* p, float c, float* out) {
          for (std::size_t e = 0; e < a.value_depth; ++e) {
            out[e] = out[e] * c;
            for (std::size_t j = 0; j < count; ++j)
              out[e] = std::fma(p[j], a.v[(first + j) * a.v_stride + e], out[e]);
          }
        });
  }
}

void attention_pack_f32(const AttentionPackArgs&) {}
void attention_pack_q8(const AttentionPackArgs&) {}

void attention_q8(const AttentionArgs& a) {
  std::vector<Codes> keys, values;
  for (std::size_t j = 0; j < a.keys; ++j) {
    keys.emplace_back(a.k + j * a.k_stride, a.depth);
    values.emplace_back(a.v + j * a.v_stride, a.value_depth);
  }
  for (std::size_t r = a.row_begin; r < a.row_end; ++r) {
    Row row(a, r);
    const Codes query(row.q(), a.depth);
    row.run(
        [&](std::size_t key) {
          std::int32_t sum = 0;
          for (std::size_t d = 0; d < a.depth; ++d) sum += query.q[d] * keys[key].q[d];
          return Score{static_cast<float>(sum) * (query.scale * a.scale), keys[key].scale};
        },
        [&](std::size_t first, std::size_t count, const float* p, float c, float* out) {
          float w[kAttentionKeys], largest = 0x1p-100f;
          for (std::size_t j = 0; j < count; ++j) {
            w[j] = p[j] * values[first + j].scale;
            if (w[j] > largest || w[j] != w[j]) largest = largest == largest ? w[j] : largest;
          }
          const float inverse = 255.0f / largest, unit = largest * (1.0f / 255.0f);
          std::int32_t pq[kAttentionKeys];
          for (std::size_t j = 0; j < count; ++j)
            pq[j] = w[j] == w[j] && inverse == inverse
                        ? static_cast<std::int32_t>(std::fma(w[j], inverse, kRounds) - kRounds)
                        : 0;
          for (std::size_t e = 0; e < a.value_depth; ++e) {
            std::int32_t sum = 0;
            for (std::size_t j = 0; j < count; ++j) sum += pq[j] * values[first + j].q[e];
            out[e] = std::fma(static_cast<float>(sum), unit, out[e] * c);
          }
        });
  }
}

}  // namespace fold8::kernels::reference
