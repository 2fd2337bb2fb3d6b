#include "fusion/passes/balance.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <vector>

#include "fusion/passes/affine.h"
#include "fusion/passes/fold_layer.h"
#include "fusion/passes/quantize.h"
#include "fusion/passes/scale_path.h"
#include "fusion/rewrite/constants.h"
#include "runtime/kernels/math_double.h"

namespace fold8::fusion {
namespace {

using graph::Conv;
using graph::Graph;
using graph::kNoValue;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

constexpr int kAxis = 1;              // of channels
constexpr double kLeastRange = 1e-3;  // of the largest channel's: smaller ones count as that large

struct Class {
  std::vector<ValueId> values;
  std::vector<NodeId> writers, readers;  // convolutions
};

bool commutes(const graph::Op& op) {
  return std::visit(
      [](const auto& o) {
        if constexpr (requires { o.activation; })
          return commutes_with_scaling(o.activation, o.a, o.b);
        else
          return true;
      },
      op);
}

bool is_relu(const graph::Unary& u) {
  return u.kind == graph::UnaryKind::relu || u.kind == graph::UnaryKind::leaky_relu ||
         (u.kind == graph::UnaryKind::clip && u.a == 0 && std::isinf(u.b));
}

// A mean over space that leaves [N, C, 1, ..].
bool is_spatial_mean(const Graph& g, const Node& n, const graph::Reduce& r) {
  const int rank = g.type(n.inputs[0]).shape.rank();
  return r.kind == graph::ReduceKind::mean && r.keep_dims && !r.axes.empty() &&
         std::all_of(r.axes.begin(), r.axes.end(),
                     [&](std::int64_t a) { return (a < 0 ? a + rank : a) >= 2; });
}

class Classes {
 public:
  explicit Classes(const Graph& g)
      : g_(g), parents_(static_cast<std::size_t>(g.value_count())), pinned_(parents_.size()) {
    std::iota(parents_.begin(), parents_.end(), ValueId{0});
    for (const ValueId v : g.inputs) pin(v);
    for (const ValueId v : g.outputs) pin(v);
    for (NodeId n = 0; n < g.node_count(); ++n)
      if (!g.node(n).dead) visit(n);
  }

  std::vector<Class> all() {
    std::map<ValueId, Class> classes;
    std::set<ValueId> pinned;
    for (std::size_t v = 0; v < pinned_.size(); ++v)
      if (pinned_[v]) pinned.insert(root(static_cast<ValueId>(v)));
    const auto class_of = [&](ValueId v) -> Class* {
      const ValueId r = root(v);
      return pinned.count(r) != 0 ? nullptr : &classes[r];
    };
    for (NodeId n = 0; n < g_.node_count(); ++n) {
      const Node& node = g_.node(n);
      if (node.dead) continue;
      for (const ValueId y : node.outputs)
        if (y != kNoValue && is_map(y))
          if (Class* c = class_of(y)) c->values.push_back(y);
      if (!is_layer(n)) continue;
      if (Class* c = class_of(node.inputs[0])) c->readers.push_back(n);
      if (Class* c = class_of(node.outputs[0])) c->writers.push_back(n);
    }
    std::vector<Class> result;
    for (auto& [r, c] : classes)
      if (!c.readers.empty() && !c.writers.empty()) result.push_back(std::move(c));
    return result;
  }

 private:
  bool is_map(ValueId v) const {
    const TensorType& t = g_.type(v);
    return t.dtype == DType::f32 && !t.quant && !g_.is_constant(v) && t.shape.rank() >= 3 &&
           t.shape[kAxis].known();
  }

  // A convolution whose weights take factors on both sides.
  bool is_layer(NodeId n) const {
    const Node& node = g_.node(n);
    return std::holds_alternative<Conv>(node.op) && is_quantizable_layer(g_, node) &&
           takes_factors(g_, n) && is_map(node.inputs[0]) && is_map(node.outputs[0]) &&
           (node.inputs.size() < 5 || node.inputs[4] == kNoValue);
  }

  void visit(NodeId id) {
    const Node& n = g_.node(id);
    const ValueId y = n.outputs.empty() ? kNoValue : n.outputs[0];
    if (is_layer(id)) {
      if (!commutes(n.op)) pin(y);
      if (n.inputs.size() > 3 && n.inputs[3] != kNoValue) join(n.inputs[3], y);
      return;
    }
    if (const auto* b = std::get_if<graph::Binary>(&n.op)) return binary(n, *b);
    if (const auto* u = std::get_if<graph::Unary>(&n.op); u != nullptr && is_relu(*u))
      return join(n.inputs[0], y);
    if (const auto* p = std::get_if<graph::Pool>(&n.op);
        p != nullptr && p->kind != graph::PoolKind::lp && n.outputs.size() == 1)
      return join(n.inputs[0], y);
    if (const auto* r = std::get_if<graph::Reduce>(&n.op);
        r != nullptr && is_spatial_mean(g_, n, *r))
      return join(n.inputs[0], y);
    pin_all(n);
  }

  void binary(const Node& n, const graph::Binary& b) {
    const ValueId x0 = n.inputs[0], x1 = n.inputs[1], y = n.outputs[0];
    const Shape &s0 = g_.type(x0).shape, &s1 = g_.type(x1).shape;
    if (!commutes(n.op) || !is_map(x0) || !is_map(x1)) return pin_all(n);
    if (b.kind == graph::BinaryKind::add && s0.rank() == s1.rank() &&
        s0[kAxis].value() == s1[kAxis].value()) {  // broadcast along other axes or not
      join(x0, y);
      return join(x1, y);
    }
    const bool first = is_gate(s1, s0), second = is_gate(s0, s1);
    if (b.kind != graph::BinaryKind::mul || first == second) return pin_all(n);
    pin(first ? x1 : x0);
    join(first ? x0 : x1, y);
  }

  void pin_all(const Node& n) {
    for (const ValueId v : n.inputs) pin(v);
    for (const ValueId v : n.outputs) pin(v);
  }
  void pin(ValueId v) {
    if (v != kNoValue) pinned_[static_cast<std::size_t>(v)] = true;
  }
  // Values without known channels hold what they are tied to.
  void join(ValueId a, ValueId b) {
    if (!is_map(a)) pin(a);
    if (!is_map(b)) pin(b);
    parents_[static_cast<std::size_t>(root(a))] = root(b);
  }
  ValueId root(ValueId v) {
    while (parents_[static_cast<std::size_t>(v)] != v) {
      auto& p = parents_[static_cast<std::size_t>(v)];
      p = parents_[static_cast<std::size_t>(p)];
      v = p;
    }
    return v;
  }

  const Graph& g_;
  std::vector<ValueId> parents_;
  std::vector<bool> pinned_;
};

class Balancer {
 public:
  Balancer(Graph& g, const BalanceOptions& options) : g_(g), options_(options) {}

  bool balance(const Class& c) {
    for (const ValueId v : c.values)  // no room for factors along two axes
      if (!g_.value(v).rescale.empty() && g_.value(v).rescale_axis != kAxis) return false;
    const auto s = factors(c);
    return s && apply(c, *s);
  }

 private:
  bool depthwise(NodeId n) const {
    const auto& conv = std::get<Conv>(g_.node(n).op);
    return !conv.transposed && conv.group > 1 && g_.type(g_.node(n).inputs[1]).shape.extent(1) == 1;
  }

  std::optional<std::vector<double>> factors(const Class& c) const {
    const auto channels = static_cast<std::size_t>(g_.type(c.values[0]).shape[kAxis].value());
    std::vector<double> range(channels), weight(channels);
    bool only_depthwise = true, rounded = false;
    for (const NodeId n : c.readers) {
      if (options_.becomes_int8 && !options_.becomes_int8(g_.node(n))) continue;
      if (!add_range(g_.node(n).inputs[0], range)) return std::nullopt;
      rounded = true;
      if (depthwise(n)) continue;
      only_depthwise = false;
      const auto own = weight_ranges(g_, n, Side::input);
      if (!own || own->size() != channels) return std::nullopt;
      for (std::size_t i = 0; i < channels; ++i) weight[i] = std::max(weight[i], (*own)[i]);
    }
    if (!rounded) return std::nullopt;
    return factors(range, only_depthwise ? std::vector<double>() : weight);
  }

  // Geometric mean 1; a dead channel has 1.
  static std::vector<double> factors(std::vector<double> range, std::vector<double> weight) {
    std::vector<double> s(range.size(), 1.0);
    const double widest = *std::max_element(range.begin(), range.end()),
                 heaviest = weight.empty() ? 0 : *std::max_element(weight.begin(), weight.end());
    double sum = 0, count = 0;
    const auto alive = [&](std::size_t i) {
      return range[i] > 0 && (weight.empty() || weight[i] > 0);
    };
    for (std::size_t i = 0; i < s.size(); ++i) {
      if (!alive(i)) continue;
      s[i] = std::max(range[i], kLeastRange * widest);
      if (!weight.empty())
        s[i] = __builtin_sqrt(s[i] / std::max(weight[i], kLeastRange * heaviest));
      sum += kernels::log_f64(s[i]);
      ++count;
    }
    const double mean = count > 0 ? kernels::exp_f64(sum / count) : 1;
    for (std::size_t i = 0; i < s.size(); ++i)
      if (alive(i)) s[i] /= mean;
    return s;
  }

  bool add_range(ValueId v, std::vector<double>& range) const {
    const quant::Observer* seen = options_.calibration->find(g_.value(v).name);
    if (seen == nullptr || seen->channel_max().size() != range.size()) return false;
    for (std::size_t i = 0; i < range.size(); ++i)
      range[i] =
          std::max({range[i], -double{seen->channel_min()[i]}, double{seen->channel_max()[i]}});
    return true;
  }

  // All of the class or nothing.
  bool apply(const Class& c, const std::vector<double>& s) {
    const std::vector<double> none(s.size());
    std::vector<double> inverse;
    for (const double f : s) inverse.push_back(1 / f);
    std::map<NodeId, std::vector<ValueId>> before;
    for (const auto& [nodes, reads] : {std::pair{&c.writers, false}, std::pair{&c.readers, true}})
      for (const NodeId n : *nodes) {
        before.try_emplace(n, g_.node(n).inputs);
        const FoldResult folded = reads ? fold_in_front(g_, n, {kAxis, s, none})
                                        : fold_behind(g_, n, {kAxis, inverse, none});
        if (const auto* layer = std::get_if<FoldedLayer>(&folded)) {
          put(*layer, g_.node(n).inputs);
          continue;
        }
        for (auto& [changed, inputs] : before) g_.node(changed).inputs = std::move(inputs);
        return false;
      }
    for (const ValueId v : c.values) remember_rescale(g_.value(v), kAxis, inverse);
    return true;
  }

  Graph& g_;
  const BalanceOptions& options_;
};

}  // namespace

std::map<std::string, int> values_to_balance(const Graph& g) {
  std::map<std::string, int> axes;
  for (const Class& c : Classes(g).all())
    for (const NodeId n : c.readers) axes[g.value(g.node(n).inputs[0]).name] = kAxis;
  return axes;
}

Result<int> balance(Graph& g, const BalanceOptions& options) {
  if (options.calibration == nullptr) return 0;
  int changed = 0;
  const std::vector<Class> classes = Classes(g).all();
  Balancer balancer(g, options);
  for (const Class& c : classes) changed += balancer.balance(c);
  FOLD8_CHECK_OK(g.compact());
  return changed;
}

}  // namespace fold8::fusion
