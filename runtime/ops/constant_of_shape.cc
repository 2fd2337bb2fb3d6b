// ONNX ConstantOfShape: a tensor of the shape input 0 holds, filled with one value.
#include "runtime/ops/each_op.h"

namespace fold8::ops {
namespace {

template <class T>
T value_of(const graph::ConstantOfShape& op) {
  T v;
  std::memcpy(&v, &op.bits, sizeof(T));
  return v;
}

KnownInts repeated(const graph::ConstantOfShape& op, std::size_t n) {
  KnownInts k;
  k.real = is_floating(op.dtype);
  with_number_type(op.dtype, [&]<class T>() {
    if (k.real)
      k.reals.assign(n, static_cast<double>(value_of<T>(op)));
    else
      k.values.assign(n, Dim(static_cast<std::int64_t>(value_of<T>(op))));
  });
  return k;
}

}  // namespace

Status infer_op(const graph::ConstantOfShape& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 1, 1));
  FOLD8_CHECK_OK(expect_index(c, 0));
  if (c.shape(0).rank() != 1) return bad_input(c, 0, "a shape of rank 1");
  Shape y;
  if (const auto k = c.ints(0)) {
    FOLD8_CHECK_OK(expect_rank_fits(static_cast<int>(k->values.size())));
    y = Shape(std::span<const Dim>(k->values));
  } else {
    if (!c.shape(0)[0].known())
      return unsupported("the rank of the output is not known: input 0 is " + describe(c.type(0)));
    FOLD8_CHECK_OK(
        expect_rank_fits(static_cast<int>(std::min<std::int64_t>(c.shape(0).extent(0), 99))));
    y.resize(static_cast<int>(c.shape(0).extent(0)));
  }
  c.set(0, op.dtype, y);
  const auto n = y.elements();
  if (y.rank() <= 1 && n && *n >= 0 && *n <= KnownInts::kMaxInts)
    set_known(c, repeated(op, static_cast<std::size_t>(*n)));
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::ConstantOfShape& op, const PrepareContext& c) {
  const std::size_t n = count(c.out(0)), size = size_of(op.dtype);
  return make_step([n, size, bits = op.bits](const RunContext& run) {
    auto* y = out<std::byte>(run, 0);
    for (std::size_t i = 0; i < n; ++i) std::memcpy(y + i * size, &bits, size);
    return ok_status();
  });
}

}  // namespace fold8::ops
