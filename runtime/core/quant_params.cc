#include "runtime/core/quant_params.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace fold8 {
namespace {

Status check_scales(std::span<const float> scales, std::span<const std::int32_t> zero_points) {
  if (!zero_points.empty() && zero_points.size() != scales.size())
    return invalid_model("has " + std::to_string(scales.size()) + " scales but " +
                         std::to_string(zero_points.size()) + " zero points");
  for (std::size_t i = 0; i < scales.size(); ++i)
    if (!(std::isfinite(scales[i]) && scales[i] > 0))
      return invalid_model("scale " + std::to_string(i) + " is " + std::to_string(scales[i]) +
                           ", it must be finite and above zero");
  return ok_status();
}

std::string number(float v) {
  char buffer[32];
  const auto r = std::to_chars(buffer, buffer + sizeof buffer, v);
  return {buffer, r.ptr};
}

}  // namespace

Result<QuantParams> QuantParams::per_tensor(float scale, std::int32_t zero_point) {
  FOLD8_CHECK_OK(check_scales({&scale, 1}, {}));
  QuantParams q;
  q.scale_ = scale;
  q.zero_point_ = zero_point;
  return q;
}

Result<QuantParams> QuantParams::per_channel(int axis, std::vector<float> scales,
                                             std::vector<std::int32_t> zero_points) {
  FOLD8_CHECK_OK(check_scales(scales, zero_points));
  QuantParams q;
  q.granularity_ = Granularity::per_channel;
  q.axis_ = axis;
  q.many_ = std::make_shared<const Many>(Many{std::move(scales), std::move(zero_points)});
  return q;
}

Result<QuantParams> QuantParams::per_group(int axis, std::int64_t group, std::vector<float> scales,
                                           std::vector<std::int32_t> zero_points) {
  if (group <= 0) return invalid_model("group of " + std::to_string(group) + " elements");
  FOLD8_TRY(QuantParams q, per_channel(axis, std::move(scales), std::move(zero_points)));
  q.granularity_ = Granularity::per_group;
  q.group_ = group;
  return q;
}

QuantParams QuantParams::per_token() {
  QuantParams q;
  q.granularity_ = Granularity::per_token;
  return q;
}

bool QuantParams::has_zero_points() const {
  const auto zeros = zero_points();
  return std::any_of(zeros.begin(), zeros.end(), [](std::int32_t z) { return z != 0; });
}

bool operator==(const QuantParams& a, const QuantParams& b) {
  if (a.granularity_ != b.granularity_ || a.axis_ != b.axis_ || a.group_ != b.group_ ||
      a.scale_ != b.scale_ || a.zero_point_ != b.zero_point_)
    return false;
  if (a.many_ == b.many_) return true;
  return std::ranges::equal(a.scales(), b.scales()) &&
         std::ranges::equal(a.zero_points(), b.zero_points());
}

std::string to_string(const QuantParams& q) {
  switch (q.granularity()) {
    case Granularity::per_tensor:
      return "@(" + number(q.scale()) + "," + std::to_string(q.zero_point()) + ")";
    case Granularity::per_channel:
      return "@channel(" + std::to_string(q.axis()) + ")";
    case Granularity::per_group:
      return "@group(" + std::to_string(q.axis()) + "," + std::to_string(q.group()) + ")";
    case Granularity::per_token:
      return "@token";
  }
  return "";
}

}  // namespace fold8
