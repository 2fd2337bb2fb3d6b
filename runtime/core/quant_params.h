// How stored integers stand for real numbers:   real = scale * (stored - zero_point)
#pragma once

#include <cstdint>
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
  std::span<const float> scales() const { return scales_; }
  std::span<const std::int32_t> zero_points() const { return zero_points_; }  // empty: all zero
  float scale() const { return scales_[0]; }                                  // per_tensor
  std::int32_t zero_point() const {
    return zero_points_.empty() ? 0 : zero_points_[0];
  }  // per_tensor
  std::int32_t zero_point(std::size_t i) const {
    return zero_points_.empty() ? 0 : zero_points_[i];
  }
  bool has_zero_points() const;  // one that is not 0

  friend bool operator==(const QuantParams&, const QuantParams&) = default;

 private:
  QuantParams() = default;
  Granularity granularity_ = Granularity::per_tensor;
  int axis_ = 0;
  std::int64_t group_ = 0;
  std::vector<float> scales_;
  std::vector<std::int32_t> zero_points_;
};

// "@(0.05,128)", "@channel(0)", "@group(1,64)", "@token": the form the graph text uses.
std::string to_string(const QuantParams& q);

}  // namespace fold8
