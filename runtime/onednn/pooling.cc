#include "runtime/onednn/parts.h"

namespace fold8::onednn {

StepPtr make_pooling(const Library& library, const graph::Pool& op, const ops::PrepareContext& c) {
  const TensorType &x = c.type(0), &y = c.out(0);
  if (op.kind == graph::PoolKind::lp || c.wants(1) || op.auto_pad != graph::AutoPad::none ||
      op.ceil_mode)
    return nullptr;
  if (x.dtype != DType::f32 || y.dtype != DType::f32 || x.shape.count() == 0 ||
      y.shape.count() == 0)
    return nullptr;
  const auto x_desc = activation_desc(x), y_desc = activation_desc(y);
  if (!x_desc || !y_desc) return nullptr;
  const auto axes = static_cast<std::size_t>(x.shape.rank() - 2);
  Dims kernel, strides, dilations, begin, end;
  for (std::size_t i = 0; i < axes; ++i) {
    kernel.push_back(op.global ? x.shape.extent(static_cast<int>(i) + 2) : op.kernel[i]);
    strides.push_back(op.global || op.strides.empty() ? 1 : op.strides[i]);
    dilations.push_back(op.global || op.dilations.empty() ? 0 : op.dilations[i] - 1);
    begin.push_back(op.global || op.pads.empty() ? 0 : op.pads[i]);
    end.push_back(op.global || op.pads.empty() ? 0 : op.pads[axes + i]);
  }
  const auto kind = op.kind == graph::PoolKind::max ? dnnl::algorithm::pooling_max
                    : op.count_include_pad          ? dnnl::algorithm::pooling_avg_include_padding
                                                    : dnnl::algorithm::pooling_avg_exclude_padding;
  const auto pd = describe<Pooling>(library.engine, {}, dnnl::prop_kind::forward_inference, kind,
                                    *x_desc, *y_desc, strides, kernel, dilations, begin, end);
  if (!pd) return nullptr;
  auto step = std::make_unique<PrimitiveStep>(library, Pooling(*pd), pd->scratchpad_desc(), 0);
  step->bind_input(DNNL_ARG_SRC, *x_desc, 0);
  step->bind_output(DNNL_ARG_DST, *y_desc);
  return step;
}

}  // namespace fold8::onednn
