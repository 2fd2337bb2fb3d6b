#include "runtime/kernels/activation_ref.h"
#include "runtime/kernels/binary.h"
#include "runtime/kernels/quantize_ref.h"
#include "runtime/kernels/scalar_functions.h"

namespace fold8::kernels::reference {
namespace {

// Offset in an operand of output element i: its row-major index taken apart axis by axis.
std::ptrdiff_t offset_of(std::size_t i, int rank, const std::size_t* shape,
                         const std::ptrdiff_t* stride) {
  std::ptrdiff_t offset = 0;
  for (int axis = rank - 1; axis >= 0; --axis) {
    offset += static_cast<std::ptrdiff_t>(i % shape[axis]) * stride[axis];
    i /= shape[axis];
  }
  return offset;
}

float value_of(const BinaryOperand& operand, std::ptrdiff_t offset) {
  if (operand.f32 != nullptr) return operand.f32[offset];
  return dequantize(operand.u8[offset], operand.scale, operand.zero_point);
}

float combine(BinaryKind kind, float p, float q) {
  switch (kind) {
    case BinaryKind::add:
      return p + q;
    case BinaryKind::sub:
      return p - q;
    case BinaryKind::mul:
      return p * q;
    case BinaryKind::div:
      return p / q;
    case BinaryKind::pow:
      return pow_scalar(p, q);
    case BinaryKind::min:
      return generic::min(p, q);
    case BinaryKind::max:
      return generic::max(p, q);
    case BinaryKind::prelu:
      return p < 0 ? q * p : p;
    case BinaryKind::mod:
      return mod_scalar(p, q);
  }
  return p;
}

}  // namespace

void binary(const BinaryArgs& args) {
  for (std::size_t i = args.begin; i < args.end; ++i) {
    const float p = value_of(args.a, offset_of(i, args.rank, args.shape, args.a.stride));
    const float q = value_of(args.b, offset_of(i, args.rank, args.shape, args.b.stride));
    const float t = apply(args.activation, args.act_a, args.act_b, combine(args.kind, p, q));
    if (args.y != nullptr) args.y[i] = t;
    if (args.q != nullptr) args.q[i] = quantize_u8(t, args.q_scale, args.q_zero_point);
  }
}

void binary_u8(const BinaryU8Args& args) {
  for (std::size_t i = args.begin; i < args.end; ++i) {
    const std::int32_t p =
        args.a[offset_of(i, args.rank, args.shape, args.a_stride)] - args.a_zero_point;
    const std::int32_t q =
        args.b[offset_of(i, args.rank, args.shape, args.b_stride)] - args.b_zero_point;
    float r = args.kind == BinaryU8Kind::add ? __builtin_fmaf(static_cast<float>(p), args.m_a,
                                                              static_cast<float>(q) * args.m_b)
                                             : static_cast<float>(p * q) * args.m_a;
    r = generic::clip(r, args.lo, args.hi);
    args.y[i] = static_cast<std::uint8_t>(round_clamped(r, args.y_zero_point, 0, 255));
  }
}

void affine(const AffineArgs& args) {
  for (std::size_t i = 0; i < args.outer * args.channels * args.inner; ++i) {
    const std::size_t c = i / args.inner % args.channels;
    const float v = __builtin_fmaf(args.x[i], args.m[c], args.b != nullptr ? args.b[c] : 0.0f);
    const float t = apply(args.activation, args.act_a, args.act_b, v);
    if (args.y != nullptr) args.y[i] = t;
    if (args.q != nullptr) args.q[i] = quantize_u8(t, args.q_scale, args.q_zero_point);
  }
}

}  // namespace fold8::kernels::reference
