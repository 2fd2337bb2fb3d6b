// ONNX Transpose: y[i_perm[0], ...] = x[i_0, ...]. An empty perm reverses the axes. Any layouts in
// and out.
#include "runtime/ops/each_op.h"
#include "runtime/ops/strided_copy.h"

namespace fold8::ops {
namespace {

Result<std::array<int, Shape::kMaxRank>> permutation(const graph::Ints& perm, int rank) {
  std::array<int, Shape::kMaxRank> p{};
  if (perm.empty()) {
    for (int i = 0; i < rank; ++i) p[static_cast<std::size_t>(i)] = rank - 1 - i;
    return p;
  }
  if (static_cast<int>(perm.size()) != rank)
    return invalid_model("perm has " + std::to_string(perm.size()) +
                         " axes, but input 0 has rank " + std::to_string(rank));
  unsigned seen = 0;
  for (std::size_t i = 0; i < perm.size(); ++i) {
    FOLD8_TRY(const int a, checked_axis(perm[i], rank, "perm axis"));
    if ((seen >> a) & 1u) return invalid_model("perm names axis " + std::to_string(a) + " twice");
    seen |= 1u << a;
    p[i] = a;
  }
  return p;
}

}  // namespace

Status infer_op(const graph::Transpose& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 1, 1));
  const Shape& x = c.shape(0);
  FOLD8_TRY(const auto perm, permutation(op.perm, x.rank()));
  Shape y;
  for (int i = 0; i < x.rank(); ++i) y.push_back(x[perm[static_cast<std::size_t>(i)]]);
  set_like(c, 0, 0, y);
  if (x.rank() <= 1)
    if (auto k = known(c, 0)) set_known(c, std::move(*k));
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::Transpose& op, const PrepareContext& c) {
  const TensorType& x = c.type(0);
  const TensorType& y = c.out(0);
  const int rank = x.shape.rank();
  FOLD8_TRY(const auto perm, permutation(op.perm, rank));
  // In the order the output lies in memory, so that the kernel sees a dense output.
  const auto order = memory_axes(rank, y.layout);
  const auto x_order = memory_axes(rank, x.layout);
  std::int64_t extents[Shape::kMaxRank];
  int memory_perm[Shape::kMaxRank];
  for (int k = 0; k < rank; ++k) {
    extents[k] = x.shape.extent(x_order[static_cast<std::size_t>(k)]);
    const int axis = perm[static_cast<std::size_t>(order[static_cast<std::size_t>(k)])];
    memory_perm[k] = static_cast<int>(std::find(x_order.begin(), x_order.begin() + rank, axis) -
                                      x_order.begin());
  }
  const auto r = static_cast<std::size_t>(rank);
  const auto plan = kernels::make_transpose_plan({extents, r}, {memory_perm, r}, size_of(x.dtype));
  const std::size_t total = count(x);
  if (total == 0) return make_step([](const RunContext&) { return ok_status(); });
  auto* kernel = c.kernels->transpose;
  const std::size_t lines = plan.extent[0];
  return make_step([plan, kernel, lines, total](const RunContext& run) {
    parallel(run, lines, grain_for(total / lines), [&](std::size_t b, std::size_t e, std::size_t) {
      kernels::TransposeArgs args;
      args.plan = plan;
      args.x = run.inputs[0];
      args.y = run.outputs[0];
      args.begin = b;
      args.end = e;
      kernel(args);
    });
    return ok_status();
  });
}

}  // namespace fold8::ops
