// Networks in float16 or bfloat16 become float32 ones, with conversions at the edges only: fold8
// computes in f32, and rounding every tensor in between back to 16 bits would cost time and
// accuracy.
#pragma once

namespace onnx {
class GraphProto;
}

namespace fold8::onnx_io {

// Whether any operator but a conversion reads or writes 16-bit floats, as far as declared types,
// constants and Cast tell.
bool computes_in_half(const onnx::GraphProto& g);

// Inputs and outputs keep names and declared types, with a Cast behind or in front of them; Cast
// and constants inside become float32. Initializers are left to the caller, who converts them as
// they are read.
void compute_in_float(onnx::GraphProto& g);

}  // namespace fold8::onnx_io
