// Quantize and Dequantize as ONNX spells them, shared by QuantizeLinear/DequantizeLinear and the
// QLinear operators.
#pragma once

#include <optional>
#include <string>

#include "tools/onnx/node_context.h"

namespace fold8::onnx_io {

// Where the numbers of one quantized tensor come from.
struct Scales {
  ValueId scale = kNoValue, zero_point = kNoValue;  // zero_point may be absent: 0
  std::int64_t axis = 1, block_size = 0;            // for scales with more than one element
};

// The parameters, if scale and zero point are constants; nullopt if they are not. `data` may be
// null (unknown type).
std::optional<QuantParams> constant_params(NodeContext& ctx, const Scales& s,
                                           const TensorType* data);

// `v` with those parameters in its type: itself, or, for constants, another constant that shares
// the bytes (4-bit elements become 8-bit ones). kNoValue where the type may not be changed: `v` is
// computed, or others read it raw.
ValueId carry_params(NodeContext& ctx, ValueId v, const QuantParams& params);

// Emits Dequantize(v) as an f32 value.
ValueId dequantized(NodeContext& ctx, ValueId v, const Scales& s, const std::string& suffix);
// Emits Dequantize(v) into output 0, converted to `to`.
Status finish_dequantize(NodeContext& ctx, ValueId v, const Scales& s, DType to);
// Emits Quantize(x) into output 0; `stored` is the integer type.
Status finish_quantize(NodeContext& ctx, ValueId x, const Scales& s, DType stored);

}  // namespace fold8::onnx_io
