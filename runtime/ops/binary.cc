// Elementwise functions of two tensors with broadcasting. f32 and u8-with-params by the kernels
// (binary.h), other number types by plain loops.
#include "runtime/kernels/binary.h"

#include <cmath>

#include "runtime/ops/binary_loops.h"
#include "runtime/ops/each_op.h"

namespace fold8::ops {
namespace {

using graph::BinaryKind;

bool gives_bool(BinaryKind kind) {
  switch (kind) {
    case BinaryKind::equal:
    case BinaryKind::less:
    case BinaryKind::less_equal:
    case BinaryKind::greater:
    case BinaryKind::greater_equal:
    case BinaryKind::logical_and:
    case BinaryKind::logical_or:
    case BinaryKind::logical_xor:
      return true;
    default:
      return false;
  }
}

bool is_logical(BinaryKind k) {
  return k == BinaryKind::logical_and || k == BinaryKind::logical_or ||
         k == BinaryKind::logical_xor;
}

std::optional<kernels::BinaryKind> kernel_kind(BinaryKind kind) {
  switch (kind) {
    case BinaryKind::add:
      return kernels::BinaryKind::add;
    case BinaryKind::sub:
      return kernels::BinaryKind::sub;
    case BinaryKind::mul:
      return kernels::BinaryKind::mul;
    case BinaryKind::div:
      return kernels::BinaryKind::div;
    case BinaryKind::pow:
      return kernels::BinaryKind::pow;
    case BinaryKind::min:
      return kernels::BinaryKind::min;
    case BinaryKind::max:
      return kernels::BinaryKind::max;
    case BinaryKind::prelu:
      return kernels::BinaryKind::prelu;
    case BinaryKind::fmod:
      return kernels::BinaryKind::mod;
    default:
      return std::nullopt;
  }
}

DType real_type(const TensorType& t) { return t.quant ? DType::f32 : t.dtype; }

// One element of integer shape arithmetic. Symbols are extents: never negative.
Dim combine(BinaryKind kind, Dim a, Dim b) {
  const bool both = a.known() && b.known();
  switch (kind) {
    case BinaryKind::add:
      return a + b;
    case BinaryKind::sub:
      return a - b;
    case BinaryKind::mul:
      return a * b;
    case BinaryKind::div:
      return truncated_div(a, b);
    case BinaryKind::mod:
      if (!both || b.value() == 0 || b.value() == -1) return Dim::unknown();
      return Dim(((a.value() % b.value()) + b.value()) % b.value());
    case BinaryKind::min:
      return same(a, b) ? a : both ? Dim(std::min(a.value(), b.value())) : Dim::unknown();
    case BinaryKind::max:
      return same(a, b) ? a : both ? Dim(std::max(a.value(), b.value())) : Dim::unknown();
    case BinaryKind::equal:
      if (same(a, b)) return Dim(1);
      if (both) return Dim(a.value() == b.value());
      if ((a.is_symbol() && b.known() && b.value() < 0) ||
          (b.is_symbol() && a.known() && a.value() < 0))
        return Dim(0);
      return Dim::unknown();
    case BinaryKind::less:
      return both ? Dim(a.value() < b.value()) : Dim::unknown();
    case BinaryKind::less_equal:
      return both ? Dim(a.value() <= b.value()) : Dim::unknown();
    case BinaryKind::greater:
      return both ? Dim(a.value() > b.value()) : Dim::unknown();
    case BinaryKind::greater_equal:
      return both ? Dim(a.value() >= b.value()) : Dim::unknown();
    case BinaryKind::logical_and:
      return both ? Dim(a.value() != 0 && b.value() != 0) : Dim::unknown();
    case BinaryKind::logical_or:
      return both ? Dim(a.value() != 0 || b.value() != 0) : Dim::unknown();
    default:
      return Dim::unknown();
  }
}

// Float shape arithmetic as it would run: one rounding to the type.
std::optional<double> combine(BinaryKind kind, double a, double b, DType dtype) {
  double r;
  if (kind == BinaryKind::add)
    r = a + b;
  else if (kind == BinaryKind::sub)
    r = a - b;
  else if (kind == BinaryKind::mul)
    r = a * b;
  else if (kind == BinaryKind::div)
    r = a / b;
  else
    return std::nullopt;
  return dtype == DType::f32 ? static_cast<double>(static_cast<float>(r))
                             : r;  // exact double rounding: 53 >= 2*24 + 2
}

void infer_known(const graph::Binary& op, InferContext& c) {
  if (op.activation != Activation::none || c.outputs[0].type.shape.rank() > 1) return;
  const auto a = known(c, 0), b = known(c, 1);
  if (!a || !b || a->real != b->real || a->size() == 0 || b->size() == 0) return;
  KnownInts y;
  y.real = a->real;
  const std::size_t n = std::max(a->size(), b->size());
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t ia = a->size() == 1 ? 0 : i, ib = b->size() == 1 ? 0 : i;
    if (y.real) {
      const auto r = combine(op.kind, a->reals[ia], b->reals[ib], c.type(0).dtype);
      if (!r) return;
      y.reals.push_back(*r);
    } else {
      y.values.push_back(combine(op.kind, a->values[ia], b->values[ib]));
    }
  }
  set_known(c, std::move(y));
}

kernels::BinaryOperand operand(const TensorType& t, const Broadcast& s, int i) {
  kernels::BinaryOperand o;
  if (t.quant) {
    o.scale = t.quant->scale();
    o.zero_point = t.quant->zero_point();
  }
  std::copy(s.stride[i], s.stride[i] + s.rank, o.stride);
  return o;
}

// u8 with u8 to u8: scales folded into multipliers.
bool fits_u8(const graph::Binary& op, const PrepareContext& c) {
  const bool kind =
      op.kind == BinaryKind::add || op.kind == BinaryKind::sub || op.kind == BinaryKind::mul;
  const bool act = op.activation == Activation::none || op.activation == Activation::clip;
  return kind && act && c.type(0).dtype == DType::u8 && c.type(1).dtype == DType::u8 &&
         c.out(0).dtype == DType::u8;
}

Result<StepPtr> prepare_u8(const graph::Binary& op, const PrepareContext& c, const Broadcast& s) {
  kernels::BinaryU8Args args;
  args.rank = s.rank;
  std::copy(s.extent, s.extent + s.rank, args.shape);
  std::copy(s.stride[0], s.stride[0] + s.rank, args.a_stride);
  std::copy(s.stride[1], s.stride[1] + s.rank, args.b_stride);
  const double sa = c.type(0).quant->scale(), sb = c.type(1).quant->scale(),
               sy = c.out(0).quant->scale();
  args.a_zero_point = c.type(0).quant->zero_point();
  args.b_zero_point = c.type(1).quant->zero_point();
  args.y_zero_point = c.out(0).quant->zero_point();
  args.kind = op.kind == BinaryKind::mul ? kernels::BinaryU8Kind::mul : kernels::BinaryU8Kind::add;
  args.m_a = static_cast<float>(op.kind == BinaryKind::mul ? sa * sb / sy : sa / sy);
  args.m_b = static_cast<float>(op.kind == BinaryKind::sub ? -(sb / sy) : sb / sy);
  if (op.activation == Activation::clip) {
    args.lo = static_cast<float>(static_cast<double>(op.a) / sy);
    args.hi = static_cast<float>(static_cast<double>(op.b) / sy);
  }
  return make_step([args, kernel = c.kernels->binary_u8, n = s.count](const RunContext& run) {
    parallel(run, n, grain_for(2), [&](std::size_t b, std::size_t e, std::size_t) {
      kernels::BinaryU8Args part = args;
      part.a = in<std::uint8_t>(run, 0);
      part.b = in<std::uint8_t>(run, 1);
      part.y = out<std::uint8_t>(run, 0);
      part.begin = b;
      part.end = e;
      kernel(part);
    });
    return ok_status();
  });
}

Result<StepPtr> prepare_real(const graph::Binary& op, const PrepareContext& c, const Broadcast& s,
                             kernels::BinaryKind kind) {
  kernels::BinaryArgs args;
  args.kind = kind;
  args.rank = s.rank;
  std::copy(s.extent, s.extent + s.rank, args.shape);
  args.a = operand(c.type(0), s, 0);
  args.b = operand(c.type(1), s, 1);
  args.activation = op.activation;
  args.act_a = op.a;
  args.act_b = op.b;
  const bool quantize = c.out(0).dtype == DType::u8;
  if (quantize) {
    args.q_scale = c.out(0).quant->scale();
    args.q_zero_point = c.out(0).quant->zero_point();
  }
  const bool a_u8 = c.type(0).dtype == DType::u8, b_u8 = c.type(1).dtype == DType::u8;
  return make_step(
      [args, a_u8, b_u8, quantize, kernel = c.kernels->binary, n = s.count](const RunContext& run) {
        parallel(run, n, grain_for(4), [&](std::size_t b, std::size_t e, std::size_t) {
          kernels::BinaryArgs part = args;
          if (a_u8)
            part.a.u8 = in<std::uint8_t>(run, 0);
          else
            part.a.f32 = in<float>(run, 0);
          if (b_u8)
            part.b.u8 = in<std::uint8_t>(run, 1);
          else
            part.b.f32 = in<float>(run, 1);
          if (quantize)
            part.q = out<std::uint8_t>(run, 0);
          else
            part.y = out<float>(run, 0);
          part.begin = b;
          part.end = e;
          kernel(part);
        });
        return ok_status();
      });
}

}  // namespace

Status infer_op(const graph::Binary& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 2, 2));
  const DType a = real_type(c.type(0)), b = real_type(c.type(1));
  if (a != b) return bad_input(c, 1, "elements of type " + std::string(name(a)) + " as input 0");
  if (is_logical(op.kind)) FOLD8_CHECK_OK(expect_dtype(c, 0, {DType::boolean}));
  const auto y = broadcast(c.shape(0), c.shape(1));
  if (!y) return bad_input(c, 1, "a shape that broadcasts with input 0, " + to_string(c.shape(0)));
  if (op.kind == BinaryKind::prelu && y->rank() > c.shape(0).rank())
    return bad_input(c, 1, "a slope that broadcasts to input 0");
  c.set(0, gives_bool(op.kind) ? DType::boolean : a, *y);
  infer_known(op, c);
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::Binary& op, const PrepareContext& c) {
  const TensorType* operands[] = {&c.type(0), &c.type(1)};
  const Broadcast shape = make_broadcast(c.out(0), operands);
  const auto kind = kernel_kind(op.kind);
  if (kind && real_type(c.type(0)) == DType::f32) {
    if (fits_u8(op, c)) return prepare_u8(op, c, shape);
    return prepare_real(op, c, shape, *kind);
  }
  if (op.activation != Activation::none)
    return unsupported("'" + std::string(graph::enum_name(op.kind)) + "' with an activation over " +
                       std::string(name(c.type(0).dtype)));
  return prepare_binary_loop(op.kind, c.type(0).dtype, shape);
}

}  // namespace fold8::ops
