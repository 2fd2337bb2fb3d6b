// y[i] = table[x[i]], x u8 (s8: index q + 128), table u8 or s8 [256].
#include "runtime/kernels/quantize.h"
#include "runtime/ops/each_op.h"

namespace fold8::ops {

Status infer_op(const graph::Lookup&, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 2, 2));
  FOLD8_CHECK_OK(expect_dtype(c, 0, {DType::u8, DType::s8}));
  FOLD8_CHECK_OK(expect_dtype(c, 1, {DType::u8, DType::s8}));
  if (c.shape(1).known() && c.shape(1).count() != 256) return bad_input(c, 1, "256 elements");
  c.set(0, c.type(1).dtype, c.shape(0));
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::Lookup&, const PrepareContext& c) {
  const bool is_signed = c.type(0).dtype == DType::s8;
  return make_step(
      [is_signed, n = count(c.type(0)), kernel = c.kernels->map_u8](const RunContext& run) {
        const auto* table = in<std::uint8_t>(run, 1);
        std::uint8_t turned[256];  // by stored byte: byte b of an s8 has index b ^ 128
        if (is_signed) {
          for (std::size_t i = 0; i < 256; ++i) turned[i] = table[i ^ 128];
          table = turned;
        }
        parallel(run, n, grain_for(1), [&](std::size_t b, std::size_t e, std::size_t) {
          kernel({.n = e - b,
                  .x = in<std::uint8_t>(run, 0) + b,
                  .y = out<std::uint8_t>(run, 0) + b,
                  .table = table});
        });
        return ok_status();
      });
}

}  // namespace fold8::ops
