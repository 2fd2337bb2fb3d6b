#include "runtime/exec/packed.h"

#include "runtime/core/aligned.h"
#include "runtime/exec/facts.h"
#include "runtime/exec/nested.h"
#include "runtime/ops/pack_weights.h"

namespace fold8::exec {
namespace {

bool is_packed(Layout l) { return l != Layout::plain && l != Layout::channels_last; }

Status check_reader(const graph::Graph& g, const graph::Node& n, std::size_t operand) {
  const graph::Value& w = g.value(n.inputs[operand]);
  const bool depthwise =
      w.type.layout == Layout::depthwise_s8 || w.type.layout == Layout::depthwise_f32;
  const bool matrix = std::holds_alternative<graph::Conv>(n.op) ||
                      (std::holds_alternative<graph::Linear>(n.op) && !depthwise);
  if (!matrix || operand != 1)
    return invalid_model("operand " + std::to_string(operand) + " '" + w.name +
                         "' is packed for a matrix kernel");
  const bool f32 = w.type.layout == Layout::packed_f32 || w.type.layout == Layout::depthwise_f32;
  if (w.type.dtype != (f32 ? DType::f32 : DType::s8))
    return invalid_model("its packed weight '" + w.name + "' has the wrong dtype");
  // Packing only pads: this also keeps the sizes below from overflowing.
  const auto elements = w.type.shape.elements();
  if (!elements || static_cast<std::size_t>(*elements) > w.constant->size() / size_of(w.type.dtype))
    return invalid_model("its packed weight '" + w.name + "' has fewer bytes than " +
                         to_string(w.type.shape) + " needs");
  FOLD8_TRY(const std::size_t bytes, ops::weight_bytes(n.op, w.type));
  if (bytes != w.constant->size())
    return invalid_model("its packed weight '" + w.name + "' has " +
                         std::to_string(w.constant->size()) + " bytes, expected " +
                         std::to_string(bytes));
  if (reinterpret_cast<std::uintptr_t>(w.constant->data()) % kAlignment != 0)
    return invalid_model("its packed weight '" + w.name + "' is not aligned");
  return ok_status();
}

}  // namespace

Status check_packed(const graph::Graph& g) {
  for (graph::ValueId v = 0; v < g.value_count(); ++v) {
    if (!is_packed(g.type(v).layout)) continue;
    if (!g.is_constant(v))
      return invalid_model("tensor '" + g.value(v).name + "' has a layout that only weights have");
    if (g.is_output(v))
      return invalid_model("packed weight '" + g.value(v).name + "' is a graph output");
  }
  for (graph::NodeId id = 0; id < g.node_count(); ++id) {
    const graph::Node& n = g.node(id);
    if (n.dead) continue;
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      if (n.inputs[i] == graph::kNoValue || !is_packed(g.type(n.inputs[i]).layout)) continue;
      if (auto s = check_reader(g, n, i); !s.ok())
        return in_context(describe(n), std::move(s).error());
    }
  }
  return for_each_body(g, check_packed);
}

}  // namespace fold8::exec
