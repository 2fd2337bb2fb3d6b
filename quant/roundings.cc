#include "quant/roundings.h"

#include <algorithm>
#include <set>

#include "quant/layers.h"

namespace fold8::quant {
namespace {

using graph::Graph;
using graph::kNoNode;
using graph::kNoValue;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

template <class... Ops>
bool is_any(const graph::Op& op) {
  return (std::holds_alternative<Ops>(op) || ...);
}

// Operand 0 (of a Concat: every operand) lies in the result as it is, or another way written down.
bool passes_on(const graph::Op& op) {
  return is_any<graph::Transpose, graph::Reshape, graph::Flatten, graph::Squeeze, graph::Unsqueeze,
                graph::Identity, graph::Slice, graph::Split, graph::Concat, graph::Gather,
                graph::Expand, graph::Tile, graph::Pad, graph::DepthToSpace, graph::SpaceToDepth,
                graph::Relayout, graph::Dequantize>(op);
}

// What a Q/DQ pair of the file rounded may be rounded once more for the layer that reads it.
bool rounds_again(const graph::Op& op) {
  const auto* q = std::get_if<graph::DynamicQuantize>(&op);
  return std::holds_alternative<graph::Quantize>(op) || (q != nullptr && !q->rotated);
}

bool rotates(const graph::Op& op) {
  const auto* q = std::get_if<graph::DynamicQuantize>(&op);
  return q != nullptr && q->rotated;
}

class Finder {
 public:
  Finder(const Graph& g, const std::function<bool(const std::string&)>& known)
      : g_(g), known_(known), producers_(g.producers()), consumers_(g.consumers()) {}

  std::vector<Rounding> run() {
    std::vector<Rounding> found;
    for (ValueId v = 0; v < g_.value_count(); ++v)
      if (is_rounded_here(v))
        if (auto r = rounding(v)) found.push_back(std::move(*r));
    return found;
  }

 private:
  const Node* producer(ValueId v) const {
    const NodeId n = producers_[static_cast<std::size_t>(v)];
    return n == kNoNode ? nullptr : &g_.node(n);
  }

  bool is_rounded_here(ValueId v) const {
    const TensorType& t = g_.type(v);
    if (g_.is_constant(v) || !is_quantizable(t.dtype) || !t.quant) return false;
    if (!t.quant->is_per_tensor() && t.quant->granularity() != Granularity::per_token) return false;
    const Node* p = producer(v);
    if (p == nullptr || rotates(p->op)) return false;
    const ValueId x = p->inputs.empty() ? kNoValue : p->inputs[0];
    const bool moved = passes_on(p->op) && x != kNoValue && is_quantizable(g_.type(x).dtype);
    return !moved || std::holds_alternative<graph::Concat>(p->op);
  }

  std::optional<Rounding> rounding(ValueId v) const {
    Rounding r;
    r.codes = v;
    r.s8 = g_.type(v).dtype == DType::s8;
    r.params = *g_.type(v).quant;
    const ValueId named = name_value(v, r);
    if (named == kNoValue) return std::nullopt;
    r.tensor = g_.value(named).name;
    r.rescale = g_.value(named).rescale;
    r.rescale_axis = g_.value(named).rescale_axis;
    const Node* p = producer(v);
    r.by_layer = named == v && p != nullptr && is_layer(p->op);
    std::set<ValueId> seen;
    follow(v, r, seen);
    std::stable_sort(r.readers.begin(), r.readers.end(),
                     [](const auto& a, const auto& b) { return a.node < b.node; });
    for (const RoundingReader& x : r.readers)
      r.to_matrix = r.to_matrix ||
                    (std::holds_alternative<graph::Linear>(g_.node(x.node).op) && x.operand == 0);
    r.channel_axis = channel_axis(r, g_.type(v).shape.rank());
    find_parts(v, r);
    return r;
  }

  // The value whose name the reference knows: this one, or what was rounded into it.
  ValueId name_value(ValueId v, Rounding& r) const {
    if (known_(g_.value(v).name)) return v;
    const Node* p = producer(v);
    if (p == nullptr || p->inputs.empty() || p->inputs[0] == kNoValue) return kNoValue;
    const ValueId x = p->inputs[0];
    if (is_any<graph::Quantize, graph::DynamicQuantize>(p->op))
      return known_(g_.value(x).name) ? x : kNoValue;
    if (is_any<graph::Relayout, graph::Dequantize>(p->op)) return name_value(x, r);
    // Codes that a norm writes beside its f32 result.
    if (std::holds_alternative<graph::Norm>(p->op) && p->outputs.size() == 4 &&
        p->outputs[3] == v && p->outputs[0] != kNoValue)
      return known_(g_.value(p->outputs[0]).name) ? p->outputs[0] : kNoValue;
    const auto* affine = std::get_if<graph::Affine>(&p->op);
    if (affine == nullptr || p->inputs.size() < 3 || !known_(g_.value(x).name)) return kNoValue;
    for (std::size_t i = 1; i <= 2; ++i)
      if (!g_.is_constant(p->inputs[i]) || g_.type(p->inputs[i]).dtype != DType::f32)
        return kNoValue;
    const auto scale = g_.constant<float>(p->inputs[1]), shift = g_.constant<float>(p->inputs[2]);
    if (scale.empty() || scale.size() != shift.size()) return kNoValue;
    r.affine_scale.assign(scale.begin(), scale.end());
    r.affine_shift.assign(shift.begin(), shift.end());
    r.affine_axis = static_cast<int>(affine->axis);
    return x;
  }

  void follow(ValueId v, Rounding& r, std::set<ValueId>& seen) const {
    if (!seen.insert(v).second) return;
    if (g_.is_output(v)) r.is_output = true;
    for (const NodeId id : consumers_[static_cast<std::size_t>(v)]) {
      const Node& n = g_.node(id);
      if (passes_on(n.op) || rounds_again(n.op)) {
        for (const ValueId y : n.outputs)
          if (y != kNoValue) follow(y, r, seen);
      } else if (!n.outputs.empty() && n.outputs[0] != kNoValue) {
        const bool twice = std::any_of(r.readers.begin(), r.readers.end(),
                                       [&](const RoundingReader& x) { return x.node == id; });
        const auto at = std::find(n.inputs.begin(), n.inputs.end(), v) - n.inputs.begin();
        if (!twice) r.readers.push_back({layer_name(g_, id), id, static_cast<std::size_t>(at)});
      }
    }
  }

  int channel_axis(const Rounding& r, int rank) const {
    if (rank == 0) return -1;
    for (const RoundingReader& reader : r.readers) {
      const graph::Op& op = g_.node(reader.node).op;
      if (std::holds_alternative<graph::Conv>(op)) return rank > 1 ? 1 : 0;
      if (is_any<graph::Linear, graph::MatMul, graph::Norm>(op)) return rank - 1;
    }
    return rank >= 4 ? 1 : rank - 1;
  }

  // T was put together by a Concat: its parts, as the reference names them.
  void find_parts(ValueId v, Rounding& r) const {
    constexpr int kLongestWalk = 8;
    for (int i = 0; i < kLongestWalk; ++i) {
      const Node* p = producer(v);
      if (p == nullptr || p->inputs.empty() || p->inputs[0] == kNoValue) return;
      if (std::holds_alternative<graph::Concat>(p->op)) {
        for (const ValueId x : p->inputs) {
          Rounding ignored;
          const ValueId named = name_value(x, ignored);
          if (named == kNoValue || !ignored.affine_scale.empty()) return r.parts.clear();
          r.parts.push_back(g_.value(named).name);
        }
        return;
      }
      const bool along = passes_on(p->op) || is_any<graph::Quantize, graph::DynamicQuantize>(p->op);
      if (!along || std::holds_alternative<graph::Split>(p->op) ||
          std::holds_alternative<graph::Slice>(p->op) ||
          std::holds_alternative<graph::Gather>(p->op))
        return;
      v = p->inputs[0];
    }
  }

  const Graph& g_;
  const std::function<bool(const std::string&)>& known_;
  const std::vector<NodeId> producers_;
  const std::vector<std::vector<NodeId>> consumers_;
};

}  // namespace

bool reads_rotated(const Graph& g, const Node& layer) {
  for (NodeId n = 0; n < g.node_count(); ++n)
    if (!g.node(n).dead && rotates(g.node(n).op) && g.node(n).outputs[0] == layer.inputs[0])
      return true;
  return false;
}

std::vector<Rounding> find_roundings(const Graph& g,
                                     const std::function<bool(const std::string&)>& known) {
  return Finder(g, known).run();
}

}  // namespace fold8::quant
