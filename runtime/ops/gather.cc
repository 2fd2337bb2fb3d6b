// ONNX Gather, GatherElements, GatherND. Negative indices count from the end; an index outside is
// an error of run().
//
// Gather from s8 [V, D..] with params per channel of axis 0, along that axis, gives real numbers:
//   y[i.., d..] = f32(q[v, d..] - z[v]) * s[v],  v = index[i..]            one rounding
#include "runtime/kernels/quantize.h"
#include "runtime/ops/each_op.h"

namespace fold8::ops {
namespace {

Error outside(std::int64_t index, std::int64_t extent, std::size_t at) {
  return invalid_argument("index " + std::to_string(index) + " at position " + std::to_string(at) +
                          " of input 1 is outside an axis of extent " + std::to_string(extent));
}

// index in [-n, n) as 0 .. n-1; -1 if it is outside.
std::int64_t wrapped(std::int64_t i, std::int64_t n) {
  return i < -n || i >= n ? -1 : (i < 0 ? i + n : i);
}

Status all_inside(const void* indices, DType dtype, std::size_t count, std::int64_t n) {
  for (std::size_t i = 0; i < count; ++i)
    if (wrapped(index_at(indices, dtype, i), n) < 0)
      return outside(index_at(indices, dtype, i), n, i);
  return ok_status();
}

// A table of rows that carry scales of their own.
bool has_scaled_rows(const TensorType& x) {
  return is_quantizable(x.dtype) && x.quant && x.quant->granularity() == Granularity::per_channel &&
         x.quant->axis() == 0;
}

Result<StepPtr> prepare_rows(const PrepareContext& c) {
  const TensorType& x = c.type(0);
  if (c.out(0).dtype != DType::f32 || c.inputs[0].constant == nullptr)
    return unsupported("rows of " + describe(x) + " gathered as " + describe(c.out(0)));
  const auto n = x.shape.extent(0);
  const auto inner = static_cast<std::size_t>(x.shape.count(1, x.shape.rank()));
  const std::size_t indices = count(c.type(1));
  return make_step([=, dtype = c.type(1).dtype, params = *x.quant,
                    type = x.dtype == DType::u8 ? kernels::QType::u8 : kernels::QType::s8,
                    dequantize = c.kernels->dequantize](const RunContext& run) -> Status {
    FOLD8_CHECK_OK(all_inside(run.inputs[1], dtype, indices, n));
    if (inner == 0) return ok_status();
    parallel(run, indices, grain_for(inner / 4), [&](std::size_t b, std::size_t e, std::size_t) {
      for (std::size_t i = b; i < e; ++i) {
        const auto v = static_cast<std::size_t>(wrapped(index_at(run.inputs[1], dtype, i), n));
        const std::int32_t zero_point = params.zero_point(v);
        dequantize({.type = type,
                    .inner = inner,
                    .q = in<std::byte>(run, 0) + v * inner,
                    .y = out<float>(run, 0) + i * inner,
                    .scales = &params.scales()[v],
                    .zero_points = &zero_point});
      }
    });
    return ok_status();
  });
}

}  // namespace

Status infer_op(const graph::Gather& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 2, 2));
  FOLD8_CHECK_OK(expect_index(c, 1));
  const Shape& x = c.shape(0);
  const Shape& indices = c.shape(1);
  FOLD8_TRY(const int axis, checked_axis(op.axis, x.rank()));
  FOLD8_CHECK_OK(expect_rank_fits(x.rank() - 1 + indices.rank()));
  Shape y;
  for (int a = 0; a < axis; ++a) y.push_back(x[a]);
  for (Dim d : indices.dims()) y.push_back(d);
  for (int a = axis + 1; a < x.rank(); ++a) y.push_back(x[a]);
  if (has_scaled_rows(c.type(0))) {
    if (axis != 0) return bad_input(c, 0, "rows along axis 0, which have scales, to be gathered");
    c.set(0, DType::f32, y);
    return ok_status();
  }
  set_like(c, 0, 0, y);
  const auto k = known(c, 0);
  const auto i = c.ints(1);
  if (!k || k->scalar || !i || !i->all_known()) return ok_status();
  std::vector<std::size_t> index;
  for (Dim d : i->values) {
    const std::int64_t at = wrapped(d.value(), static_cast<std::int64_t>(k->size()));
    if (at < 0) return outside(d.value(), static_cast<std::int64_t>(k->size()), index.size());
    index.push_back(static_cast<std::size_t>(at));
  }
  set_known(c, pick(*k, index, false));
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::Gather& op, const PrepareContext& c) {
  const TensorType& x = c.type(0);
  if (has_scaled_rows(x)) return prepare_rows(c);
  FOLD8_TRY(const int axis, checked_axis(op.axis, x.shape.rank()));
  const auto outer = static_cast<std::size_t>(x.shape.count(0, axis));
  const std::int64_t n = x.shape.extent(axis);
  const std::size_t inner =
      static_cast<std::size_t>(x.shape.count(axis + 1, x.shape.rank())) * size_of(x.dtype);
  const std::size_t indices = count(c.type(1));
  const DType dtype = c.type(1).dtype;
  return make_step([=](const RunContext& run) -> Status {
    FOLD8_CHECK_OK(all_inside(run.inputs[1], dtype, indices, n));
    if (inner == 0) return ok_status();
    parallel(
        run, outer * indices, grain_for(inner / 4), [&](std::size_t b, std::size_t e, std::size_t) {
          for (std::size_t i = b; i < e; ++i) {
            const auto from =
                static_cast<std::size_t>(wrapped(index_at(run.inputs[1], dtype, i % indices), n));
            std::memcpy(
                out<std::byte>(run, 0) + i * inner,
                in<std::byte>(run, 0) + (i / indices * static_cast<std::size_t>(n) + from) * inner,
                inner);
          }
        });
    return ok_status();
  });
}

Status infer_op(const graph::GatherElements& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 2, 2));
  FOLD8_CHECK_OK(expect_index(c, 1));
  FOLD8_TRY(const int axis, checked_axis(op.axis, c.shape(0).rank()));
  if (c.shape(1).rank() != c.shape(0).rank())
    return bad_input(c, 1, "rank " + std::to_string(c.shape(0).rank()) + " as input 0");
  for (int a = 0; a < c.shape(0).rank(); ++a) {
    const Dim x = c.shape(0)[a], i = c.shape(1)[a];
    if (a != axis && x.known() && i.known() && i.value() > x.value())
      return bad_input(c, 1,
                       "at most " + std::to_string(x.value()) + " along axis " + std::to_string(a));
  }
  set_like(c, 0, 0, c.shape(1));
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::GatherElements& op, const PrepareContext& c) {
  const TensorType& x = c.type(0);
  const Shape shape = c.type(1).shape;
  const int rank = shape.rank();
  FOLD8_TRY(const int axis, checked_axis(op.axis, rank));
  const Strides stride = strides_of(x);
  const DType dtype = c.type(1).dtype;
  const std::size_t size = size_of(x.dtype), total = count(c.type(1));
  const std::int64_t n = x.shape.extent(axis);
  return make_step([=](const RunContext& run) -> Status {
    FOLD8_CHECK_OK(all_inside(run.inputs[1], dtype, total, n));
    parallel(run, total, grain_for(8), [&](std::size_t b, std::size_t e, std::size_t) {
      for (std::size_t i = b; i < e; ++i) {
        std::int64_t at = 0;
        auto left = static_cast<std::int64_t>(i);
        for (int a = rank - 1; a >= 0; --a) {
          const std::int64_t here = left % shape.extent(a);
          left /= shape.extent(a);
          at += (a == axis ? wrapped(index_at(run.inputs[1], dtype, i), n) : here) *
                stride[static_cast<std::size_t>(a)];
        }
        std::memcpy(out<std::byte>(run, 0) + i * size,
                    in<std::byte>(run, 0) + static_cast<std::size_t>(at) * size, size);
      }
    });
    return ok_status();
  });
}

Status infer_op(const graph::GatherND& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 2, 2));
  FOLD8_CHECK_OK(expect_index(c, 1));
  const Shape& x = c.shape(0);
  const Shape& i = c.shape(1);
  if (i.rank() < 1 || !i.back().known()) return bad_input(c, 1, "a known last extent");
  const std::int64_t batch = op.batch_dims, depth = i.back().value();
  if (batch < 0 || batch >= i.rank() || depth < 1 || batch + depth > x.rank())
    return bad_input(c, 1,
                     "a last extent of 1 to " + std::to_string(x.rank() - batch) +
                         " with batch_dims " + std::to_string(batch));
  FOLD8_CHECK_OK(expect_rank_fits(i.rank() - 1 + x.rank() - static_cast<int>(batch + depth)));
  for (int a = 0; a < batch; ++a)
    if (differ(x[a], i[a]))
      return bad_input(
          c, 1, "extent " + std::to_string(x[a].value()) + " at batch axis " + std::to_string(a));
  Shape y;
  for (int a = 0; a < i.rank() - 1; ++a) y.push_back(i[a]);
  for (int a = static_cast<int>(batch + depth); a < x.rank(); ++a) y.push_back(x[a]);
  set_like(c, 0, 0, y);
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::GatherND& op, const PrepareContext& c) {
  const TensorType& x = c.type(0);
  const TensorType& it = c.type(1);
  const int batch = static_cast<int>(op.batch_dims),
            depth = static_cast<int>(it.shape.back().value());
  const Shape shape = x.shape;
  const Strides stride = strides_of(x);
  const auto batches = static_cast<std::size_t>(x.shape.count(0, batch));
  const auto per_batch = static_cast<std::size_t>(it.shape.count(batch, it.shape.rank() - 1));
  const std::size_t inner =
      static_cast<std::size_t>(x.shape.count(batch + depth, x.shape.rank())) * size_of(x.dtype);
  const std::size_t sample =
      static_cast<std::size_t>(x.shape.count(batch, x.shape.rank())) * size_of(x.dtype);
  const std::size_t size = size_of(x.dtype);
  return make_step([=, dtype = it.dtype](const RunContext& run) -> Status {
    for (std::size_t i = 0; i < batches * per_batch; ++i) {
      std::int64_t at = 0;
      for (int d = 0; d < depth; ++d) {
        const std::size_t k = i * static_cast<std::size_t>(depth) + static_cast<std::size_t>(d);
        const std::int64_t raw = index_at(run.inputs[1], dtype, k), n = shape.extent(batch + d);
        if (wrapped(raw, n) < 0) return outside(raw, n, k);
        at += wrapped(raw, n) * stride[static_cast<std::size_t>(batch + d)];
      }
      if (inner > 0)
        std::memcpy(
            out<std::byte>(run, 0) + i * inner,
            in<std::byte>(run, 0) + i / per_batch * sample + static_cast<std::size_t>(at) * size,
            inner);
    }
    return ok_status();
  });
}

}  // namespace fold8::ops
