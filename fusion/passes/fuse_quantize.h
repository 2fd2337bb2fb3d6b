// After layers have become INT8: rounding moves into whatever produces the tensor, and whatever
// consumes it reads the integers directly.
//
//   Quantize(Conv(..))                 -> Conv with a u8 result                    (no f32 tensor
//   in memory) Quantize(MaxPool(x))               -> MaxPool(Quantize(x)), exact: the operator only
//   moves or selects values Conv(Dequantize(x), Dequantize(w)) -> Conv(x, w) Add(Dequantize(a),
//   Dequantize(b)) rounded to u8 -> Add(a, b) Quantize(Dequantize(x)), same params -> x
//   DynamicQuantize(LayerNorm(x))      -> LayerNorm with a per-token result; with codes beside its
//   f32 result, if that is read elsewhere too
//   DynamicQuantize(x * factor)        -> DynamicQuantize(x, factor)
//
// Where fusing an imported Quantize/Dequantize would change a rounding, it stays as written (the
// numeric contract).
#pragma once

#include "fusion/rewrite/rewrite.h"

namespace fold8::fusion {

extern const GraphPass fuse_quantize;

}  // namespace fold8::fusion
