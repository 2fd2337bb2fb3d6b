// Elementwise functions of one tensor. f32 by the kernel (unary.h), u8 with params through a
// 256-entry table, other number types by plain loops for the kinds that make sense there.
#include <cmath>

#include "runtime/kernels/quantize.h"
#include "runtime/kernels/unary.h"
#include "runtime/ops/each_op.h"

namespace fold8::ops {
namespace {

using graph::UnaryKind;
using KernelKind = kernels::UnaryKind;

std::optional<KernelKind> kernel_kind(UnaryKind kind) {
  switch (kind) {
    case UnaryKind::relu:
    case UnaryKind::clip:
      return KernelKind::clip;
    case UnaryKind::leaky_relu:
      return KernelKind::leaky_relu;
    case UnaryKind::hard_sigmoid:
      return KernelKind::hard_sigmoid;
    case UnaryKind::hard_swish:
      return KernelKind::hard_swish;
    case UnaryKind::sigmoid:
      return KernelKind::sigmoid;
    case UnaryKind::silu:
      return KernelKind::silu;
    case UnaryKind::tanh:
      return KernelKind::tanh;
    case UnaryKind::gelu_erf:
      return KernelKind::gelu_erf;
    case UnaryKind::gelu_tanh:
      return KernelKind::gelu_tanh;
    case UnaryKind::elu:
      return KernelKind::elu;
    case UnaryKind::abs:
      return KernelKind::abs;
    case UnaryKind::neg:
      return KernelKind::neg;
    case UnaryKind::sqrt:
      return KernelKind::sqrt;
    case UnaryKind::exp:
      return KernelKind::exp;
    case UnaryKind::log:
      return KernelKind::log;
    case UnaryKind::reciprocal:
      return KernelKind::reciprocal;
    case UnaryKind::floor:
      return KernelKind::floor;
    case UnaryKind::ceil:
      return KernelKind::ceil;
    case UnaryKind::round:
      return KernelKind::round;
    case UnaryKind::sign:
      return KernelKind::sign;
    case UnaryKind::erf:
      return KernelKind::erf;
    case UnaryKind::sin:
      return KernelKind::sin;
    case UnaryKind::cos:
      return KernelKind::cos;
    case UnaryKind::tan:
      return KernelKind::tan;
    case UnaryKind::asin:
      return KernelKind::asin;
    case UnaryKind::acos:
      return KernelKind::acos;
    case UnaryKind::atan:
      return KernelKind::atan;
    case UnaryKind::sinh:
      return KernelKind::sinh;
    case UnaryKind::cosh:
      return KernelKind::cosh;
    case UnaryKind::asinh:
      return KernelKind::asinh;
    case UnaryKind::acosh:
      return KernelKind::acosh;
    case UnaryKind::atanh:
      return KernelKind::atanh;
    case UnaryKind::softplus:
      return KernelKind::softplus;
    case UnaryKind::softsign:
      return KernelKind::softsign;
    case UnaryKind::mish:
      return KernelKind::mish;
    case UnaryKind::selu:
      return KernelKind::selu;
    case UnaryKind::celu:
      return KernelKind::celu;
    case UnaryKind::thresholded_relu:
      return KernelKind::thresholded_relu;
    case UnaryKind::shrink:
      return KernelKind::shrink;
    case UnaryKind::square:
      return KernelKind::square;
    case UnaryKind::logical_not:
    case UnaryKind::is_nan:
    case UnaryKind::is_inf:
    case UnaryKind::bitwise_not:
      break;
  }
  return std::nullopt;
}

kernels::UnaryArgs kernel_args(const graph::Unary& op, KernelKind kind) {
  kernels::UnaryArgs args;
  args.kind = kind;
  args.a = op.kind == UnaryKind::relu ? 0.0f : op.a;
  args.b = op.kind == UnaryKind::relu ? INFINITY : op.b;
  return args;
}

Error refuse(const graph::Unary& op, const TensorType& x) {
  return unsupported("'" + std::string(graph::enum_name(op.kind)) + "' over " +
                     std::string(name(x.dtype)));
}

// f32 to f32 or u8 with params.
Result<StepPtr> prepare_f32(const graph::Unary& op, const PrepareContext& c, KernelKind kind) {
  kernels::UnaryArgs args = kernel_args(op, kind);
  const bool quantize = c.out(0).dtype == DType::u8;
  if (quantize) {
    args.q_scale = c.out(0).quant->scale();
    args.q_zero_point = c.out(0).quant->zero_point();
  }
  auto* kernel = c.kernels->unary;
  return make_step([args, kernel, quantize, n = count(c.type(0))](const RunContext& run) {
    parallel(run, n, grain_for(4), [&](std::size_t b, std::size_t e, std::size_t) {
      kernels::UnaryArgs part = args;
      part.n = e - b;
      part.x = in<float>(run, 0) + b;
      if (quantize)
        part.q = out<std::uint8_t>(run, 0) + b;
      else
        part.y = out<float>(run, 0) + b;
      kernel(part);
    });
    return ok_status();
  });
}

// u8 with params to u8 or f32: every code once, then a lookup.
Result<StepPtr> prepare_table(const graph::Unary& op, const PrepareContext& c, KernelKind kind) {
  const QuantParams& q = *c.type(0).quant;
  struct Tables {
    float real[256];
    std::uint8_t code[256];
  };
  auto tables = std::make_shared<Tables>();
  float x[256];
  for (int i = 0; i < 256; ++i) x[i] = static_cast<float>(i - q.zero_point()) * q.scale();
  kernels::UnaryArgs args = kernel_args(op, kind);
  args.n = 256;
  args.x = x;
  args.y = tables->real;
  const std::size_t n = count(c.type(0));
  if (c.out(0).dtype == DType::f32) {
    c.kernels->unary(args);
    return make_step([n, tables](const RunContext& run) {
      for (std::size_t i = 0; i < n; ++i)
        out<float>(run, 0)[i] = tables->real[in<std::uint8_t>(run, 0)[i]];
      return ok_status();
    });
  }
  args.q = tables->code;
  args.q_scale = c.out(0).quant->scale();
  args.q_zero_point = c.out(0).quant->zero_point();
  c.kernels->unary(args);
  return make_step([n, tables, kernel = c.kernels->map_u8](const RunContext& run) {
    parallel(run, n, grain_for(1), [&](std::size_t b, std::size_t e, std::size_t) {
      kernel({.n = e - b,
              .x = in<std::uint8_t>(run, 0) + b,
              .y = out<std::uint8_t>(run, 0) + b,
              .table = tables->code});
    });
    return ok_status();
  });
}

// y[i] = f(x[i], op) for i < n: what is left of an operator and a type, so that all that surrounds
// it exists once.
struct Line {
  void (*run)(const void* x, void* y, std::size_t n, const graph::Unary& op);
  std::size_t in_size, out_size;
};

// f: of T, or of T and the operator.
template <class T, class R, class F>
std::optional<Line> line(F) {
  return Line{[](const void* x, void* y, std::size_t n, const graph::Unary& op) {
                for (std::size_t i = 0; i < n; ++i) {
                  const T v = static_cast<const T*>(x)[i];
                  if constexpr (std::is_invocable_v<F, T>)
                    static_cast<R*>(y)[i] = static_cast<R>(F()(v));
                  else
                    static_cast<R*>(y)[i] = static_cast<R>(F()(v, op));
                }
              },
              sizeof(T), sizeof(R)};
}

Result<StepPtr> step_of(const Line& line, const graph::Unary& op, std::size_t n) {
  return make_step([line, op, n](const RunContext& run) {
    parallel(run, n, grain_for(1), [&](std::size_t b, std::size_t e, std::size_t) {
      line.run(in<std::byte>(run, 0) + b * line.in_size, out<std::byte>(run, 0) + b * line.out_size,
               e - b, op);
    });
    return ok_status();
  });
}

template <class T>
T clamped(T x, const graph::Unary& op) {
  const double v = static_cast<double>(x), lo = static_cast<double>(op.a),
               hi = static_cast<double>(op.b);
  return v < lo ? static_cast<T>(lo) : (v > hi ? static_cast<T>(hi) : x);
}

template <class T>
std::optional<Line> line_of(UnaryKind kind) {
  switch (kind) {
    case UnaryKind::relu:
      return line<T, T>([](T x) { return x < T(0) ? T(0) : x; });
    case UnaryKind::clip:
      return line<T, T>([](T x, const graph::Unary& op) { return clamped(x, op); });
    case UnaryKind::abs:
      return line<T, T>([](T x) { return x < T(0) ? wrap_sub(T(0), x) : x; });
    case UnaryKind::neg:
      return line<T, T>(
          [](T x) { return std::is_integral_v<T> ? wrap_sub(T(0), x) : static_cast<T>(-x); });
    case UnaryKind::sign:
      return line<T, T>([](T x) {
        return x > T(0) ? T(1) : (x < T(0) ? static_cast<T>(-1) : (x == x ? T(0) : x));
      });
    case UnaryKind::square:
      return line<T, T>([](T x) { return wrap_mul(x, x); });
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    switch (kind) {
      case UnaryKind::floor:
      case UnaryKind::ceil:
      case UnaryKind::round:
        return line<T, T>([](T x) { return x; });
      case UnaryKind::bitwise_not:
        return line<T, T>([](T x) { return static_cast<T>(~x); });
      default:
        return std::nullopt;
    }
  } else {
    switch (kind) {
      case UnaryKind::floor:
        return line<T, T>([](T x) { return std::floor(x); });
      case UnaryKind::ceil:
        return line<T, T>([](T x) { return std::ceil(x); });
      case UnaryKind::round:
        return line<T, T>([](T x) { return std::rint(x); });
      case UnaryKind::sqrt:
        return line<T, T>([](T x) { return std::sqrt(x); });
      case UnaryKind::reciprocal:
        return line<T, T>([](T x) { return T(1) / x; });
      case UnaryKind::is_nan:
        return line<T, std::uint8_t>([](T x) { return std::isnan(x); });
      case UnaryKind::is_inf:
        return line<T, std::uint8_t>([](T x) { return std::isinf(x); });
      default:
        return std::nullopt;
    }
  }
}

void infer_known(const graph::Unary& op, InferContext& c) {
  auto k = known(c, 0);
  if (!k) return;
  for (double& r : k->reals) {
    if (op.kind == UnaryKind::floor)
      r = std::floor(r);
    else if (op.kind == UnaryKind::ceil)
      r = std::ceil(r);
    else if (op.kind == UnaryKind::round)
      r = std::rint(r);
    else if (op.kind == UnaryKind::neg)
      r = -r;
    else if (op.kind == UnaryKind::abs)
      r = std::fabs(r);
    else
      return;
  }
  for (Dim& d : k->values) {
    if (op.kind == UnaryKind::neg)
      d = Dim(0) - d;
    else if (op.kind == UnaryKind::abs)
      d = d.known() && d.value() < 0 ? Dim(0) - d : d;
    else if (op.kind == UnaryKind::logical_not)
      d = d.known() ? Dim(d.value() == 0) : Dim::unknown();
    else
      return;
  }
  set_known(c, std::move(*k));
}

}  // namespace

Status infer_op(const graph::Unary& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 1, 1));
  const TensorType& x = c.type(0);
  const DType real = x.quant ? DType::f32 : x.dtype;
  if (op.kind == UnaryKind::logical_not) FOLD8_CHECK_OK(expect_dtype(c, 0, {DType::boolean}));
  const bool predicate = op.kind == UnaryKind::is_nan || op.kind == UnaryKind::is_inf;
  if (predicate && !is_floating(real)) return bad_input(c, 0, "floating point elements");
  c.set(0, predicate ? DType::boolean : real, x.shape);
  infer_known(op, c);
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::Unary& op, const PrepareContext& c) {
  const TensorType& x = c.type(0);
  const std::size_t n = count(x);
  const auto kind = kernel_kind(op.kind);
  if (kind && x.dtype == DType::f32) return prepare_f32(op, c, *kind);
  if (kind && x.dtype == DType::u8 && x.quant) return prepare_table(op, c, *kind);
  if (op.kind == UnaryKind::logical_not)
    return step_of(*line<std::uint8_t, std::uint8_t>([](std::uint8_t v) { return v == 0; }), op, n);
  std::optional<Line> line;
  if (x.dtype != DType::boolean)
    with_number_type(x.dtype, [&]<class T>() { line = line_of<T>(op.kind); });
  if (!line) return refuse(op, x);
  return step_of(*line, op, n);
}

}  // namespace fold8::ops
