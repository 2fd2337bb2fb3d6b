// ONNX Range: y[i] = start + i * delta, i < max(ceil((limit - start) / delta), 0). Floats: one
// rounding for the product, one for the sum.
#include <cmath>

#include "runtime/ops/each_op.h"

namespace fold8::ops {
namespace {

// Number of elements; nullopt if it is no sensible number (delta 0, NaN, more than 2^40).
std::optional<std::int64_t> length(std::int64_t start, std::int64_t limit, std::int64_t delta) {
  std::int64_t distance;
  if (delta == 0 || __builtin_sub_overflow(limit, start, &distance)) return std::nullopt;
  if (distance == 0 || (distance > 0) != (delta > 0)) return 0;
  if (delta == INT64_MIN || distance == INT64_MIN)
    return delta == INT64_MIN ? std::optional<std::int64_t>(1) : std::nullopt;
  const std::int64_t d = distance < 0 ? -distance : distance, s = delta < 0 ? -delta : delta;
  return (d - 1) / s + 1;
}
std::optional<std::int64_t> length(double start, double limit, double delta) {
  const double n = std::ceil((limit - start) / delta);
  if (!(n < 1.1e12)) return std::nullopt;
  return n > 0 ? static_cast<std::int64_t>(n) : 0;
}

}  // namespace

Status infer_op(const graph::Range&, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 3, 3));
  const DType dtype = c.type(0).dtype;
  FOLD8_CHECK_OK(expect_dtype(c, 0, {DType::s64, DType::s32, DType::s16, DType::f32, DType::f64}));
  for (std::size_t i = 0; i < 3; ++i) {
    if (c.type(i).dtype != dtype)
      return bad_input(c, i, "elements of type " + std::string(name(dtype)) + " as input 0");
    if (c.shape(i).known() && c.shape(i).count() != 1) return bad_input(c, i, "one element");
  }
  c.set(0, dtype, Shape{Dim::unknown()});
  if (is_floating(dtype)) {
    const auto s = c.reals(0), l = c.reals(1), d = c.reals(2);
    if (!s || !l || !d) return ok_status();
    const auto n = length((*s)[0], (*l)[0], (*d)[0]);
    if (!n)
      return invalid_model("a range from " + std::to_string((*s)[0]) + " to " +
                           std::to_string((*l)[0]) + " by " + std::to_string((*d)[0]));
    c.set(0, dtype, Shape{Dim(*n)});
    return ok_status();
  }
  const auto s = c.ints(0), l = c.ints(1), d = c.ints(2);
  if (!s || !l || !d) return ok_status();
  const Dim start = s->values[0], limit = l->values[0], delta = d->values[0];
  if (start.known() && start.value() == 0 && delta.known() && delta.value() == 1 &&
      limit.is_symbol())
    c.set(0, dtype, Shape{limit});
  if (!start.known() || !limit.known() || !delta.known()) return ok_status();
  const auto n = length(start.value(), limit.value(), delta.value());
  if (!n)
    return invalid_model("a range from " + std::to_string(start.value()) + " to " +
                         std::to_string(limit.value()) + " by " + std::to_string(delta.value()));
  c.set(0, dtype, Shape{Dim(*n)});
  if (*n > KnownInts::kMaxInts) return ok_status();
  KnownInts k;
  for (std::int64_t i = 0; i < *n; ++i) k.values.push_back(start + Dim(i) * delta);
  set_known(c, std::move(k));
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::Range&, const PrepareContext& c) {
  const std::size_t n = count(c.out(0));
  return make_step([n, dtype = c.out(0).dtype](const RunContext& run) {
    with_number_type(dtype, [&]<class T>() {
      const T start = *in<T>(run, 0), delta = *in<T>(run, 2);
      for (std::size_t i = 0; i < n; ++i) {
        if constexpr (std::is_floating_point_v<T>) {
          const T product = static_cast<T>(i) * delta;
          out<T>(run, 0)[i] = start + product;
        } else {
          using U = std::make_unsigned_t<T>;
          out<T>(run, 0)[i] =
              static_cast<T>(static_cast<U>(start) + static_cast<U>(i) * static_cast<U>(delta));
        }
      }
    });
    return ok_status();
  });
}

}  // namespace fold8::ops
