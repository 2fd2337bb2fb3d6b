#include "fusion/prefer_speed.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "fusion/passes/movement.h"
#include "fusion/passes/shifted_codes.h"
#include "fusion/passes/u8_streams.h"
#include "fusion/speed_model.h"

namespace fold8::fusion {
namespace {

using graph::Conv;
using graph::Graph;
using graph::Linear;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

const Shape* shape_of(const Graph& g, ValueId v, const ShapeTable& shapes) {
  const auto it = shapes.find(g.value(v).name);
  return it != shapes.end() && it->second.count() > 0 ? &it->second : nullptr;
}

CostKey conv_key(const Conv& conv, const Shape& w, const Shape& x, const Shape& y) {
  const std::int64_t first = w.extent(0), kernel = w.count() / first;
  if (conv.transposed) return {CostKind::transposed, x.count() / x.extent(1), first, kernel};
  const CostKind kind = conv.group == 1 ? CostKind::conv
                        : conv.group == x.extent(1) && conv.group == y.extent(1)
                            ? CostKind::depthwise
                            : CostKind::grouped;
  return {kind, y.count() / first, first, kernel};
}

// Three digits, whole from 100 on.
std::string microseconds(double us) {
  char text[32];
  const auto r = us < 100
                     ? std::to_chars(text, text + sizeof text, us, std::chars_format::general, 3)
                     : std::to_chars(text, text + sizeof text, us, std::chars_format::fixed, 0);
  return std::string(text, r.ptr) + " us";
}

class Builder {
 public:
  Builder(const Graph& g, const ShapeTable& shapes, const CostTable& table,
          const QuantizeOptions& options)
      : g_(g),
        shapes_(shapes),
        table_(table),
        options_(options),
        per_token_(rounds_per_token(g, options.activations)),
        producers_(g.producers()) {}

  std::map<std::string, std::string> run() {
    for (NodeId n = 0; n < g_.node_count(); ++n)
      if (!g_.node(n).dead && is_quantizable_layer(g_, g_.node(n))) add_layer(n);
    for (NodeId n = 0; n < g_.node_count(); ++n)
      if (!g_.node(n).dead) add_other_reader(n);
    for (ValueId v : g_.outputs)
      if (const auto t = tensors_.find(origin(v)); t != tensors_.end())
        model_.tensors[t->second].needs_f32 = true;
    model_.minimize();
    std::map<std::string, std::string> why;
    for (std::size_t l = 0; l < nodes_.size(); ++l)
      if (!model_.layers[l].fixed && !model_.layers[l].int8)
        why[g_.value(g_.node(nodes_[l]).outputs[0]).name] = reason(model_.compare(l));
    return why;
  }

 private:
  void add_layer(NodeId id) {
    const Node& n = g_.node(id);
    const auto key = cost_key(g_, n, shapes_);
    const auto cost = key ? table_.estimate(*key) : std::nullopt;
    SpeedModel::Layer layer;
    layer.cost = cost.value_or(Cost{});
    layer.per_row = per_token_ && std::holds_alternative<Linear>(n.op);
    layer.int8 = kept_float_by(options_, g_, n) == nullptr;
    layer.fixed = !cost || !layer.int8;
    layer.input = tensor(origin(n.inputs[0]));
    layer.output = tensor(n.outputs[0]);
    model_.tensors[layer.input].readers.push_back(nodes_.size());
    model_.tensors[layer.output].writer = nodes_.size();
    model_.layers.push_back(layer);
    nodes_.push_back(id);
  }

  // Operators that may read u8 too lose by f32; what others read must be f32.
  void add_other_reader(NodeId id) {
    const Node& n = g_.node(id);
    if (is_view(n.op)) return;  // costs nothing
    const bool any = passes_on(id);
    const auto u8 =
        options_.streams == Streams::f32 ? std::vector<std::size_t>{} : u8_operands(g_, n);
    for (std::size_t i = is_quantizable_layer(g_, n) ? 1 : 0; i < n.inputs.size(); ++i) {
      if (n.inputs[i] == graph::kNoValue) continue;
      const auto it = tensors_.find(origin(n.inputs[i]));
      if (it == tensors_.end()) continue;
      SpeedModel::Tensor& t = model_.tensors[it->second];
      if (any || std::find(u8.begin(), u8.end(), i) != u8.end())
        t.wider_us += t.rounding_us;
      else
        t.needs_f32 = true;
    }
  }

  std::size_t tensor(ValueId v) {
    const auto [it, fresh] = tensors_.emplace(v, model_.tensors.size());
    if (!fresh) return it->second;
    SpeedModel::Tensor t;
    if (const Shape* shape = shape_of(g_, v, shapes_); shape != nullptr && shape->rank() > 0) {
      const std::int64_t count = shape->count(), row = shape->back().value();
      t.rounding_us = table_.estimate({CostKind::quantize, count}).value_or(Cost{}).int8_us;
      t.rows_us =
          table_.estimate({CostKind::quantize_rows, count / row, row}).value_or(Cost{}).int8_us;
    }
    model_.tensors.push_back(t);
    return it->second;
  }

  // Where rounding of v would happen: fuse_quantize moves it through what moves or averages values,
  // and through what adds a number behind a layer.
  ValueId origin(ValueId v) const {
    for (NodeId p = producer(v); p != graph::kNoNode && passes_on(p); p = producer(v))
      v = g_.node(p).inputs[0];
    return v;
  }
  bool passes_on(NodeId id) const {
    const graph::Op& op = g_.node(id).op;
    return only_moves_values(g_.node(id)) || std::holds_alternative<graph::Pool>(op) ||
           (std::holds_alternative<graph::Affine>(op) &&
            shift_behind_layer(g_, id, [this](ValueId v) { return producer(v); }) != 0);
  }
  NodeId producer(ValueId v) const { return producers_[static_cast<std::size_t>(v)]; }

  std::string reason(const SpeedModel::Comparison& c) const {
    return "INT8 would be slower on " + table_.target() + ": about " + microseconds(c.other) +
           " against " + microseconds(c.now);
  }

  const Graph& g_;
  const ShapeTable& shapes_;
  const CostTable& table_;
  const QuantizeOptions& options_;
  const bool per_token_;
  const std::vector<NodeId> producers_;
  SpeedModel model_;
  std::vector<NodeId> nodes_;  // of the model's layers
  std::map<ValueId, std::size_t> tensors_;
};

}  // namespace

std::optional<CostKey> cost_key(const Graph& g, const Node& n, const ShapeTable& shapes) {
  const auto* conv = std::get_if<Conv>(&n.op);
  if (conv == nullptr && !std::holds_alternative<Linear>(n.op)) return std::nullopt;
  const Shape &w = g.type(n.inputs[1]).shape, *x = shape_of(g, n.inputs[0], shapes),
              *y = shape_of(g, n.outputs[0], shapes);
  if (x == nullptr || y == nullptr || w.rank() < 2 || w.count() == 0) return std::nullopt;
  if (conv != nullptr) return conv_key(*conv, w, *x, *y);
  const std::int64_t features = w.extent(w.rank() - 2);
  return CostKey{CostKind::linear, y->count() / features, features, w.extent(w.rank() - 1)};
}

std::map<std::string, std::string> slower_in_int8(const Graph& g, const ShapeTable& shapes,
                                                  const CostTable& table,
                                                  const QuantizeOptions& options) {
  return Builder(g, shapes, table, options).run();
}

}  // namespace fold8::fusion
