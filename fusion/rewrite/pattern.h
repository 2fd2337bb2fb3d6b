// Patterns over a graph: a formula written down, with names for what it matches.
//
//   op<BatchNorm>("bn", {op<Linear>("fc", {any("x"), constant("w"), constant_or_absent("b")}),
//                        constant("gamma"), constant("beta"), constant("mean"), constant("var")})
//
// A pattern is matched against the value a node computes. `add` and `mul` match their operands in
// either order. A named operand that occurs twice must be the same value both times; operators that
// occur twice may be one node or two nodes that compute the same. Patterns are immutable and cheap
// to copy.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fusion/rewrite/index.h"
#include "runtime/graph/graph.h"

namespace fold8::fusion {

// What a pattern matched.
class Match {
 public:
  // The value bound to a name; graph::kNoValue if the operand is absent or the name does not occur.
  graph::ValueId operator[](std::string_view name) const;
  bool has(std::string_view name) const { return (*this)[name] != graph::kNoValue; }
  // The node bound to the name of an op() pattern; graph::kNoNode if it is not part of this match.
  graph::NodeId node(std::string_view name) const;

  graph::NodeId root = graph::kNoNode;
  std::vector<graph::NodeId> nodes;  // all matched nodes, the root first; a node may occur twice
  std::vector<graph::NodeId> path;   // nodes of a through(), from the root's side
  const Index* index = nullptr;      // producers and consumers of the graph

 private:
  friend class Matcher;
  std::vector<std::pair<std::string_view, graph::ValueId>> values_;
  std::vector<std::pair<std::string_view, graph::NodeId>> named_nodes_;
};

class Pattern {
 public:
  struct Node;
  explicit Pattern(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  const Node& node() const { return *node_; }

  // The value of this operator may have other readers: the rewrite leaves it in place for them.
  Pattern shared() const;
  // Operands after the listed ones may be present.
  Pattern open() const;
  // The value may be any result of the operator, not only the first.
  Pattern any_result() const;

 private:
  std::shared_ptr<const Node> node_;
};

struct Pattern::Node {
  enum class Kind { operand, op, either, through };
  Kind kind = Kind::operand;
  std::string name;  // empty: not bound
  // operand: may it be absent, must it be absent, and a further condition on the value
  bool may_be_absent = false, must_be_absent = false;
  std::function<bool(const graph::Graph&, graph::ValueId)> value_ok;
  // op, and the steps of a through
  std::function<bool(const graph::Op&)> op_ok;
  std::vector<Pattern> operands;  // of an op; alternatives of an either; [inner] of a through
  bool commutative = false, open = false, shared = false, any_result = false;
};

// ---- operands
Pattern any(std::string name);  // present
Pattern any_or_absent(std::string name);
Pattern absent();
Pattern constant(std::string name);
Pattern constant_or_absent(std::string name);
Pattern scalar(std::string name);  // a floating constant of one element
// A floating constant of one element that is `value` within 1e-4 relative (exporters round
// constants at will).
Pattern scalar(double value);

// ---- operators
Pattern op_if(std::string name, std::function<bool(const graph::Op&)> ok,
              std::vector<Pattern> operands);
template <class T>
Pattern op(std::string name, std::vector<Pattern> operands, std::function<bool(const T&)> ok = {}) {
  return op_if(
      std::move(name),
      [ok = std::move(ok)](const graph::Op& o) {
        const T* t = std::get_if<T>(&o);
        return t != nullptr && (!ok || ok(*t));
      },
      std::move(operands));
}
Pattern unary(graph::UnaryKind kind, Pattern x, std::string name = {});
// Without an activation in it; add, mul, min and max match either order.
Pattern binary(graph::BinaryKind kind, Pattern a, Pattern b, std::string name = {});
Pattern operator+(Pattern a, Pattern b);
Pattern operator-(Pattern a, Pattern b);
Pattern operator*(Pattern a, Pattern b);
Pattern operator/(Pattern a, Pattern b);
Pattern pow(Pattern a, Pattern b);
Pattern times(Pattern x, double c);                // x * c, or x / (1/c)
Pattern product(Pattern a, Pattern b, Pattern c);  // a * b * c in any order and grouping

// ---- structure
Pattern either(std::vector<Pattern> alternatives);
// Any number (up to 16, also none) of operators that satisfy `step`, each reading the next by its
// first operand, and then `inner`; the nodes are Match::path.
Pattern through(std::function<bool(const graph::Op&)> step, Pattern inner);
// `inner`, or one operator that satisfies `step` over it.
Pattern maybe(std::function<bool(const graph::Op&)> step, Pattern inner);

// Calls `found` for every way the pattern matches the value of output 0 of `root`, until `found`
// returns true. Returns whether one did.
bool for_each_match(const Pattern& pattern, const graph::Graph& g, const Index& index,
                    graph::NodeId root, const std::function<bool(const Match&)>& found);

}  // namespace fold8::fusion
