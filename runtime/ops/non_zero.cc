// ONNX NonZero: indices of the elements that are not 0, [rank, count], in row-major order. The
// count depends on the data.
#include "runtime/ops/each_op.h"

namespace fold8::ops {

Status infer_op(const graph::NonZero&, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 1, 1));
  const Shape& x = c.shape(0);
  if (!with_number_type(c.type(0).dtype, []<class T>() {}))
    return bad_input(c, 0, "integers, bool, f32 or f64");
  c.set(0, DType::s64, Shape{Dim(x.rank()), Dim::unknown()});
  Dim most(1);
  for (Dim d : x.dims()) most = most * d;
  c.outputs[0].bound = Shape{Dim(x.rank()), most};
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::NonZero&, const PrepareContext& c) {
  const Shape x = c.type(0).shape;
  const std::size_t total = count(c.type(0));
  return make_step([x, total, dtype = c.type(0).dtype](const RunContext& run) {
    with_number_type(dtype, [&]<class T>() {
      const T* p = in<T>(run, 0);
      std::size_t found = 0;
      for (std::size_t i = 0; i < total; ++i) found += p[i] != T(0);
      auto* y = out<std::int64_t>(run, 0);
      for (std::size_t i = 0, at = 0; i < total; ++i) {
        if (p[i] == T(0)) continue;
        auto left = static_cast<std::int64_t>(i);
        for (int a = x.rank() - 1; a >= 0; --a) {
          y[static_cast<std::size_t>(a) * found + at] = left % x.extent(a);
          left /= x.extent(a);
        }
        ++at;
      }
      if (!run.shapes.empty())
        run.shapes[0] = Shape{Dim(x.rank()), Dim(static_cast<std::int64_t>(found))};
    });
    return ok_status();
  });
}

}  // namespace fold8::ops
