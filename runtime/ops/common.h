// Helpers that every operator uses: errors, strides by layout, steps made of a lambda, loops over
// threads.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>

#include "runtime/ops/op_impl.h"

namespace fold8::ops {

using StepPtr = std::unique_ptr<Step>;

// ----------------------------------------------------------------------------------------------
// errors

// "f32[2,3]", "u8[2,3] @(0.1,0)".
std::string describe(const TensorType& type);
// "input 1 is f32[2,3], expected ...".
Error bad_input(std::size_t i, const TensorType& type, const std::string& expected);
inline Error bad_input(const InferContext& c, std::size_t i, const std::string& expected) {
  return bad_input(i, c.type(i), expected);
}
// Inputs [0, required) are there, at most `most` are given, output 0 exists and there are at most
// `outputs`.
Status expect_operands(const InferContext& c, std::size_t required, std::size_t most,
                       std::size_t outputs = 1);
Status expect_dtype(const InferContext& c, std::size_t i, std::initializer_list<DType> allowed);
// Input i, an index or shape operand, is s32 or s64.
inline Status expect_index(const InferContext& c, std::size_t i) {
  return expect_dtype(c, i, {DType::s64, DType::s32});
}
// 0 <= result < rank; the error names the attribute or operand `what`.
Result<int> checked_axis(std::int64_t axis, int rank, const char* what = "axis");
Status expect_rank_fits(int rank);  // <= Shape::kMaxRank

// ----------------------------------------------------------------------------------------------
// infer

// Output o gets dtype, per-tensor params and `shape` of input i (a decided type keeps its dtype and
// params).
void set_like(InferContext& c, std::size_t o, std::size_t i, const Shape& shape);
// Output 0 holds the elements index[k] of known operand k: what data movement does to small
// tensors.
KnownInts pick(const KnownInts& from, std::span<const std::size_t> index, bool scalar);
// Known elements of operand i, integers or reals.
std::optional<KnownInts> known(const InferContext& c, std::size_t i);
// Hands known elements to output 0 if its shape says they fit (rank <= 1).
void set_known(InferContext& c, KnownInts ints, std::size_t o = 0);
// a / b rounded toward zero, as ONNX Div on integers; unknown where it cannot be told.
Dim truncated_div(Dim a, Dim b);

// ----------------------------------------------------------------------------------------------
// layout

using Strides = std::array<std::int64_t, Shape::kMaxRank>;
// Elements from one index to the next along each logical axis.
Strides strides_of(const Shape& shape, Layout layout);
inline Strides strides_of(const TensorType& t) { return strides_of(t.shape, t.layout); }
// Strides for broadcasting `t` to `rank` axes of `out`: 0 along axes of extent 1.
Strides broadcast_strides(const TensorType& t, const Shape& out);
// Both layouts give the same bytes for this shape (no spatial extent, or one channel).
bool same_order(const Shape& shape, Layout a, Layout b);
// Axes of the shape in the order they lie in memory, outermost first.
std::array<int, Shape::kMaxRank> memory_axes(int rank, Layout layout);

inline std::size_t count(const TensorType& t) { return static_cast<std::size_t>(t.shape.count()); }
inline std::size_t bytes(const TensorType& t) { return count(t) * size_of(t.dtype); }

// ----------------------------------------------------------------------------------------------
// steps

template <class F>
class LambdaStep final : public Step {
 public:
  LambdaStep(F run, std::size_t scratch, double macs)
      : run_(std::move(run)), scratch_(scratch), macs_(macs) {}
  Status run(const RunContext& ctx) const override { return run_(ctx); }
  std::size_t scratch_bytes() const override { return scratch_; }
  double macs() const override { return macs_; }

 private:
  F run_;
  std::size_t scratch_;
  double macs_;
};
// f: Status(const RunContext&), const.
template <class F>
Result<StepPtr> make_step(F f, std::size_t scratch = 0, double macs = 0) {
  return StepPtr(std::make_unique<LambdaStep<F>>(std::move(f), scratch, macs));
}

template <class T>
const T* in(const RunContext& c, std::size_t i) {
  return static_cast<const T*>(c.inputs[i]);
}
template <class T>
T* out(const RunContext& c, std::size_t o) {
  return static_cast<T*>(c.outputs[o]);
}

// f(begin, end, part) over [0, n) on the pool's threads, at least `grain` a part.
template <class F>
void parallel(const RunContext& c, std::size_t n, std::size_t grain, const F& f) {
  if (n == 0) return;
  if (c.pool == nullptr || n <= grain) return f(std::size_t{0}, n, std::size_t{0});
  c.pool->parallel_for(n, std::max<std::size_t>(grain, 1), f);
}
// Items a part when each costs `work` element operations: small work stays on the caller.
inline std::size_t grain_for(std::size_t work) {
  return std::max<std::size_t>(1, 32768 / std::max<std::size_t>(1, work));
}

// f.operator()<T>() for the C++ type of `dtype` (bool as std::uint8_t); false for types without
// arithmetic (f16, ...).
template <class F>
bool with_number_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      f.template operator()<float>();
      return true;
    case DType::f64:
      f.template operator()<double>();
      return true;
    case DType::s8:
    case DType::s4:
      f.template operator()<std::int8_t>();
      return true;
    case DType::u8:
    case DType::u4:
      f.template operator()<std::uint8_t>();
      return true;
    case DType::boolean:
      f.template operator()<std::uint8_t>();
      return true;
    case DType::s16:
      f.template operator()<std::int16_t>();
      return true;
    case DType::u16:
      f.template operator()<std::uint16_t>();
      return true;
    case DType::s32:
      f.template operator()<std::int32_t>();
      return true;
    case DType::u32:
      f.template operator()<std::uint32_t>();
      return true;
    case DType::s64:
      f.template operator()<std::int64_t>();
      return true;
    case DType::u64:
      f.template operator()<std::uint64_t>();
      return true;
    default:
      return false;
  }
}

// Arithmetic that wraps in integers (no undefined overflow) and is one rounding in floats.
template <class T>
T wrap_add(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  else
    return a + b;
}
template <class T>
T wrap_sub(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
  else
    return a - b;
}
template <class T>
T wrap_mul(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  else
    return a * b;
}

// Element i of an s32 or s64 index tensor.
inline std::int64_t index_at(const void* data, DType dtype, std::size_t i) {
  return dtype == DType::s32 ? static_cast<const std::int32_t*>(data)[i]
                             : static_cast<const std::int64_t*>(data)[i];
}

}  // namespace fold8::ops
