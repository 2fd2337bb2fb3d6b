// How stored integers stand for real numbers:   real = scale * (stored - zero_point)
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/core/dtype.h"
#include "runtime/core/result.h"

namespace fold8 {

// per_tensor: one scale. per_channel: one scale per index of `axis`. per_group: along `axis` blocks
// of `group` consecutive elements share a scale; scales are [outer.., extent/group, inner..]
// row-major over the tensor's shape. per_token: one scale for each row (all axes but the last),
// computed at run time; no numbers are stored.
enum class Granularity : std::uint8_t {
  per_tensor = 0,
  per_channel = 1,
  per_group = 2,
  per_token = 3
};

class QuantParams {
 public:
  // Scales must be finite and > 0; zero points must fit `dtype`. Empty zero_points means all zero.
  static Result<QuantParams> per_tensor(float scale, std::int32_t zero_point);
  static Result<QuantParams> per_channel(int axis, std::vector<float> scales,
                                         std::vector<std::int32_t> zero_points = {});
  static Result<QuantParams> per_group(int axis, std::int64_t group, std::vector<float> scales,
                                       std::vector<std::int32_t> zero_points = {});
  static QuantParams per_token();

  Granularity granularity() const { return granularity_; }
  bool is_per_tensor() const { return granularity_ == Granularity::per_tensor; }
  int axis() const { return axis_; }             // per_channel, per_group
  std::int64_t group() const { return group_; }  // per_group
  std::span<const float> scales() const {
    if (is_per_tensor()) return {&scale_, 1};
    return many_ ? std::span<const float>(many_->scales) : std::span<const float>();
  }
  std::span<const std::int32_t> zero_points() const {  // empty: all zero
    if (is_per_tensor()) return {&zero_point_, 1};
    return many_ ? std::span<const std::int32_t>(many_->zero_points)
                 : std::span<const std::int32_t>();
  }
  float scale() const { return scale_; }                   // per_tensor
  std::int32_t zero_point() const { return zero_point_; }  // per_tensor
  std::int32_t zero_point(std::size_t i) const {
    const auto z = zero_points();
    return z.empty() ? 0 : z[i];
  }
  bool has_zero_points() const;  // one that is not 0

  friend bool operator==(const QuantParams& a, const QuantParams& b);

 private:
  struct Many {
    std::vector<float> scales;
    std::vector<std::int32_t> zero_points;
  };
  QuantParams() = default;
  // Types are copied for every plan: one scale lies inside, many are shared.
  Granularity granularity_ = Granularity::per_tensor;
  int axis_ = 0;
  std::int64_t group_ = 0;
  float scale_ = 0;
  std::int32_t zero_point_ = 0;
  std::shared_ptr<const Many> many_;
};

// "@(0.05,128)", "@channel(0)", "@group(1,64)", "@token": the form the graph text uses.
std::string to_string(const QuantParams& q);

}  // namespace fold8
