#include "runtime/ops/matmul_integer.h"

#include "runtime/kernels/gemm_u8s8.h"

namespace fold8::ops {
namespace {

struct Integer {
  MatMulPlan plan;
  DType a = DType::u8, b = DType::s8;
  bool a_zero_operand = false;
  std::size_t b_zeros = 0;              // elements of operand 3; 0: absent
  std::int32_t a_zero = 0, b_zero = 0;  // from the types
  std::vector<float> multiplier;
  kernels::Epilogue epilogue;
  kernels::gemm_u8s8_fn* gemm = nullptr;
  // Offsets into scratch: b as dense s8 [N, K], b packed, a as dense u8 [M, K], zero points of b,
  // kernel calls.
  std::size_t dense = 0, packed = 0, rows = 0, zeros = 0, calls = 0, call = 0, total = 0;
};

std::int32_t code_at(const void* p, DType d, std::size_t i) {
  return d == DType::u8 ? static_cast<const std::uint8_t*>(p)[i]
                        : static_cast<const std::int8_t*>(p)[i];
}

// b as s8 (u8 codes less 128) with rows of K, then packed.
void pack_b(const Integer& s, const RunContext& run, std::size_t product) {
  const MatMulPlan& p = s.plan;
  const auto* b = in<std::uint8_t>(run, 1) + p.b_index[product] * p.k * p.n;
  auto* dense = reinterpret_cast<std::int8_t*>(run.scratch + s.dense);
  const std::uint8_t flip = s.b == DType::u8 ? 0x80 : 0;
  for (std::size_t n = 0; n < p.n; ++n)
    for (std::size_t k = 0; k < p.k; ++k)
      dense[n * p.k + k] = static_cast<std::int8_t>(b[k * p.b_row + n * p.b_col] ^ flip);
  kernels::pack_s8(dense, p.k, p.n, p.k, reinterpret_cast<std::int8_t*>(run.scratch + s.packed));
}

// a as u8 (s8 codes plus 128) with dense rows.
const std::uint8_t* rows_of_a(const Integer& s, const RunContext& run, std::size_t product) {
  const MatMulPlan& p = s.plan;
  const auto* a = in<std::uint8_t>(run, 0) + p.a_index[product] * p.m * p.k;
  if (s.a == DType::u8 && p.a_col == 1) return a;
  auto* rows = reinterpret_cast<std::uint8_t*>(run.scratch + s.rows);
  const std::uint8_t flip = s.a == DType::s8 ? 0x80 : 0;
  for (std::size_t m = 0; m < p.m; ++m)
    for (std::size_t k = 0; k < p.k; ++k)
      rows[m * p.k + k] = static_cast<std::uint8_t>(a[m * p.a_row + k * p.a_col] ^ flip);
  return rows;
}

// Zero points of the s8 codes of b, or null if all are 0.
const std::int32_t* zeros_of_b(const Integer& s, const RunContext& run) {
  const std::int32_t shift = s.b == DType::u8 ? 128 : 0;
  auto* z = reinterpret_cast<std::int32_t*>(run.scratch + s.zeros);
  bool any = false;
  for (std::size_t n = 0; n < s.plan.n; ++n) {
    z[n] =
        (s.b_zeros == 0 ? s.b_zero : code_at(run.inputs[3], s.b, s.b_zeros == 1 ? 0 : n)) - shift;
    any |= z[n] != 0;
  }
  return any ? z : nullptr;
}

void run_product(const Integer& s, const RunContext& run, std::size_t product) {
  const MatMulPlan& p = s.plan;
  pack_b(s, run, product);
  kernels::GemmU8S8Args args;
  args.m = p.m;
  args.n = p.n;
  args.k = args.x_stride = p.k;
  args.x = rows_of_a(s, run, product);
  args.x_zero_point =
      (s.a_zero_operand ? code_at(run.inputs[2], s.a, 0) : s.a_zero) + (s.a == DType::s8 ? 128 : 0);
  args.w = reinterpret_cast<const std::int8_t*>(run.scratch + s.packed);
  args.w_zero_points = zeros_of_b(s, run);
  args.epilogue = s.epilogue;
  args.epilogue.multiplier = s.multiplier.data();
  args.epilogue.y = run.outputs[0];
  args.epilogue = epilogue_at(args.epilogue, product * p.m);
  split_matrix(
      run, p.m, kernels::s8_panels(p.n), p.m * p.n * p.k, kGrainS8,
      [&](std::size_t rb, std::size_t re, std::size_t pb, std::size_t pe, std::size_t part_index) {
        kernels::GemmU8S8Args part = args;
        part.m_begin = rb;
        part.m_end = re;
        part.panel_begin = pb;
        part.panel_end = pe;
        part.scratch = run.scratch + s.calls + part_index * s.call;
        s.gemm(part);
      });
}

Status lay_out_scratch(Integer& s, int threads) {
  const MatMulPlan& p = s.plan;
  if (p.k >= (std::size_t{1} << 24))
    return unsupported("an INT8 matrix product over " + std::to_string(p.k) + " elements");
  const auto take = [&](std::size_t n) {
    const std::size_t at = s.total;
    s.total += round_up(n + kTailPadding, kAlignment);
    return at;
  };
  s.dense = take(p.n * p.k);
  s.packed = take(kernels::packed_s8_bytes(p.n, p.k));
  s.rows = take(s.a == DType::u8 && p.a_col == 1 ? 0 : p.m * p.k);
  s.zeros = take(round_up(p.n, 16) * sizeof(std::int32_t));
  s.call = round_up(kernels::gemm_u8s8_scratch_bytes(p.k), kAlignment);
  s.calls = take(s.call * static_cast<std::size_t>(std::max(threads, 1)));
  return ok_status();
}

}  // namespace

Result<StepPtr> prepare_matmul_integer(const graph::MatMul& op, const PrepareContext& c,
                                       MatMulPlan plan) {
  Integer s;
  s.plan = std::move(plan);
  s.a = c.type(0).dtype;
  s.b = c.type(1).dtype;
  s.gemm = c.kernels->gemm_u8s8;
  for (std::size_t i : {0, 1})
    if (c.type(i).quant && !c.type(i).quant->is_per_tensor())
      return unsupported("a matrix product of " + describe(c.type(i)));
  if (c.has(2)) {
    if (count(c.type(2)) != 1)
      return unsupported("a matrix product with a zero point per row of input 0");
    s.a_zero_operand = true;
  }
  if (c.has(3)) {
    s.b_zeros = count(c.type(3));
    if (s.b_zeros != 1 && s.b_zeros != s.plan.n)
      return invalid_model("input 3 is " + describe(c.type(3)) +
                           ", expected one zero point or one a column");
  }
  const auto& qa = c.type(0).quant;
  const auto& qb = c.type(1).quant;
  s.a_zero = qa ? qa->zero_point() : 0;
  s.b_zero = qb ? qb->zero_point() : 0;
  const TensorType& y = c.out(0);
  kernels::Epilogue& e = s.epilogue;
  e.y_stride = e.residual_stride = s.plan.n;
  const double sy = y.quant ? static_cast<double>(y.quant->scale()) : 1.0;
  const double m = (qa ? static_cast<double>(qa->scale()) : 1.0) *
                   (qb ? static_cast<double>(qb->scale()) : 1.0) * static_cast<double>(op.alpha) /
                   sy;
  s.multiplier.assign(round_up(s.plan.n, 16), static_cast<float>(m));
  if (y.dtype == DType::s32)
    e.output_kind = kernels::OutputKind::s32;
  else if (y.dtype == DType::f32)
    e.output_kind = kernels::OutputKind::f32;
  else if (y.dtype == DType::u8 && y.quant)
    e.output_kind = kernels::OutputKind::u8, e.y_zero_point = y.quant->zero_point();
  else
    return unsupported("a matrix product that yields " + describe(y));
  FOLD8_CHECK_OK(lay_out_scratch(s, c.threads));
  const std::size_t scratch = s.total, products = s.plan.a_index.size();
  const double macs = static_cast<double>(products) * static_cast<double>(s.plan.m * s.plan.n) *
                      static_cast<double>(s.plan.k);
  return make_step(
      [s = std::move(s), products](const RunContext& run) {
        for (std::size_t i = 0; i < products; ++i) run_product(s, run, i);
        return ok_status();
      },
      scratch, macs);
}

}  // namespace fold8::ops
