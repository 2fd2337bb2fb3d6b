// ONNX operators by domain and name: one table per family, one function per operator (or a few that
// differ in a kind).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tools/onnx/node_context.h"

namespace fold8::onnx_io {

// Builds what stands for one ONNX node. Ends in NodeContext::finish() or done(), refuse() or
// reject().
using MapFn = Status (*)(NodeContext&);

struct MapEntry {
  std::string_view op;
  MapFn map;
};

// Families of the default domain.
std::span<const MapEntry> attention_ops();
std::span<const MapEntry> elementwise_ops();
std::span<const MapEntry> linear_ops();
std::span<const MapEntry> norm_ops();
std::span<const MapEntry> pool_ops();
std::span<const MapEntry> quant_ops();
std::span<const MapEntry> quant_linear_ops();
std::span<const MapEntry> reduce_ops();
std::span<const MapEntry> shape_ops();
std::span<const MapEntry> slice_ops();
// The domain com.microsoft.
std::span<const MapEntry> grouped_query_ops();
std::span<const MapEntry> microsoft_attention_ops();
std::span<const MapEntry> microsoft_ops();

// "" and "ai.onnx" are the same domain; nullptr if there is no such operator.
MapFn find_map(std::string_view domain, std::string_view op);
// Why an operator that find_map does not know cannot be had, for those one can say more about than
// "unknown".
std::string why_unsupported(const std::string& domain, const std::string& op);

// ---- shared by several families
// y = a "then" b for a chain of inputs: Sum, Max, Min.
ValueId binary_chain(NodeContext& ctx, graph::BinaryKind kind);
// min(max(x, low), high), both possibly absent; fused into a Unary where they are float constants.
Status map_clip_bounds(NodeContext& ctx, ValueId x, ValueId low, ValueId high);
// Attributes of a convolution, checked; w is its float or integer weight.
graph::Conv conv_attributes(NodeContext& ctx, ValueId x, ValueId w, bool transposed);
// com.microsoft FusedConv, FusedGemm: `activation` and its parameters.
std::optional<graph::Unary> fused_activation(NodeContext& ctx);
// Gemm from operands a, b, c?; finishes the node.
Status map_gemm(NodeContext& ctx);
Status map_quantize(NodeContext& ctx);
Status map_dequantize(NodeContext& ctx);

}  // namespace fold8::onnx_io
