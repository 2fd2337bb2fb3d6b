// The type of a value: element type, shape, how integers stand for reals, and how elements lie in
// memory.
#pragma once

#include <optional>
#include <string>

#include "runtime/core/dtype.h"
#include "runtime/core/quant_params.h"
#include "runtime/core/shape.h"

namespace fold8 {

// Order of elements in memory. The shape is always the logical (ONNX) one, whatever the layout.
// The numbers are stored in .f8 files: append only.
enum class Layout : std::uint8_t {
  plain = 0,          // row-major in the order of the shape
  channels_last = 1,  // activations [N,C,spatial..] stored as [N,spatial..,C]
  packed_s8 = 2,      // weights for the INT8 matrix kernels: runtime/kernels/pack.h
  packed_f32 = 3,     // weights for the f32 matrix kernels: runtime/kernels/pack.h
  depthwise_s8 = 4,   // weights for depthwise INT8 convolution: runtime/kernels/pack.h
  depthwise_f32 = 5,  // weights for depthwise f32 convolution: runtime/kernels/pack.h
};

// u8 and s8 *may* carry quant parameters (a raw u8 picture is a tensor too). Quantization is part
// of the type, so there is no QLinear beside Linear: same operator, other types.
struct TensorType {
  DType dtype = DType::f32;
  Shape shape;
  std::optional<QuantParams> quant;
  Layout layout = Layout::plain;

  friend bool operator==(const TensorType&, const TensorType&) = default;
};

}  // namespace fold8
