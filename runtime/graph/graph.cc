#include "runtime/graph/graph.h"

#include <algorithm>
#include <queue>
#include <unordered_set>

namespace fold8::graph {

ValueId Graph::add_value(std::string name, TensorType type) {
  values_.push_back(Value{std::move(name), std::move(type), nullptr, {}, -1, true});
  return static_cast<ValueId>(values_.size() - 1);
}

ValueId Graph::add_untyped_value(std::string name) {
  const ValueId v = add_value(std::move(name), TensorType{});
  value(v).has_type = false;
  return v;
}

ValueId Graph::add_constant(std::string name, TensorType type, std::shared_ptr<const Buffer> data) {
  const ValueId v = add_value(std::move(name), std::move(type));
  value(v).constant = std::move(data);
  return v;
}

NodeId Graph::add_node(Op op, std::string name, std::vector<ValueId> inputs,
                       std::vector<ValueId> outputs) {
  nodes_.push_back(
      Node{std::move(op), std::move(name), std::move(inputs), std::move(outputs), {}, false});
  return static_cast<NodeId>(nodes_.size() - 1);
}

Dim Graph::symbol(std::string_view text) {
  const auto it = std::find(symbols.begin(), symbols.end(), text);
  const auto id = static_cast<std::int32_t>(it - symbols.begin());
  if (it == symbols.end()) symbols.emplace_back(text);
  return Dim::symbol(id);
}

std::string Graph::fresh_name(std::string_view stem) const {
  std::unordered_set<std::string_view> taken;
  for (const Value& v : values_) taken.insert(v.name);
  std::string candidate(stem);
  for (int i = 1; taken.count(candidate) != 0; ++i)
    candidate = std::string(stem) + "_" + std::to_string(i);
  return candidate;
}

bool Graph::is_input(ValueId v) const {
  return std::find(inputs.begin(), inputs.end(), v) != inputs.end();
}
bool Graph::is_output(ValueId v) const {
  return std::find(outputs.begin(), outputs.end(), v) != outputs.end();
}

ValueId Graph::find_value(std::string_view text) const {
  for (std::size_t i = 0; i < values_.size(); ++i)
    if (values_[i].name == text) return static_cast<ValueId>(i);
  return kNoValue;
}

std::vector<NodeId> Graph::producers() const {
  std::vector<NodeId> made_by(values_.size(), kNoNode);
  for (std::size_t n = 0; n < nodes_.size(); ++n)
    if (!nodes_[n].dead)
      for (ValueId v : nodes_[n].outputs)
        if (v != kNoValue) made_by[static_cast<std::size_t>(v)] = static_cast<NodeId>(n);
  return made_by;
}

std::vector<std::vector<NodeId>> Graph::consumers() const {
  std::vector<std::vector<NodeId>> readers(values_.size());
  for (std::size_t n = 0; n < nodes_.size(); ++n)
    if (!nodes_[n].dead)
      for (ValueId v : nodes_[n].inputs)
        if (v != kNoValue) readers[static_cast<std::size_t>(v)].push_back(static_cast<NodeId>(n));
  return readers;
}

std::size_t Graph::live_nodes() const {
  return static_cast<std::size_t>(
      std::count_if(nodes_.begin(), nodes_.end(), [](const Node& n) { return !n.dead; }));
}

Result<std::vector<NodeId>> Graph::topological_order() const {
  const std::vector<NodeId> made_by = producers();
  std::vector<int> waiting(nodes_.size(), 0);
  std::vector<std::vector<NodeId>> next(nodes_.size());
  std::size_t live = 0;
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    if (nodes_[n].dead) continue;
    ++live;
    for (ValueId v : nodes_[n].inputs) {
      if (v == kNoValue) continue;
      const NodeId p = made_by[static_cast<std::size_t>(v)];
      if (p == kNoNode) continue;
      ++waiting[n];
      next[static_cast<std::size_t>(p)].push_back(static_cast<NodeId>(n));
    }
  }
  // The ready node with the lowest number first: stable, and deterministic.
  std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> ready;
  for (std::size_t n = 0; n < nodes_.size(); ++n)
    if (!nodes_[n].dead && waiting[n] == 0) ready.push(static_cast<NodeId>(n));
  std::vector<NodeId> order;
  order.reserve(live);
  while (!ready.empty()) {
    const NodeId n = ready.top();
    ready.pop();
    order.push_back(n);
    for (NodeId m : next[static_cast<std::size_t>(n)])
      if (--waiting[static_cast<std::size_t>(m)] == 0) ready.push(m);
  }
  if (order.size() == live) return order;
  std::string names;
  int shown = 0;
  for (std::size_t n = 0; n < nodes_.size() && shown < 5; ++n)
    if (!nodes_[n].dead && waiting[n] > 0)
      names += (shown++ > 0 ? ", '" : "'") + nodes_[n].name + "'";
  return invalid_model("the graph has a cycle through or in front of " + names);
}

void Graph::replace_uses(ValueId from, ValueId to) {
  for (Node& n : nodes_)
    if (!n.dead) std::replace(n.inputs.begin(), n.inputs.end(), from, to);
  std::replace(outputs.begin(), outputs.end(), from, to);
}

Status Graph::compact() {
  FOLD8_TRY(const std::vector<NodeId> order, topological_order());
  // Backwards: a value is wanted if the graph returns it or a wanted node reads it.
  std::vector<bool> wanted(values_.size(), false), kept_node(nodes_.size(), false);
  for (ValueId v : outputs) wanted[static_cast<std::size_t>(v)] = true;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const Node& n = node(*it);
    const bool needed = std::any_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) {
      return v != kNoValue && wanted[static_cast<std::size_t>(v)];
    });
    if (!needed) continue;
    kept_node[static_cast<std::size_t>(*it)] = true;
    for (ValueId v : n.inputs)
      if (v != kNoValue) wanted[static_cast<std::size_t>(v)] = true;
  }
  for (ValueId v : inputs) wanted[static_cast<std::size_t>(v)] = true;

  std::vector<ValueId> renumber(values_.size(), kNoValue);
  std::vector<Value> values;
  std::vector<Node> nodes;
  for (NodeId id : order) {
    if (!kept_node[static_cast<std::size_t>(id)]) continue;
    Node& n = node(id);
    for (ValueId& v : n.outputs) {
      const bool last = v != kNoValue && v == n.outputs.back();
      if (v != kNoValue && !wanted[static_cast<std::size_t>(v)] && !last && n.outputs.size() > 1)
        v = kNoValue;
      if (v != kNoValue) wanted[static_cast<std::size_t>(v)] = true;
    }
    while (n.outputs.size() > 1 && n.outputs.back() == kNoValue) n.outputs.pop_back();
    nodes.push_back(std::move(n));
  }
  for (std::size_t v = 0; v < values_.size(); ++v) {
    if (!wanted[v]) continue;
    renumber[v] = static_cast<ValueId>(values.size());
    values.push_back(std::move(values_[v]));
  }
  const auto move_id = [&](ValueId& v) {
    if (v != kNoValue) v = renumber[static_cast<std::size_t>(v)];
  };
  for (Node& n : nodes) {
    std::for_each(n.inputs.begin(), n.inputs.end(), move_id);
    std::for_each(n.outputs.begin(), n.outputs.end(), move_id);
  }
  std::for_each(inputs.begin(), inputs.end(), move_id);
  std::for_each(outputs.begin(), outputs.end(), move_id);
  values_ = std::move(values);
  nodes_ = std::move(nodes);
  return ok_status();
}

}  // namespace fold8::graph
