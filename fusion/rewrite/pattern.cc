#include "fusion/rewrite/pattern.h"

#include <cmath>

#include "fusion/rewrite/constants.h"

namespace fold8::fusion {

using graph::BinaryKind;
using graph::Graph;
using graph::kNoNode;
using graph::kNoValue;
using graph::NodeId;
using graph::ValueId;
using Node = Pattern::Node;

namespace {

constexpr int kLongestPath = 16;
constexpr double kScalarTolerance = 1e-4;

template <class F>
Pattern with(const Node& node, F&& change) {
  auto copy = std::make_shared<Node>(node);
  change(*copy);
  return Pattern(std::move(copy));
}

Pattern operand(std::string name, bool may_be_absent,
                std::function<bool(const Graph&, ValueId)> value_ok = {}) {
  return with(Node{}, [&](Node& n) {
    n.name = std::move(name);
    n.may_be_absent = may_be_absent;
    n.value_ok = std::move(value_ok);
  });
}

bool is_constant(const Graph& g, ValueId v) { return g.is_constant(v); }

}  // namespace

// ----------------------------------------------------------------------------------------------
// match

ValueId Match::operator[](std::string_view name) const {
  for (const auto& [bound, value] : values_)
    if (bound == name) return value;
  return kNoValue;
}

NodeId Match::node(std::string_view name) const {
  for (const auto& [bound, id] : named_nodes_)
    if (bound == name) return id;
  return kNoNode;
}

// Depth-first search with a continuation: `next` matches the rest, so that every alternative of an
// earlier choice is tried before giving up. Bindings made on a failed way are taken back.
class Matcher {
 public:
  using Next = std::function<bool()>;
  Matcher(const Graph& g, const Index& index, NodeId root) : g_(g), index_(index) {
    m_.root = root;
    m_.index = &index;
  }
  const Match& match() const { return m_; }

  bool value(const Pattern& pattern, ValueId v, const Next& next) {
    const Node& p = pattern.node();
    switch (p.kind) {
      case Node::Kind::operand:
        return operand(p, v, next);
      case Node::Kind::op:
        return op(p, v, next);
      case Node::Kind::either:
        for (const Pattern& alternative : p.operands)
          if (value(alternative, v, next)) return true;
        return false;
      case Node::Kind::through:
        return path(p, v, kLongestPath, next);
    }
    return false;
  }

 private:
  bool operand(const Node& p, ValueId v, const Next& next) {
    if (v == kNoValue) {
      if (!p.may_be_absent && !p.must_be_absent) return false;
    } else if (p.must_be_absent || (p.value_ok && !p.value_ok(g_, v))) {
      return false;
    }
    if (p.name.empty()) return next();
    for (const auto& [name, bound] : m_.values_)
      if (name == p.name) return bound == v && next();
    m_.values_.emplace_back(p.name, v);
    if (next()) return true;
    m_.values_.pop_back();
    return false;
  }

  bool op(const Node& p, ValueId v, const Next& next) {
    const NodeId id = index_.producer(v);
    if (id == kNoNode) return false;
    const graph::Node& node = g_.node(id);
    if ((node.outputs[0] != v && !p.any_result) || !p.op_ok(node.op)) return false;
    m_.nodes.push_back(id);
    if (!p.name.empty()) m_.named_nodes_.emplace_back(p.name, id);
    if (operands(p, node, 0, false, next)) return true;
    if (p.commutative && operands(p, node, 0, true, next)) return true;
    if (!p.name.empty()) m_.named_nodes_.pop_back();
    m_.nodes.pop_back();
    return false;
  }

  bool operands(const Node& p, const graph::Node& node, std::size_t i, bool swapped,
                const Next& next) {
    const auto input = [&](std::size_t k) {
      return k < node.inputs.size() ? node.inputs[k] : kNoValue;
    };
    if (i == p.operands.size()) {
      if (!p.open)
        for (std::size_t k = i; k < node.inputs.size(); ++k)
          if (node.inputs[k] != kNoValue) return false;
      return next();
    }
    const std::size_t k = swapped && i < 2 ? 1 - i : i;
    return value(p.operands[i], input(k), [&] { return operands(p, node, i + 1, swapped, next); });
  }

  bool path(const Node& p, ValueId v, int steps, const Next& next) {
    if (value(p.operands[0], v, next)) return true;
    const NodeId id = index_.producer(v);
    if (steps == 0 || id == kNoNode) return false;
    const graph::Node& node = g_.node(id);
    if (node.outputs[0] != v || !p.op_ok(node.op) || node.inputs.empty()) return false;
    m_.nodes.push_back(id);
    m_.path.push_back(id);
    if (path(p, node.inputs[0], steps - 1, next)) return true;
    m_.path.pop_back();
    m_.nodes.pop_back();
    return false;
  }

  const Graph& g_;
  const Index& index_;
  Match m_;
};

bool for_each_match(const Pattern& pattern, const Graph& g, const Index& index, NodeId root,
                    const std::function<bool(const Match&)>& found) {
  const graph::Node& node = g.node(root);
  if (node.dead || node.outputs.empty() || node.outputs[0] == kNoValue) return false;
  Matcher matcher(g, index, root);
  return matcher.value(pattern, node.outputs[0], [&] { return found(matcher.match()); });
}

// ----------------------------------------------------------------------------------------------
// building

Pattern Pattern::shared() const {
  return with(*node_, [](Node& n) { n.shared = true; });
}
Pattern Pattern::open() const {
  return with(*node_, [](Node& n) { n.open = true; });
}
Pattern Pattern::any_result() const {
  return with(*node_, [](Node& n) { n.any_result = true; });
}

Pattern any(std::string name) { return operand(std::move(name), false); }
Pattern any_or_absent(std::string name) { return operand(std::move(name), true); }
Pattern absent() {
  return with(Node{}, [](Node& n) { n.must_be_absent = true; });
}
Pattern constant(std::string name) { return operand(std::move(name), false, is_constant); }
Pattern constant_or_absent(std::string name) { return operand(std::move(name), true, is_constant); }
Pattern scalar(std::string name) {
  return operand(std::move(name), false,
                 [](const Graph& g, ValueId v) { return scalar_value(g, v).has_value(); });
}
Pattern scalar(double value) {
  return operand("", false, [value](const Graph& g, ValueId v) {
    const auto s = scalar_value(g, v);
    return s && std::fabs(*s - value) <= kScalarTolerance * std::fabs(value);
  });
}

Pattern op_if(std::string name, std::function<bool(const graph::Op&)> ok,
              std::vector<Pattern> operands) {
  return with(Node{}, [&](Node& n) {
    n.kind = Node::Kind::op;
    n.name = std::move(name);
    n.op_ok = std::move(ok);
    n.operands = std::move(operands);
  });
}

Pattern unary(graph::UnaryKind kind, Pattern x, std::string name) {
  return op<graph::Unary>(std::move(name), {std::move(x)},
                          [kind](const graph::Unary& u) { return u.kind == kind; });
}

Pattern binary(BinaryKind kind, Pattern a, Pattern b, std::string name) {
  const bool commutes = kind == BinaryKind::add || kind == BinaryKind::mul ||
                        kind == BinaryKind::min || kind == BinaryKind::max;
  const Pattern plain = op<graph::Binary>(
      std::move(name), {std::move(a), std::move(b)}, [kind](const graph::Binary& o) {
        return o.kind == kind && o.activation == Activation::none;
      });
  return with(plain.node(), [&](Node& n) { n.commutative = commutes; });
}

Pattern operator+(Pattern a, Pattern b) {
  return binary(BinaryKind::add, std::move(a), std::move(b));
}
Pattern operator-(Pattern a, Pattern b) {
  return binary(BinaryKind::sub, std::move(a), std::move(b));
}
Pattern operator*(Pattern a, Pattern b) {
  return binary(BinaryKind::mul, std::move(a), std::move(b));
}
Pattern operator/(Pattern a, Pattern b) {
  return binary(BinaryKind::div, std::move(a), std::move(b));
}
Pattern pow(Pattern a, Pattern b) { return binary(BinaryKind::pow, std::move(a), std::move(b)); }
Pattern times(Pattern x, double c) { return either({x * scalar(c), x / scalar(1 / c)}); }
Pattern product(Pattern a, Pattern b, Pattern c) {
  return either({(a * b) * c, (a * c) * b, (b * c) * a});
}

Pattern either(std::vector<Pattern> alternatives) {
  return with(Node{}, [&](Node& n) {
    n.kind = Node::Kind::either;
    n.operands = std::move(alternatives);
  });
}

Pattern through(std::function<bool(const graph::Op&)> step, Pattern inner) {
  return with(Node{}, [&](Node& n) {
    n.kind = Node::Kind::through;
    n.op_ok = std::move(step);
    n.operands.push_back(std::move(inner));
  });
}

Pattern maybe(std::function<bool(const graph::Op&)> step, Pattern inner) {
  return either({inner, op_if("", std::move(step), {inner}).open()});
}

}  // namespace fold8::fusion
