#include "fusion/passes/quantize_tables.h"

#include <map>
#include <set>

#include "fusion/passes/glob.h"
#include "fusion/passes/movement.h"
#include "fusion/weight_cache.h"

namespace fold8::fusion {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

// Rows of a constant f32 matrix, as f32.
bool looks_up(const Graph& g, const Node& n) {
  const auto* gather = std::get_if<graph::Gather>(&n.op);
  if (n.dead || gather == nullptr || n.inputs.size() != 2 || !g.is_constant(n.inputs[0]))
    return false;
  const TensorType& t = g.type(n.inputs[0]);
  if (t.dtype != DType::f32 || t.layout != Layout::plain || t.shape.rank() != 2) return false;
  if (gather->axis != 0 && gather->axis != -2) return false;
  return static_cast<std::size_t>(t.shape.count()) * sizeof(float) >= kLeastTableBytes &&
         !g.is_constant(n.inputs[1]) && g.type(n.outputs[0]).dtype == DType::f32;
}

bool moves(const graph::Op& op) {
  return is_movement(op) || std::holds_alternative<graph::Expand>(op) ||
         std::holds_alternative<graph::Concat>(op) || std::holds_alternative<graph::Slice>(op) ||
         std::holds_alternative<graph::Split>(op);
}

// Rows that are factors of activations, as the sines and cosines of rotary embedding: they are few
// and turn every query and key, so their errors do not average out.
bool are_factors(const Graph& g, const std::vector<std::vector<NodeId>>& consumers, ValueId rows) {
  std::set<ValueId> seen{rows};  // a value may be moved along many ways
  std::vector<ValueId> left{rows};
  while (!left.empty()) {
    const ValueId x = left.back();
    left.pop_back();
    for (NodeId id : consumers[static_cast<std::size_t>(x)]) {
      const Node& n = g.node(id);
      if (std::holds_alternative<graph::Rotary>(n.op)) return true;
      if (const auto* binary = std::get_if<graph::Binary>(&n.op);
          binary != nullptr && binary->kind == graph::BinaryKind::mul)
        for (ValueId v : n.inputs)
          if (v != x && v != graph::kNoValue && !g.is_constant(v)) return true;
      if (!moves(n.op)) continue;
      for (ValueId y : n.outputs)
        if (y != graph::kNoValue && seen.insert(y).second) left.push_back(y);
    }
  }
  return false;
}

const std::string* kept_by(const Graph& g, const std::vector<NodeId>& lookups, ValueId table,
                           const QuantizeOptions& options) {
  for (NodeId n : lookups)
    if (const std::string* glob = kept_float_by(options, g, g.node(n))) return glob;
  for (const std::string& glob : options.keep_float)
    if (glob_matches(glob, g.value(table).name)) return &glob;
  return nullptr;
}

Result<ValueId> as_s8(Graph& g, ValueId table, WeightCache* cache) {
  auto made = cached_codes(cache, {g.value(table).constant.get()}, g.value(table));
  if (!made.ok()) return in_context("table '" + g.value(table).name + "'", made.error());
  return g.add_constant(g.fresh_name(g.value(table).name + "_rows"), std::move(made->type),
                        std::move(made->data));
}

}  // namespace

Result<std::vector<std::string>> quantize_tables(Graph& g, const QuantizeOptions& options,
                                                 std::set<std::string>& matched) {
  const auto consumers = g.consumers();
  std::map<ValueId, std::vector<NodeId>> lookups;
  for (NodeId n = 0; n < g.node_count(); ++n)
    if (looks_up(g, g.node(n)) && !are_factors(g, consumers, g.node(n).outputs[0]))
      lookups[g.node(n).inputs[0]].push_back(n);
  std::vector<std::string> names;
  for (const auto& [table, nodes] : lookups) {
    if (const std::string* glob = kept_by(g, nodes, table, options)) {
      matched.insert(*glob);
      continue;
    }
    FOLD8_TRY(const ValueId rows, as_s8(g, table, options.cache));
    for (NodeId n : nodes) {
      g.node(n).inputs[0] = rows;
      std::get<graph::Gather>(g.node(n).op).axis = 0;
    }
    names.push_back(g.value(table).name);
  }
  return names;
}

}  // namespace fold8::fusion
