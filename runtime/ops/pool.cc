// ONNX MaxPool, AveragePool, LpPool and the global ones, in either layout (kernels/pool.h). Max
// pooling with indices and LpPool (p = 1, 2) are plain loops.
#include "runtime/kernels/pool.h"

#include "runtime/ops/each_op.h"
#include "runtime/ops/pool_loops.h"
#include "runtime/ops/window.h"

namespace fold8::ops {
namespace {

using graph::PoolKind;

Result<Window> window_of(const graph::Pool& op, int rank) {
  if (op.global) return make_window({}, {}, {}, {}, graph::AutoPad::none, rank - 2);
  if (op.kernel.empty()) return invalid_model("a pool without a kernel");
  return make_window(op.kernel, op.strides, op.pads, op.dilations, op.auto_pad, rank - 2);
}

kernels::PoolWindow kernel_window(const graph::Pool& op, const Window& w, const Shape& x,
                                  const Shape& y) {
  kernels::PoolWindow k;
  for (int i = 0; i < w.axes; ++i) {
    kernels::PoolAxis& a = k.axis[3 - w.axes + i];
    a.in = x.extent(2 + i);
    a.out = y.extent(2 + i);
    if (op.global) {
      a.kernel = a.in;
      continue;
    }
    const Pads pads = resolved_pads(w, i, a.in);
    a.kernel = w.kernel[i];
    a.stride = w.stride[i];
    a.dilation = w.dilation[i];
    a.pad_begin = pads.begin;
    a.pad_end = pads.end;
  }
  return k;
}

// Lines of the output in kernel terms, and elements a line.
struct Lines {
  std::size_t outer = 1, channels = 1, lines = 0, work = 1;
};
Lines lines_of(const TensorType& x, const kernels::PoolWindow& w) {
  Lines l;
  const auto n = static_cast<std::size_t>(x.shape.extent(0)),
             c = static_cast<std::size_t>(x.shape.extent(1));
  const bool last = x.layout == Layout::channels_last;
  l.outer = last ? n : n * c;
  l.channels = last ? c : 1;
  l.lines = l.outer * static_cast<std::size_t>(w.axis[0].out * w.axis[1].out);
  l.work = l.channels * static_cast<std::size_t>(w.axis[2].out);
  for (const kernels::PoolAxis& a : w.axis) l.work *= static_cast<std::size_t>(a.kernel);
  return l;
}

template <class Args, class Kernel, class X, class Y>
Result<StepPtr> line_step(Args args, Kernel* kernel, const Lines& l, X, Y,
                          std::vector<float> multipliers = {}) {
  args.outer = l.outer;
  args.channels = l.channels;
  return make_step([args, kernel, l, multipliers = std::move(multipliers)](const RunContext& run) {
    parallel(run, l.lines, grain_for(l.work), [&](std::size_t b, std::size_t e, std::size_t) {
      Args part = args;
      part.x = in<X>(run, 0);
      part.y = out<Y>(run, 0);
      if constexpr (requires { part.multipliers; }) part.multipliers = multipliers.data();
      part.line_begin = b;
      part.line_end = e;
      kernel(part);
    });
    return ok_status();
  });
}

Result<StepPtr> prepare_average_u8(const graph::Pool& op, const PrepareContext& c,
                                   const kernels::PoolWindow& w, const Lines& l) {
  kernels::AveragePoolU8Args args;
  const QuantParams& q = *c.type(0).quant;
  const TensorType& y = c.out(0);
  args.window = w;
  args.count_include_pad = op.count_include_pad;
  args.x_zero_point = q.zero_point();
  const double sy = y.quant ? static_cast<double>(y.quant->scale()) : 1.0;
  args.output_kind = y.dtype == DType::u8 ? kernels::OutputKind::u8 : kernels::OutputKind::f32;
  args.y_zero_point = y.quant ? y.quant->zero_point() : 0;
  const std::int64_t taps = w.axis[0].kernel * w.axis[1].kernel * w.axis[2].kernel;
  if (taps > (1 << 26))
    return unsupported("an average over " + std::to_string(taps) + " positions");
  std::vector<float> m(static_cast<std::size_t>(taps) + 1, 0.0f);
  const std::int64_t fewest = op.global ? taps : 1;  // a global window is never cut by a border
  for (std::int64_t i = fewest; i <= taps; ++i)
    m[static_cast<std::size_t>(i)] =
        static_cast<float>(static_cast<double>(q.scale()) / sy / static_cast<double>(i));
  return line_step(args, c.kernels->average_pool_u8, l, std::uint8_t{}, std::byte{}, std::move(m));
}

Result<StepPtr> prepare_global_average(const PrepareContext& c, const Lines& l) {
  kernels::GlobalAverageF32Args args;
  args.outer = l.outer;
  args.channels = l.channels;
  args.positions = static_cast<std::size_t>(c.type(0).shape.count(2, c.type(0).shape.rank()));
  return make_step([args, kernel = c.kernels->global_average_f32](const RunContext& run) {
    parallel(run, args.outer * args.channels, grain_for(args.positions),
             [&](std::size_t b, std::size_t e, std::size_t) {
               kernels::GlobalAverageF32Args part = args;
               part.x = in<float>(run, 0);
               part.y = out<float>(run, 0);
               part.begin = b;
               part.end = e;
               kernel(part);
             });
    return ok_status();
  });
}

}  // namespace

Status infer_op(const graph::Pool& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 1, 1, op.kind == PoolKind::max ? 2 : 1));
  const TensorType& x = c.type(0);
  if (x.shape.rank() < 3) return bad_input(c, 0, "rank 3 or more, [N, C, spatial..]");
  if (!x.quant && op.kind != PoolKind::max) FOLD8_CHECK_OK(expect_dtype(c, 0, {DType::f32}));
  if (op.kind == PoolKind::max)
    FOLD8_CHECK_OK(expect_dtype(c, 0, {DType::f32, DType::u8, DType::s8}));
  FOLD8_TRY(const Window w, window_of(op, x.shape.rank()));
  Shape y = x.shape;
  for (int i = 0; i < w.axes; ++i) {
    y[2 + i] = op.global ? Dim(1) : window_extent(w, i, x.shape[2 + i], op.ceil_mode);
    if (y[2 + i].known() && y[2 + i].value() == 0 && !(x.shape[2 + i] == Dim(0)))
      return bad_input(c, 0,
                       "an extent of axis " + std::to_string(2 + i) + " that holds the window, " +
                           std::to_string((w.kernel[i] - 1) * w.dilation[i] + 1));
  }
  if (op.kind == PoolKind::max)
    set_like(c, 0, 0, y);
  else
    c.set(0, DType::f32, y);
  c.set(1, DType::s64, y);
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::Pool& op, const PrepareContext& c) {
  const TensorType& x = c.type(0);
  FOLD8_TRY(const Window w, window_of(op, x.shape.rank()));
  const TensorType& any = c.wants(0) ? c.out(0) : c.out(1);
  const kernels::PoolWindow k = kernel_window(op, w, x.shape, any.shape);
  if (any.shape.count() == 0) return make_step([](const RunContext&) { return ok_status(); });
  const Lines l = lines_of(x, k);
  if (op.kind == PoolKind::lp) return prepare_lp_pool(op.p, x, any, k);
  if (op.kind == PoolKind::max) {
    if (c.wants(1) || (x.dtype != DType::f32 && x.dtype != DType::u8))
      return prepare_max_pool_indices(op.storage_order, x, any, k);
    if (x.dtype == DType::u8) {
      if (x.quant != c.out(0).quant)
        return unsupported("a max pool from " + describe(x) + " to " + describe(c.out(0)) +
                           ": its parameters must stay");
      kernels::MaxPoolArgs<std::uint8_t> args;
      args.window = k;
      return line_step(args, c.kernels->max_pool_u8, l, std::uint8_t{}, std::uint8_t{});
    }
    kernels::MaxPoolArgs<float> args;
    args.window = k;
    return line_step(args, c.kernels->max_pool_f32, l, float{}, float{});
  }
  if (x.dtype == DType::u8) return prepare_average_u8(op, c, k, l);
  if (op.global) return prepare_global_average(c, l);
  kernels::AveragePoolF32Args args;
  args.window = k;
  args.count_include_pad = op.count_include_pad;
  return line_step(args, c.kernels->average_pool_f32, l, float{}, float{});
}

}  // namespace fold8::ops
