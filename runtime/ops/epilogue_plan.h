// The epilogue of Linear, Conv and MatMul from the types of their operands: multipliers and offsets
// as SPEC 5a has them, computed once in prepare().
//   x and w quantized, y f32 or u8:  m = f32(double(s_x) * s_w / s_y), b' = f32(double(b) / s_y)
//   (f32: s_y = 1)
//     residual scale f32(double(s_r) / s_y) (f32 residual: s_r = 1), clip bounds divided by s_y
//     likewise activations other than none and clip work on real values: s_y = 1 above, then
//     y_divisor = s_y
//   x per token: m = s_w, b' = b, row_scale = the operand, real values, y_divisor = s_y
//   x f32: b' = b, real values, y_divisor = s_y for a u8 output
#pragma once

#include "runtime/kernels/epilogue.h"
#include "runtime/ops/pack_weights.h"

namespace fold8::ops {

struct EpilogueSpec {
  std::size_t columns = 0;
  Activation activation = Activation::none;
  float a = 0, b = 0;
  std::int64_t shift = 0;                // of y's codes, behind the activation; u8 results only
  bool integer = false;                  // INT8 kernel: multipliers apply
  std::span<const float> weight_scales;  // column i has [i % size]; integer only
  std::size_t bias = 2, residual = 3, row_scale = 4;  // operand numbers
};

class EpiloguePlan {
 public:
  static Result<EpiloguePlan> make(const PrepareContext& c, const EpilogueSpec& spec);

  // Scratch for offsets whose bias is not constant.
  std::size_t scratch_bytes() const;
  // Pointers filled in for one run; y is output 0 with rows of `columns` elements.
  kernels::Epilogue bind(const RunContext& run, std::byte* scratch) const;

 private:
  struct Columns;
  Status set_columns(const PrepareContext& c, const EpilogueSpec& spec, bool per_token);
  Status set_residual(const PrepareContext& c);

  kernels::Epilogue base_;
  std::size_t columns_ = 0;
  std::shared_ptr<const Columns> numbers_;  // shared by all plans of the node
  bool computed_bias_ = false;
  double divisor_ = 1;
  std::size_t bias_ = 0, residual_ = 0, row_scale_ = 0;
  bool has_residual_ = false, has_row_scale_ = false;
};

}  // namespace fold8::ops
