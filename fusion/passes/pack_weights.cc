#include "fusion/passes/pack_weights.h"

#include <map>
#include <vector>

#include "fusion/weight_cache.h"
#include "runtime/ops/pack_weights.h"

namespace fold8::fusion {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

// What a packed weight depends on: the operator without its activation.
graph::Op geometry(const graph::Op& op) {
  graph::Op copy = op;
  if (auto* conv = std::get_if<graph::Conv>(&copy)) {
    conv->activation = Activation::none;
    conv->a = conv->b = 0;
    if (!conv->transposed) {  // a transposed one is packed by the phases of its strides
      conv->strides.clear();
      conv->pads.clear();
    }
    conv->out_channels = 0;
  } else if (auto* linear = std::get_if<graph::Linear>(&copy)) {
    *linear = graph::Linear{};
  }
  return copy;
}

class Packer {
 public:
  Packer(Graph& g, WeightCache* cache) : g_(g), cache_(cache) {}

  Result<Tally> run() {
    Tally tally;
    for (NodeId n = 0; n < g_.node_count(); ++n) {
      if (!wants_packing(g_.node(n))) continue;
      FOLD8_TRY(const bool packed, pack(n));
      tally.applied += packed;
    }
    FOLD8_CHECK_OK(g_.compact());
    return tally;
  }

 private:
  // Weight-only layers read s8 weights beside f32 inputs: matrices are packed, what the operator
  // has to expand stays plain.
  bool wants_packing(const Node& n) const {
    if (n.dead || n.inputs.size() < 2) return false;
    if (!std::holds_alternative<graph::Linear>(n.op) && !std::holds_alternative<graph::Conv>(n.op))
      return false;
    if (!g_.is_constant(n.inputs[1]) || g_.type(n.inputs[1]).layout != Layout::plain ||
        g_.type(n.inputs[1]).shape.count() == 0)
      return false;
    const bool float_weight = g_.type(n.inputs[1]).dtype == DType::f32;
    if (g_.type(n.inputs[0]).dtype == DType::f32)
      return float_weight || (std::holds_alternative<graph::Linear>(n.op) &&
                              ops::may_stay_int8(g_.type(n.inputs[1])));
    return !float_weight && is_quantizable(g_.type(n.inputs[0]).dtype);
  }

  // False if the weight stays as it is: its order depends on extents, and the operator packs it
  // when it knows them.
  Result<bool> pack(NodeId id) {
    const Node& n = g_.node(id);
    const ValueId w = n.inputs[1];
    const Shape shape = g_.type(w).shape;
    const graph::Op key = geometry(n.op);
    ValueId packed = graph::kNoValue;
    for (const auto& [op, v] : packed_[w])
      if (graph::equal(op, key)) packed = v;
    if (packed == graph::kNoValue) {
      auto made = made_of(n.op, key, w);
      if (!made.ok())
        return in_context("node '" + n.name + "', weight '" + g_.value(w).name + "'", made.error());
      if (made->type.layout == Layout::plain) return false;
      packed = g_.add_constant(g_.fresh_name(g_.value(w).name + "_packed"), std::move(made->type),
                               std::move(made->data));
      packed_[w].push_back({key, packed});
    }
    Node& node = g_.node(id);
    node.inputs[1] = packed;
    if (auto* linear = std::get_if<graph::Linear>(&node.op)) {
      linear->out_features = shape.extent(shape.rank() - 2);
      linear->in_features = shape.extent(shape.rank() - 1);
    } else if (auto* conv = std::get_if<graph::Conv>(&node.op)) {
      conv->out_channels = conv->transposed ? shape.extent(1) * conv->group : shape.extent(0);
    }
    return true;
  }

  Result<WeightCache::Made> made_of(const graph::Op& op, const graph::Op& key, ValueId w) {
    const graph::Value& weight = g_.value(w);
    WeightCache* cache = weight.type.dtype == DType::f32 ? nullptr : cache_;
    if (cache != nullptr)
      if (const WeightCache::Made* known = cache->packed(weight.constant.get(), key)) return *known;
    FOLD8_TRY(ops::PackedWeight packed, ops::pack_weight(op, weight.type, weight.constant->data()));
    WeightCache::Made made{std::move(packed.type), std::move(packed.data)};
    if (cache != nullptr && made.type.layout != Layout::plain)
      cache->add_packed(weight.constant, key, made);
    return made;
  }

  Graph& g_;
  WeightCache* cache_;
  std::map<ValueId, std::vector<std::pair<graph::Op, ValueId>>> packed_;
};

Result<Tally> run_pack_weights(Graph& g, const Context& context) {
  return Packer(g, context.weights).run();
}

}  // namespace

constinit const GraphPass pack_weights{"pack_weights", run_pack_weights};

}  // namespace fold8::fusion
