// ONNX MatMul of two activations: f32 (alpha, transposes, broadcast batches), 8-bit integers with
// zero points (to s32, wrapping, or requantized from the operands' params), other number types by
// plain loops.
#include <cmath>

#include "runtime/kernels/matmul_f32.h"
#include "runtime/ops/each_op.h"
#include "runtime/ops/matmul_integer.h"

namespace fold8::ops {
namespace {

bool is_byte(DType d) { return d == DType::u8 || d == DType::s8; }

}  // namespace

Status infer_op(const graph::MatMul& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 2, 4));
  const DType a = c.type(0).dtype, b = c.type(1).dtype;
  if (a != b && !(is_byte(a) && is_byte(b)))
    return bad_input(c, 1, "elements of type " + std::string(name(a)) + " as input 0");
  if (!with_number_type(a, []<class T>() {}) || a == DType::boolean)
    return bad_input(c, 0, "numbers");
  FOLD8_TRY(const MatMulDims d, matmul_dims(op, c.shape(0), c.shape(1)));
  if (differ(d.k_a, d.k_b))
    return bad_input(c, 1,
                     "inner size " + std::to_string(d.k_a.value()) + ", as input 0, " +
                         to_string(c.shape(0)) + ", has");
  for (std::size_t i : {2, 3}) {
    if (!c.has(i)) continue;
    if (!is_byte(a)) return bad_input(c, 0, "8-bit integers with a zero point");
    if (c.type(i).dtype != c.type(i - 2).dtype)
      return bad_input(c, i, "elements of type " + std::string(name(c.type(i - 2).dtype)));
  }
  c.set(0, is_byte(a) ? (c.type(0).quant && c.type(1).quant ? DType::f32 : DType::s32) : a,
        d.output);
  return ok_status();
}

Result<MatMulDims> matmul_dims(const graph::MatMul& op, const Shape& a, const Shape& b) {
  if (a.rank() < 1 || b.rank() < 1)
    return invalid_model("a matrix product of " + to_string(a) + " and " + to_string(b));
  MatMulDims d;
  const bool ta = op.transpose_a && a.rank() > 1, tb = op.transpose_b && b.rank() > 1;
  d.m = a.rank() == 1 ? Dim(1) : a[a.rank() - (ta ? 1 : 2)];
  d.k_a = a.rank() == 1 ? a[0] : a[a.rank() - (ta ? 2 : 1)];
  d.k_b = b.rank() == 1 ? b[0] : b[b.rank() - (tb ? 1 : 2)];
  d.n = b.rank() == 1 ? Dim(1) : b[b.rank() - (tb ? 2 : 1)];
  Shape ba, bb;
  for (int i = 0; i < a.rank() - 2; ++i) ba.push_back(a[i]);
  for (int i = 0; i < b.rank() - 2; ++i) bb.push_back(b[i]);
  const auto batch = broadcast(ba, bb);
  if (!batch)
    return invalid_model("input 1 is " + to_string(b) +
                         ", expected leading axes that broadcast with input 0, " + to_string(a));
  d.output = *batch;
  if (a.rank() > 1) d.output.push_back(d.m);
  if (b.rank() > 1) d.output.push_back(d.n);
  d.batch_axes = batch->rank();
  return d;
}

MatMulPlan matmul_plan(const graph::MatMul& op, const PrepareContext& c) {
  const Shape& a = c.type(0).shape;
  const Shape& b = c.type(1).shape;
  const MatMulDims d = *matmul_dims(op, a, b);
  MatMulPlan p;
  p.m = static_cast<std::size_t>(d.m.value());
  p.n = static_cast<std::size_t>(d.n.value());
  p.k = static_cast<std::size_t>(d.k_a.value());
  const bool ta = op.transpose_a && a.rank() > 1, tb = op.transpose_b && b.rank() > 1;
  p.a_row = ta ? 1 : p.k;
  p.a_col = ta ? p.m : 1;
  p.b_row = tb ? 1 : p.n;
  p.b_col = tb ? p.k : 1;
  p.a_index = batch_indices(a, std::max(0, a.rank() - 2), d.output, d.batch_axes);
  p.b_index = batch_indices(b, std::max(0, b.rank() - 2), d.output, d.batch_axes);
  return p;
}

namespace {

Result<StepPtr> prepare_f32(const graph::MatMul& op, const PrepareContext& c, MatMulPlan plan) {
  kernels::MatmulF32Args base;
  base.m = plan.m;
  base.n = plan.n;
  base.k = plan.k;
  base.a_row_stride = plan.a_row;
  base.a_col_stride = plan.a_col;
  base.b_row_stride = plan.b_row;
  base.b_col_stride = plan.b_col;
  base.alpha = op.alpha;
  FOLD8_TRY(
      EpiloguePlan epilogue,
      EpiloguePlan::make(
          c, {.columns = plan.n, .bias = SIZE_MAX, .residual = SIZE_MAX, .row_scale = SIZE_MAX}));
  const std::size_t call = round_up(kernels::matmul_f32_scratch_bytes(base), kAlignment),
                    products = plan.a_index.size();
  const double macs = static_cast<double>(products) * static_cast<double>(plan.m * plan.n) *
                      static_cast<double>(plan.k);
  return make_step(
      [=, plan = std::move(plan), epilogue = std::move(epilogue),
       kernel = c.kernels->matmul_f32](const RunContext& run) {
        const kernels::Epilogue e = epilogue.bind(run, nullptr);
        // Rows of all products in one range, so that many small matrices and one large one both
        // split.
        const std::size_t least =
            std::max<std::size_t>(1, kGrainF32 / std::max<std::size_t>(1, plan.n * plan.k));
        parallel(run, products * plan.m, least,
                 [&](std::size_t begin, std::size_t end, std::size_t p) {
                   while (begin < end) {
                     const std::size_t i = begin / plan.m, first = begin % plan.m,
                                       last = std::min(plan.m, first + (end - begin));
                     kernels::MatmulF32Args args = base;
                     args.a = in<float>(run, 0) + plan.a_index[i] * plan.m * plan.k;
                     args.b = in<float>(run, 1) + plan.b_index[i] * plan.k * plan.n;
                     args.epilogue = epilogue_at(e, i * plan.m);
                     args.row_begin = first;
                     args.row_end = last;
                     args.scratch = run.scratch + p * call;
                     kernel(args);
                     begin += last - first;
                   }
                 });
        return ok_status();
      },
      call * static_cast<std::size_t>(std::max(c.threads, 1)), macs);
}

template <class T>
Result<StepPtr> prepare_loop(const graph::MatMul& op, MatMulPlan plan) {
  if (op.alpha != 1.0f) return unsupported("a scaled matrix product of elements that are not f32");
  return make_step([plan = std::move(plan)](const RunContext& run) {
    for (std::size_t i = 0; i < plan.a_index.size(); ++i) {
      const T* a = in<T>(run, 0) + plan.a_index[i] * plan.m * plan.k;
      const T* b = in<T>(run, 1) + plan.b_index[i] * plan.k * plan.n;
      T* y = out<T>(run, 0) + i * plan.m * plan.n;
      for (std::size_t r = 0; r < plan.m * plan.n; ++r) {
        T sum = 0;
        for (std::size_t k = 0; k < plan.k; ++k) {
          const T u = a[r / plan.n * plan.a_row + k * plan.a_col],
                  v = b[k * plan.b_row + r % plan.n * plan.b_col];
          if constexpr (std::is_floating_point_v<T>)
            sum = std::fma(u, v, sum);
          else
            sum = wrap_add(sum, wrap_mul(u, v));
        }
        y[r] = sum;
      }
    }
    return ok_status();
  });
}

}  // namespace

Result<StepPtr> prepare_op(const graph::MatMul& op, const PrepareContext& c) {
  if (c.out(0).shape.count() == 0) return make_step([](const RunContext&) { return ok_status(); });
  MatMulPlan plan = matmul_plan(op, c);
  const DType d = c.type(0).dtype;
  if (d == DType::f32) return prepare_f32(op, c, std::move(plan));
  if (is_byte(d)) return prepare_matmul_integer(op, c, std::move(plan));
  std::optional<Result<StepPtr>> step;
  with_number_type(d, [&]<class T>() { step = prepare_loop<T>(op, std::move(plan)); });
  return std::move(*step);
}

}  // namespace fold8::ops
