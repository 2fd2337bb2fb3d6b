#include "fusion/passes/assign_layout.h"

#include <map>
#include <vector>

#include "runtime/ops/op_impl.h"

namespace fold8::fusion {
namespace {

using graph::Graph;
using graph::kNoValue;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

bool has_space(const Graph& g, ValueId v) {
  return v != kNoValue && g.type(v).shape.rank() >= 3 && g.type(v).shape.rank() <= 5;
}

// Convolution, pooling and resizing are written for channels_last: they ask for it, others only
// pass it on.
bool asks_for_channels_last(const graph::Op& op) {
  return std::holds_alternative<graph::Conv>(op) || std::holds_alternative<graph::Pool>(op) ||
         std::holds_alternative<graph::Resize>(op);
}

class LayoutPass {
 public:
  explicit LayoutPass(Graph& g) : g_(g) {}

  Status run() {
    FOLD8_TRY(const std::vector<NodeId> order, g_.topological_order());
    for (NodeId n : order) node(n);
    round_while_rearranging();
    return g_.compact();  // graph outputs may stay channels_last: the executor hands them out in
                          // plain order
  }

 private:
  // Operands that follow the layout: tensors of the result's rank that are computed (constants
  // broadcast from plain).
  bool follows(const Node& n, std::size_t i) const {
    const ValueId v = n.inputs[i];
    if (v == kNoValue || g_.is_constant(v) || !has_space(g_, v)) return false;
    if (std::holds_alternative<graph::Conv>(n.op)) return i == 0 || i == 3;
    if (std::holds_alternative<graph::Pool>(n.op) || std::holds_alternative<graph::Resize>(n.op))
      return i == 0;
    return n.outputs[0] != kNoValue &&
           g_.type(v).shape.rank() == g_.type(n.outputs[0]).shape.rank();
  }

  bool takes_channels_last(const Node& n) const {
    if (n.outputs.empty() || !has_space(g_, n.outputs[0]) ||
        std::holds_alternative<graph::Relayout>(n.op))
      return false;
    bool any = asks_for_channels_last(n.op);
    std::vector<TensorType> types;
    types.reserve(n.inputs.size() + n.outputs.size());
    std::vector<const TensorType*> inputs, outputs;
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      if (n.inputs[i] == kNoValue) {
        inputs.push_back(nullptr);
        continue;
      }
      types.push_back(g_.type(n.inputs[i]));
      if (follows(n, i)) {
        any |= types.back().layout == Layout::channels_last;
        types.back().layout = Layout::channels_last;
      }
      inputs.push_back(&types.back());
    }
    if (!any) return false;
    for (ValueId v : n.outputs) {
      if (v == kNoValue) {
        outputs.push_back(nullptr);
        continue;
      }
      types.push_back(g_.type(v));
      if (has_space(g_, v)) types.back().layout = Layout::channels_last;
      outputs.push_back(&types.back());
    }
    return ops::accepts_channels_last(n.op, inputs, outputs);
  }

  void node(NodeId id) {
    if (std::holds_alternative<graph::Relayout>(g_.node(id).op)) return;
    const bool last = takes_channels_last(g_.node(id));
    for (std::size_t i = 0; i < g_.node(id).inputs.size(); ++i) {
      const ValueId v = g_.node(id).inputs[i];
      if (v == kNoValue || g_.is_constant(v)) continue;
      const ValueId arranged =
          in_layout(v, last && follows(g_.node(id), i) ? Layout::channels_last : Layout::plain);
      g_.node(id).inputs[i] = arranged;
    }
    if (!last) return;
    for (ValueId v : g_.node(id).outputs)
      if (has_space(g_, v)) g_.value(v).type.layout = Layout::channels_last;
  }

  // Relayout(Quantize(x)) of a plain x is one pass over it.
  void round_while_rearranging() {
    const std::vector<NodeId> makers = g_.producers();
    const std::vector<std::vector<NodeId>> readers = g_.consumers();
    for (NodeId n = 0; n < g_.node_count(); ++n) {
      if (g_.node(n).dead || !std::holds_alternative<graph::Relayout>(g_.node(n).op)) continue;
      const ValueId q = g_.node(n).inputs[0];
      const NodeId maker = makers[static_cast<std::size_t>(q)];
      if (maker == graph::kNoNode || g_.is_output(q) ||
          readers[static_cast<std::size_t>(q)].size() != 1)
        continue;
      graph::Node& quantize = g_.node(maker);
      if (!std::holds_alternative<graph::Quantize>(quantize.op) || quantize.inputs.size() != 1)
        continue;
      const TensorType &from = g_.type(quantize.inputs[0]), &to = g_.type(g_.node(n).outputs[0]);
      if (from.dtype != DType::f32 || from.layout != Layout::plain || to.dtype != DType::u8 ||
          !to.quant || !to.quant->is_per_tensor())
        continue;
      g_.node(n).inputs[0] = quantize.inputs[0];
      quantize.dead = true;
    }
  }

  ValueId in_layout(ValueId v, Layout wanted) {
    if (g_.is_constant(v) || g_.type(v).layout == wanted) return v;
    if (const auto it = twins_.find(v); it != twins_.end()) return it->second;
    TensorType type = g_.type(v);
    type.layout = wanted;
    const std::string name =
        g_.fresh_name(g_.value(v).name + (wanted == Layout::plain ? "_plain" : "_nhwc"));
    const ValueId twin = g_.add_value(name, std::move(type));
    g_.value(twin).rescale = g_.value(v).rescale;
    g_.value(twin).rescale_axis = g_.value(v).rescale_axis;
    g_.add_node(graph::Relayout{}, name, {v}, {twin});
    return twins_[v] = twin;
  }

  Graph& g_;
  std::map<ValueId, ValueId> twins_;
};

Result<Tally> run_assign_layout(Graph& g, const Context&) {
  LayoutPass pass(g);
  FOLD8_CHECK_OK(pass.run());
  return Tally{};
}

}  // namespace

constinit const GraphPass assign_layout{"assign_layout", run_assign_layout};

}  // namespace fold8::fusion
