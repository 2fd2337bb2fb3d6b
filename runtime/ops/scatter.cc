// ONNX ScatterElements and ScatterND: y = x, then updates written (or added, multiplied, ...) at
// indices, in order.
#include "runtime/ops/each_op.h"

namespace fold8::ops {
namespace {

using graph::ScatterReduction;

std::int64_t wrapped(std::int64_t i, std::int64_t n) {
  return i < -n || i >= n ? -1 : (i < 0 ? i + n : i);
}

Error outside(std::int64_t index, std::int64_t extent, std::size_t at) {
  return invalid_argument("index " + std::to_string(index) + " at position " + std::to_string(at) +
                          " of input 1 is outside an axis of extent " + std::to_string(extent));
}

template <class T>
void combine(ScatterReduction kind, T* y, const T* u, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    switch (kind) {
      case ScatterReduction::none:
        y[i] = u[i];
        break;
      case ScatterReduction::add:
        y[i] = wrap_add(y[i], u[i]);
        break;
      case ScatterReduction::mul:
        y[i] = wrap_mul(y[i], u[i]);
        break;
      case ScatterReduction::min:
        y[i] = u[i] < y[i] || u[i] != u[i] ? u[i] : y[i];
        break;
      case ScatterReduction::max:
        y[i] = u[i] > y[i] || u[i] != u[i] ? u[i] : y[i];
        break;
    }
  }
}

using Combine = void (*)(ScatterReduction, std::byte* y, const std::byte* u, std::size_t n,
                         std::size_t size);

Result<Combine> combine_for(ScatterReduction kind, DType dtype) {
  if (kind == ScatterReduction::none)
    return Combine(
        [](ScatterReduction, std::byte* y, const std::byte* u, std::size_t n, std::size_t size) {
          if (n > 0) std::memcpy(y, u, n * size);
        });
  Combine f = nullptr;
  if (dtype != DType::boolean) {
    with_number_type(dtype, [&]<class T>() {
      f = [](ScatterReduction k, std::byte* y, const std::byte* u, std::size_t n, std::size_t) {
        combine(k, reinterpret_cast<T*>(y), reinterpret_cast<const T*>(u), n);
      };
    });
  }
  if (f == nullptr)
    return unsupported("a scatter with a reduction over " + std::string(name(dtype)));
  return f;
}

Status infer_scatter(InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 3, 3));
  FOLD8_CHECK_OK(expect_index(c, 1));
  if (c.type(2).dtype != c.type(0).dtype)
    return bad_input(c, 2,
                     "elements of type " + std::string(name(c.type(0).dtype)) + " as input 0");
  set_like(c, 0, 0, c.shape(0));
  return ok_status();
}

void copy_input(const RunContext& run, std::size_t n) {
  if (n > 0 && run.outputs[0] != run.inputs[0]) std::memcpy(run.outputs[0], run.inputs[0], n);
}

}  // namespace

Status infer_op(const graph::ScatterElements& op, InferContext& c) {
  FOLD8_CHECK_OK(infer_scatter(c));
  FOLD8_TRY([[maybe_unused]] const int axis, checked_axis(op.axis, c.shape(0).rank()));
  if (c.shape(1).rank() != c.shape(0).rank())
    return bad_input(c, 1, "rank " + std::to_string(c.shape(0).rank()) + " as input 0");
  if (c.shape(2).rank() != c.shape(1).rank()) return bad_input(c, 2, "the shape of input 1");
  for (int a = 0; a < c.shape(1).rank(); ++a) {
    const Dim x = c.shape(0)[a], i = c.shape(1)[a], u = c.shape(2)[a];
    if (differ(i, u)) return bad_input(c, 2, "the shape of input 1, " + to_string(c.shape(1)));
    if (a != axis && x.known() && i.known() && i.value() > x.value())
      return bad_input(c, 1,
                       "at most " + std::to_string(x.value()) + " along axis " + std::to_string(a));
  }
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::ScatterElements& op, const PrepareContext& c) {
  const TensorType& x = c.type(0);
  const Shape shape = c.type(1).shape;
  const int rank = shape.rank();
  FOLD8_TRY(const int axis, checked_axis(op.axis, rank));
  FOLD8_TRY(const Combine f, combine_for(op.reduction, x.dtype));
  const Strides stride = strides_of(x);
  const std::size_t size = size_of(x.dtype), total = count(c.type(1)), whole = bytes(x);
  const std::int64_t n = x.shape.extent(axis);
  return make_step(
      [=, dtype = c.type(1).dtype, kind = op.reduction](const RunContext& run) -> Status {
        copy_input(run, whole);
        for (std::size_t i = 0; i < total; ++i) {
          const std::int64_t raw = index_at(run.inputs[1], dtype, i);
          if (wrapped(raw, n) < 0) return outside(raw, n, i);
          std::int64_t at = 0;
          auto left = static_cast<std::int64_t>(i);
          for (int a = rank - 1; a >= 0; --a) {
            at += (a == axis ? wrapped(raw, n) : left % shape.extent(a)) *
                  stride[static_cast<std::size_t>(a)];
            left /= shape.extent(a);
          }
          f(kind, out<std::byte>(run, 0) + static_cast<std::size_t>(at) * size,
            in<std::byte>(run, 2) + i * size, 1, size);
        }
        return ok_status();
      });
}

Status infer_op(const graph::ScatterND&, InferContext& c) {
  FOLD8_CHECK_OK(infer_scatter(c));
  const Shape& x = c.shape(0);
  const Shape& i = c.shape(1);
  if (i.rank() < 1 || !i.back().known()) return bad_input(c, 1, "a known last extent");
  const std::int64_t depth = i.back().value();
  if (depth < 0 || depth > x.rank())
    return bad_input(c, 1, "a last extent of at most " + std::to_string(x.rank()));
  const int rank = i.rank() - 1 + x.rank() - static_cast<int>(depth);
  if (c.shape(2).rank() != rank) return bad_input(c, 2, "rank " + std::to_string(rank));
  for (int a = 0; a < rank; ++a) {
    const Dim want = a < i.rank() - 1 ? i[a] : x[a - (i.rank() - 1) + static_cast<int>(depth)];
    const Dim have = c.shape(2)[a];
    if (differ(want, have))
      return bad_input(c, 2,
                       "extent " + std::to_string(want.value()) + " at axis " + std::to_string(a));
  }
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::ScatterND& op, const PrepareContext& c) {
  const TensorType& x = c.type(0);
  const TensorType& it = c.type(1);
  const int depth = static_cast<int>(it.shape.back().value());
  FOLD8_TRY(const Combine f, combine_for(op.reduction, x.dtype));
  const Shape shape = x.shape;
  const Strides stride = strides_of(x);
  const std::size_t size = size_of(x.dtype), whole = bytes(x);
  const auto updates = static_cast<std::size_t>(it.shape.count(0, it.shape.rank() - 1));
  const auto inner = static_cast<std::size_t>(x.shape.count(depth, x.shape.rank()));
  return make_step([=, dtype = it.dtype, kind = op.reduction](const RunContext& run) -> Status {
    copy_input(run, whole);
    for (std::size_t i = 0; i < updates; ++i) {
      std::int64_t at = 0;
      for (int d = 0; d < depth; ++d) {
        const std::size_t k = i * static_cast<std::size_t>(depth) + static_cast<std::size_t>(d);
        const std::int64_t raw = index_at(run.inputs[1], dtype, k);
        if (wrapped(raw, shape.extent(d)) < 0) return outside(raw, shape.extent(d), k);
        at += wrapped(raw, shape.extent(d)) * stride[static_cast<std::size_t>(d)];
      }
      f(kind, out<std::byte>(run, 0) + static_cast<std::size_t>(at) * size,
        in<std::byte>(run, 2) + i * inner * size, inner, size);
    }
    return ok_status();
  });
}

}  // namespace fold8::ops
