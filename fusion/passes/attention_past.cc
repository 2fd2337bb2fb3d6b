// A past that is put in front of keys and values belongs to the attention that reads both:
//   k' = concat(past_k, k), v' = concat(past_v, v), attention(q, k', v')
//     =>  attention(q, k, v, past_k, past_v), which also writes k' and v'
// so that a session that keeps them from run to run can append in place instead of copying.
#include "fusion/passes/passes.h"
#include "runtime/graph/graph.h"

namespace fold8::fusion {

using graph::Attention;
using graph::Graph;
using graph::kNoNode;
using graph::kNoValue;
using graph::NodeId;
using graph::ValueId;

namespace {

// The concat that makes v of a past and fresh tokens [B, heads, ., D]; kNoNode if none does.
NodeId past_of(const Graph& g, const std::vector<NodeId>& producers, ValueId v) {
  const NodeId id = producers[static_cast<std::size_t>(v)];
  if (id == kNoNode) return kNoNode;
  const graph::Node& n = g.node(id);
  const auto* concat = std::get_if<graph::Concat>(&n.op);
  if (concat == nullptr || concat->axis != 2 || n.inputs.size() != 2) return kNoNode;
  for (const ValueId x : n.inputs) {
    const TensorType& t = g.type(x);
    if (t.dtype != DType::f32 || t.quant || t.shape.rank() != 4) return kNoNode;
  }
  return g.is_constant(n.inputs[0]) ? kNoNode : id;
}

// Whether `from` waits for `wanted`.
bool waits_for(const Graph& g, const std::vector<NodeId>& producers, NodeId from, NodeId wanted) {
  std::vector<char> seen(static_cast<std::size_t>(g.node_count()), 0);
  std::vector<NodeId> left{from};
  while (!left.empty()) {
    const NodeId id = left.back();
    left.pop_back();
    if (id == kNoNode || seen[static_cast<std::size_t>(id)] != 0) continue;
    if (id == wanted) return true;
    seen[static_cast<std::size_t>(id)] = 1;
    for (const ValueId x : g.node(id).inputs)
      if (x != kNoValue) left.push_back(producers[static_cast<std::size_t>(x)]);
  }
  return false;
}

// What reads the concatenation comes behind the attention afterwards: none of it may be something
// that the attention waits for.
bool others_wait(const Graph& g, const std::vector<NodeId>& producers, const graph::Node& attention,
                 NodeId concat) {
  for (std::size_t i = 0; i < attention.inputs.size(); ++i) {
    const ValueId x = attention.inputs[i];
    if (x == kNoValue || x == g.node(concat).outputs[0]) continue;
    if (waits_for(g, producers, producers[static_cast<std::size_t>(x)], concat)) return true;
  }
  return false;
}

Result<Tally> run(Graph& g, const Context&) {
  Tally tally;
  const std::vector<NodeId> producers = g.producers();
  const NodeId end = g.node_count();
  for (NodeId id = 0; id < end; ++id) {
    graph::Node& n = g.node(id);
    const auto* op = n.dead ? nullptr : std::get_if<Attention>(&n.op);
    if (op == nullptr || op->k_rows || op->v_rows || n.inputs.size() > 4 || n.outputs.size() != 1)
      continue;
    const NodeId k = past_of(g, producers, n.inputs[1]), v = past_of(g, producers, n.inputs[2]);
    if (k == kNoNode || v == kNoNode || k == v || g.node(k).dead || g.node(v).dead) continue;
    if (others_wait(g, producers, n, k) || others_wait(g, producers, n, v)) continue;
    n.inputs.resize(6, kNoValue);
    for (const auto& [concat, i] : {std::pair{k, std::size_t{1}}, std::pair{v, std::size_t{2}}}) {
      graph::Node& from = g.node(concat);
      n.inputs[i + 3] = from.inputs[0];
      n.inputs[i] = from.inputs[1];
      n.outputs.push_back(from.outputs[0]);
      n.inside.push_back(from.name);
      from.dead = true;
    }
    ++tally.applied;
  }
  if (tally.applied > 0) FOLD8_CHECK_OK(g.compact());
  return tally;
}

}  // namespace

const GraphPass attention_past{"attention_past", run};

}  // namespace fold8::fusion
