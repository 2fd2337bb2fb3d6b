#include "runtime/ops/linear_groups.h"

#include <cmath>

#include "runtime/kernels/gemm_u8s8.h"
#include "runtime/kernels/unary.h"

namespace fold8::ops {
namespace {

struct Groups {
  MatrixBatch batch;
  KBlocks blocks;
  std::shared_ptr<const PackedWeight> owned;  // or null: the weight lies in the model
  const std::byte* weight = nullptr;
  std::vector<float> scale;                      // [groups][n], combined with s_x / s_y
  std::vector<std::vector<std::int32_t>> zeros;  // [groups][n], or empty
  std::int32_t x_zero = 0;
  EpiloguePlan epilogue;
  kernels::gemm_u8s8_fn* gemm = nullptr;
  kernels::unary_fn* unary = nullptr;
  std::size_t call = 0, offsets = 0, part = 0;  // scratch: of a gemm call, of offsets, of a thread
};

// One row: residual, activation, output (epilogue.h), r in place.
void finish_row(const Groups& g, const kernels::Epilogue& e, std::size_t row, float* r) {
  const std::size_t n = g.batch.n, at = row * e.y_stride;
  for (std::size_t j = 0; j < n; ++j) {
    if (e.row_scale) r[j] = r[j] * e.row_scale[row];
    r[j] = r[j] + (e.offset ? e.offset[j] : 0.0f);
    if (e.residual_kind == kernels::ResidualKind::f32)
      r[j] = std::fma(static_cast<const float*>(e.residual)[at + j], e.residual_scale, r[j]);
    else if (e.residual_kind == kernels::ResidualKind::u8)
      r[j] = std::fma(static_cast<float>(static_cast<const std::uint8_t*>(e.residual)[at + j] -
                                         e.residual_zero_point),
                      e.residual_scale, r[j]);
  }
  if (e.activation != Activation::none)
    g.unary({.kind = static_cast<kernels::UnaryKind>(e.activation),
             .n = n,
             .x = r,
             .y = r,
             .a = e.a,
             .b = e.b});
  if (e.output_kind == kernels::OutputKind::f32) {
    std::copy_n(r, n, static_cast<float*>(e.y) + at);
    return;
  }
  const auto z = static_cast<float>(e.y_zero_point);
  for (std::size_t j = 0; j < n; ++j) {
    const float v = e.y_divisor != 0 ? r[j] / e.y_divisor : r[j];
    const float q = v != v ? 0.0f : std::rint(std::min(std::max(v, -z), 255 - z));
    static_cast<std::uint8_t*>(e.y)[at + j] =
        static_cast<std::uint8_t>(static_cast<std::int32_t>(q) + e.y_zero_point);
  }
}

constexpr std::size_t kRows = 32;  // that share a pass over the weights

// Rows [begin, end) of one product. scratch: gemm call, then rows of s32 sums, then rows of floats.
void run_rows(const Groups& g, const kernels::Epilogue& e, const std::uint8_t* x,
              const std::int8_t* w, std::size_t begin, std::size_t end, std::byte* scratch) {
  const std::size_t n = g.batch.n, block = round_up(kRows * n * sizeof(float), kAlignment);
  auto* acc = reinterpret_cast<std::int32_t*>(scratch + g.call);
  auto* sum = reinterpret_cast<float*>(scratch + g.call + block);
  for (std::size_t row = begin; row < end; row += kRows) {
    const std::size_t rows = std::min(kRows, end - row);
    std::fill_n(sum, rows * n, 0.0f);
    const std::int8_t* packed = w;
    for (std::size_t k = 0; k < g.blocks.count; ++k) {
      kernels::GemmU8S8Args args;
      args.m = args.m_end = rows;
      args.n = n;
      args.k = g.blocks.depth(k);
      args.x = x + row * g.batch.k + k * g.blocks.block;
      args.x_stride = g.batch.k;
      args.x_zero_point = g.x_zero;
      args.w = packed;
      args.w_zero_points = g.zeros.empty() ? nullptr : g.zeros[k].data();
      args.epilogue.output_kind = kernels::OutputKind::s32;
      args.epilogue.y = acc;
      args.epilogue.y_stride = n;
      args.scratch = scratch;
      args.panel_end = kernels::s8_panels(n);
      g.gemm(args);
      packed += kernels::packed_s8_bytes(n, args.k);
      const float* s = g.scale.data() + k * n;
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t j = 0; j < n; ++j)
          sum[r * n + j] = std::fma(static_cast<float>(acc[r * n + j]), s[j], sum[r * n + j]);
    }
    for (std::size_t r = 0; r < rows; ++r) finish_row(g, e, row + r, sum + r * n);
  }
}

}  // namespace

Result<StepPtr> prepare_linear_groups(const graph::Linear& op, const PrepareContext& c,
                                      MatrixBatch batch, Weight weight) {
  Groups g;
  const TensorType& w = *weight.type;
  const QuantParams& q = *w.quant;
  FOLD8_CHECK_OK(expect_group_scales(w, batch.n));
  if (c.out(0).dtype == DType::s32)
    return unsupported("raw sums of a weight with scales per group");
  g.blocks = k_blocks(w);
  static constexpr float kOne = 1.0f;
  FOLD8_TRY(g.epilogue, EpiloguePlan::make(c, {.columns = batch.n,
                                               .activation = op.activation,
                                               .a = op.a,
                                               .b = op.b,
                                               .integer = true,
                                               .weight_scales = {&kOne, 1}}));
  const auto& xq = c.type(0).quant;
  const bool per_token = xq && xq->granularity() == Granularity::per_token;
  const bool folds = op.activation == Activation::none || op.activation == Activation::clip;
  const double sx = xq && !per_token ? static_cast<double>(xq->scale()) : 1.0;
  const double sy =
      c.out(0).quant && !per_token && folds ? static_cast<double>(c.out(0).quant->scale()) : 1.0;
  g.x_zero = !xq ? 0 : per_token ? 128 : xq->zero_point();
  g.scale.resize(batch.n * g.blocks.count);
  if (q.has_zero_points())
    g.zeros.assign(g.blocks.count, std::vector<std::int32_t>(round_up(batch.n, 16)));
  for (std::size_t n = 0; n < batch.n; ++n)
    for (std::size_t k = 0; k < g.blocks.count; ++k) {
      const std::size_t at = n * g.blocks.count + k;
      g.scale[k * batch.n + n] = static_cast<float>(sx * static_cast<double>(q.scales()[at]) / sy);
      if (!g.zeros.empty()) g.zeros[k][n] = q.zero_point(at);
    }
  g.batch = std::move(batch);
  g.weight = weight.data;
  g.owned = std::move(weight.owned);
  g.gemm = c.kernels->gemm_u8s8;
  g.unary = c.kernels->unary;
  g.call = round_up(kernels::gemm_u8s8_scratch_bytes(g.blocks.block), kAlignment);
  g.offsets = g.epilogue.scratch_bytes();
  g.part = g.call + 2 * round_up(kRows * g.batch.n * sizeof(float), kAlignment);
  const std::size_t scratch = g.offsets + g.part * static_cast<std::size_t>(std::max(c.threads, 1));
  const std::size_t m = g.batch.m;
  const double macs = g.batch.macs();
  return make_step(
      [g = std::move(g), m](const RunContext& run) {
        const kernels::Epilogue e = g.epilogue.bind(run, run.scratch);
        parallel(
            run, m,
            std::max<std::size_t>(1, kGrainF32 / std::max<std::size_t>(1, g.batch.n * g.batch.k)),
            [&](std::size_t b, std::size_t end, std::size_t p) {
              run_rows(g, e, in<std::uint8_t>(run, 0),
                       reinterpret_cast<const std::int8_t*>(g.weight), b, end,
                       run.scratch + g.offsets + p * g.part);
            });
        return ok_status();
      },
      scratch, macs);
}

}  // namespace fold8::ops
