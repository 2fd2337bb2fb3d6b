#include "runtime/ops/matrix_steps.h"

#include "runtime/kernels/gemm_f32.h"
#include "runtime/kernels/gemm_f32s8.h"
#include "runtime/kernels/gemm_u8s8.h"
#include "runtime/kernels/matmul_f32.h"

namespace fold8::ops {

KeptVector<std::size_t> batch_indices(const Shape& operand, int axes, const Shape& out,
                                      int out_axes) {
  TensorType small, large;
  for (int a = 0; a < axes; ++a) small.shape.push_back(operand[a]);
  for (int a = 0; a < out_axes; ++a) large.shape.push_back(out[a]);
  const Strides s = broadcast_strides(small, large.shape);
  KeptVector<std::size_t> index(count(large));
  for (std::size_t i = 0; i < index.size(); ++i) {
    auto left = static_cast<std::int64_t>(i);
    for (int a = out_axes - 1; a >= 0; --a) {
      index[i] +=
          static_cast<std::size_t>(left % large.shape.extent(a) * s[static_cast<std::size_t>(a)]);
      left /= large.shape.extent(a);
    }
  }
  return index;
}

namespace {

struct KeptWeight {
  const void* source = nullptr;
  std::shared_ptr<const PackedWeight> packed;
};

Result<PackedWeight> dequantized(const graph::Op& op, const TensorType& w, const void* data) {
  FOLD8_TRY(const std::vector<float> real, dequantize_weight(op, w, data));
  return pack_weight(op, {DType::f32, w.shape, {}, Layout::plain}, real.data());
}

// pack() of operand 1, at most once for all plans of the node.
Result<Weight> packed_once(const graph::Op& op, const PrepareContext& c,
                           Result<PackedWeight> (*pack)(const graph::Op&, const TensorType&,
                                                        const void*)) {
  const void* data = c.inputs[1].constant;
  if (c.memo != nullptr && c.memo->weight != nullptr) {
    const auto kept = std::static_pointer_cast<const KeptWeight>(c.memo->weight);
    if (kept->source == data) return Weight(kept->packed);
  }
  FOLD8_TRY(PackedWeight p, pack(op, c.type(1), data));
  auto packed = std::make_shared<const PackedWeight>(std::move(p));
  if (c.memo != nullptr)
    c.memo->weight = std::make_shared<const KeptWeight>(KeptWeight{data, packed});
  return Weight(std::move(packed));
}

}  // namespace

Result<Weight> packed_operand(const graph::Op& op, const PrepareContext& c) {
  if (c.type(1).layout != Layout::plain) return Weight(c.type(1), c.inputs[1].constant);
  return packed_once(op, c, pack_weight);
}

Result<Weight> packed_f32_operand(const graph::Op& op, const PrepareContext& c) {
  if (c.type(1).dtype == DType::f32) return packed_operand(op, c);
  return packed_once(op, c, dequantized);
}

kernels::Epilogue epilogue_at(kernels::Epilogue e, std::size_t first_row) {
  if (e.residual) {
    const std::size_t size = e.residual_kind == kernels::ResidualKind::u8 ? 1 : sizeof(float);
    e.residual = static_cast<const std::byte*>(e.residual) + first_row * e.residual_stride * size;
  }
  if (e.row_scale) e.row_scale += first_row;
  const std::size_t size = e.output_kind == kernels::OutputKind::u8 ? 1 : 4;
  e.y = static_cast<std::byte*>(e.y) + first_row * e.y_stride * size;
  return e;
}

Result<StepPtr> gemm_f32_step(const PrepareContext& c, MatrixBatch batch, Weight weight,
                              EpiloguePlan epilogue) {
  const std::size_t scratch = epilogue.scratch_bytes(),
                    one = kernels::packed_f32_size(batch.n, batch.k);
  const double macs = batch.macs();
  return make_step(
      [=, batch = std::move(batch), weight = std::move(weight), epilogue = std::move(epilogue),
       kernel = c.kernels->gemm_f32](const RunContext& run) {
        const kernels::Epilogue e = epilogue.bind(run, run.scratch);
        for (std::size_t i = 0; i < batch.x_index.size(); ++i) {
          kernels::GemmF32Args args;
          args.m = batch.m;
          args.n = batch.n;
          args.k = args.x_stride = batch.k;
          args.x = in<float>(run, 0) + batch.x_index[i] * batch.m * batch.k;
          args.w = reinterpret_cast<const float*>(weight.data) + batch.w_index[i] * one;
          args.epilogue = epilogue_at(e, i * batch.m);
          const std::size_t panels = (batch.n + kernels::kPanelF32 - 1) / kernels::kPanelF32;
          split_matrix(run, batch.m, panels, batch.m * batch.n * batch.k, kGrainF32,
                       [&](std::size_t rb, std::size_t re, std::size_t pb, std::size_t pe,
                           std::size_t) { kernel(part_of(args, rb, re, pb, pe)); });
        }
        return ok_status();
      },
      scratch, macs);
}

Result<StepPtr> gemm_f32s8_step(const PrepareContext& c, const MatrixBatch& batch, Weight weight,
                                EpiloguePlan epilogue) {
  const TensorType& w = *weight.type;
  const KBlocks blocks = k_blocks(w);
  std::vector<float> scale(blocks.count * batch.n);
  if (w.quant->granularity() == Granularity::per_group) {
    FOLD8_CHECK_OK(expect_group_scales(w, batch.n));
    for (std::size_t n = 0; n < batch.n; ++n)
      for (std::size_t g = 0; g < blocks.count; ++g)
        scale[g * batch.n + n] = w.quant->scales()[n * blocks.count + g];
  } else {
    FOLD8_TRY(const ColumnParams columns, column_params(w, 0, batch.n));
    for (std::size_t n = 0; n < batch.n; ++n) scale[n] = columns.scales[n % columns.scales.size()];
  }
  const std::size_t offsets = epilogue.scratch_bytes(),
                    call = round_up(kernels::gemm_f32s8_scratch_bytes(), kAlignment);
  const double macs = batch.macs();
  return make_step(
      [=, weight = std::move(weight), epilogue = std::move(epilogue), scale = std::move(scale),
       kernel = c.kernels->gemm_f32s8](const RunContext& run) {
        kernels::GemmF32S8Args args;
        args.m = batch.m;
        args.n = batch.n;
        args.k = args.x_stride = batch.k;
        args.group = blocks.block;
        args.x = in<float>(run, 0);
        args.w = reinterpret_cast<const std::int8_t*>(weight.data);
        args.scale = scale.data();
        args.epilogue = epilogue.bind(run, run.scratch);
        split_matrix(
            run, batch.m, kernels::s8_panels(batch.n), batch.m * batch.n * batch.k, kGrainF32,
            [&](std::size_t rb, std::size_t re, std::size_t pb, std::size_t pe, std::size_t part) {
              kernels::GemmF32S8Args a = part_of(args, rb, re, pb, pe);
              a.scratch = run.scratch + offsets + part * call;
              kernel(a);
            });
        return ok_status();
      },
      offsets + call * static_cast<std::size_t>(std::max(c.threads, 1)), macs);
}

Result<StepPtr> gemm_u8s8_step(const PrepareContext& c, MatrixBatch batch, Weight weight,
                               std::vector<std::int32_t> zero_points, EpiloguePlan epilogue) {
  const std::size_t call = round_up(kernels::gemm_u8s8_scratch_bytes(batch.k), kAlignment),
                    offsets = epilogue.scratch_bytes();
  const std::size_t one = kernels::packed_s8_bytes(batch.n, batch.k);
  const double macs = batch.macs();
  const auto& q = c.type(0).quant;
  const std::int32_t zero = !q                                           ? 0
                            : q->granularity() == Granularity::per_token ? 128
                                                                         : q->zero_point();
  if (!zero_points.empty()) zero_points.resize(round_up(zero_points.size(), 16));
  return make_step(
      [=, batch = std::move(batch), weight = std::move(weight), epilogue = std::move(epilogue),
       zeros = std::move(zero_points), kernel = c.kernels->gemm_u8s8](const RunContext& run) {
        const kernels::Epilogue e = epilogue.bind(run, run.scratch);
        for (std::size_t i = 0; i < batch.x_index.size(); ++i) {
          kernels::GemmU8S8Args args;
          args.m = batch.m;
          args.n = batch.n;
          args.k = args.x_stride = batch.k;
          args.x = in<std::uint8_t>(run, 0) + batch.x_index[i] * batch.m * batch.k;
          args.x_zero_point = zero;
          args.w = reinterpret_cast<const std::int8_t*>(weight.data) + batch.w_index[i] * one;
          args.w_zero_points = zeros.empty() ? nullptr : zeros.data();
          args.epilogue = epilogue_at(e, i * batch.m);
          split_matrix(
              run, batch.m, kernels::s8_panels(batch.n), batch.m * batch.n * batch.k, kGrainS8,
              [&](std::size_t rb, std::size_t re, std::size_t pb, std::size_t pe, std::size_t p) {
                kernels::GemmU8S8Args part = args;
                part.m_begin = rb;
                part.m_end = re;
                part.panel_begin = pb;
                part.panel_end = pe;
                part.scratch = run.scratch + offsets + p * call;
                kernel(part);
              });
        }
        return ok_status();
      },
      offsets + call * static_cast<std::size_t>(std::max(c.threads, 1)), macs);
}

Result<StepPtr> computed_weight_step(const PrepareContext& c, MatrixBatch batch,
                                     EpiloguePlan epilogue) {
  kernels::MatmulF32Args shape;
  shape.m = batch.m;
  shape.n = batch.n;
  shape.k = shape.a_row_stride = shape.b_col_stride = batch.k;
  shape.b_row_stride = 1;
  const std::size_t offsets = epilogue.scratch_bytes(),
                    call = round_up(kernels::matmul_f32_scratch_bytes(shape), kAlignment);
  const double macs = batch.macs();
  return make_step(
      [=, batch = std::move(batch), epilogue = std::move(epilogue),
       kernel = c.kernels->matmul_f32](const RunContext& run) {
        const kernels::Epilogue e = epilogue.bind(run, run.scratch);
        for (std::size_t i = 0; i < batch.x_index.size(); ++i) {
          kernels::MatmulF32Args args = shape;
          args.a = in<float>(run, 0) + batch.x_index[i] * batch.m * batch.k;
          args.b = in<float>(run, 1) + batch.w_index[i] * batch.n * batch.k;
          args.epilogue = epilogue_at(e, i * batch.m);
          split_matrix(
              run, batch.m, 1, batch.m * batch.n * batch.k, kGrainF32,
              [&](std::size_t rb, std::size_t re, std::size_t, std::size_t, std::size_t p) {
                kernels::MatmulF32Args part = args;
                part.row_begin = rb;
                part.row_end = re;
                part.scratch = run.scratch + offsets + p * call;
                kernel(part);
              });
        }
        return ok_status();
      },
      offsets + call * static_cast<std::size_t>(std::max(c.threads, 1)), macs);
}

}  // namespace fold8::ops
