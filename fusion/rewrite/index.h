// Who makes and who reads a value, kept up to date while a pass edits the graph.
#pragma once

#include <algorithm>
#include <vector>

#include "runtime/graph/graph.h"

namespace fold8::fusion {

class Index {
 public:
  explicit Index(const graph::Graph& g) { grow(g); }

  graph::NodeId producer(graph::ValueId v) const {
    return v == graph::kNoValue ? graph::kNoNode : producers_[static_cast<std::size_t>(v)];
  }
  // Live readers, once per operand.
  const std::vector<graph::NodeId>& consumers(graph::ValueId v) const {
    return consumers_[static_cast<std::size_t>(v)];
  }

  // Takes in values and nodes that were added since.
  void grow(const graph::Graph& g) {
    producers_.resize(static_cast<std::size_t>(g.value_count()), graph::kNoNode);
    consumers_.resize(static_cast<std::size_t>(g.value_count()));
    for (; nodes_ < g.node_count(); ++nodes_)
      if (!g.node(nodes_).dead) insert(g.node(nodes_), nodes_);
  }
  // A node's operands and results enter or leave the index. Call around every edit of a node.
  void insert(const graph::Node& node, graph::NodeId id) {
    for (graph::ValueId v : node.inputs)
      if (v != graph::kNoValue) consumers_[static_cast<std::size_t>(v)].push_back(id);
    for (graph::ValueId v : node.outputs)
      if (v != graph::kNoValue) producers_[static_cast<std::size_t>(v)] = id;
  }
  void remove(const graph::Node& node, graph::NodeId id) {
    for (graph::ValueId v : node.inputs)
      if (v != graph::kNoValue) std::erase(consumers_[static_cast<std::size_t>(v)], id);
    for (graph::ValueId v : node.outputs)
      if (v != graph::kNoValue && producers_[static_cast<std::size_t>(v)] == id)
        producers_[static_cast<std::size_t>(v)] = graph::kNoNode;
  }

 private:
  std::vector<graph::NodeId> producers_;
  std::vector<std::vector<graph::NodeId>> consumers_;
  graph::NodeId nodes_ = 0;
};

}  // namespace fold8::fusion
