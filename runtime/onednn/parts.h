// Makers of steps, one per family: null if the operator is left to fold8's own kernels.
#pragma once

#include <optional>
#include <vector>

#include "runtime/graph/ops.h"
#include "runtime/onednn/step.h"

namespace fold8::onednn {

using StepPtr = std::unique_ptr<ops::Step>;

StepPtr make_convolution(const Library& library, const graph::Conv& op,
                         const ops::PrepareContext& c);
StepPtr make_linear(const Library& library, const graph::Linear& op, const ops::PrepareContext& c);
StepPtr make_matmul(const Library& library, const graph::MatMul& op, const ops::PrepareContext& c);
StepPtr make_pooling(const Library& library, const graph::Pool& op, const ops::PrepareContext& c);

// Activation as a post-op; false if oneDNN has none that means the same. `scale`: values are in
// units of it (INT8 in 2.x).
bool append_activation(dnnl::post_ops& ops, Activation activation, float a, float b,
                       float scale = 1);

// Elements of a constant weight in plain ONNX order; nullopt for what this engine does not take.
std::optional<std::vector<float>> plain_f32_weight(const graph::Op& op, const TensorType& w,
                                                   const void* data);
std::optional<std::vector<std::int8_t>> plain_s8_weight(const graph::Op& op, const TensorType& w,
                                                        const void* data);

// How an activation lies in memory; nullopt for layouts that are not activations'.
std::optional<MemoryDesc> activation_desc(const TensorType& t);
Dims dims_of(const Shape& s);
// Row-major strides.
Dims plain_strides(const Dims& dims);

// INT8 layers, before the activation, in units of y's scale s_y (1 for f32 outputs):
//   2.x: output_scales[n] * (acc + bias[n])      bias = b / (s_x * s_w[n])
//   3.x: output_scales[n] * acc + bias[n]        bias = b / s_y
// with output_scales[n] = s_x * s_w[n] / s_y.
struct Int8Params {
  std::vector<float> output_scales, bias;  // per output channel; bias empty if absent
  float y_scale = 1;
  std::int32_t x_zero_point = 0, y_zero_point = 0;
};
// channels: outputs; the axis of w that they lie along. Null unless every number is constant and
// per tensor or channel.
std::optional<Int8Params> int8_params(const ops::PrepareContext& c, int channel_axis,
                                      std::size_t channels);
// Into attributes. weight_mask: the axes of the primitive's weight that outputs lie along (3.x).
void set_int8(dnnl::primitive_attr& attr, const Int8Params& p, int weight_mask);
// What of them is an argument at run time (3.x).
void bind_int8(const Library& library, PrimitiveStep& step, const Int8Params& p);

}  // namespace fold8::onednn
