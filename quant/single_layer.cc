#include "quant/single_layer.h"

#include <map>

#include "quant/plain_f32.h"

namespace fold8::quant {
namespace {

using graph::Graph;
using graph::kNoNode;
using graph::kNoValue;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

// Copies the piece of `from` that leads from the reference's tensors to one node, everything in
// plain layout.
class Cutter {
 public:
  Cutter(const Graph& from, const std::vector<NodeId>& producers,
         const std::function<bool(const std::string&)>& known)
      : from_(from), producers_(producers), known_(known) {}

  Status node(NodeId id, bool unrounded) {
    Node n = from_.node(id);
    const TensorType& type = from_.type(n.outputs[0]);
    double shift = 0;
    if (unrounded && is_quantizable(type.dtype) && type.quant) {
      unrounded_ = n.outputs[0];
      if (type.quant->granularity() == Granularity::per_token && n.outputs.size() > 2)
        n.outputs[2] = kNoValue;  // the scales
      while (n.outputs.back() == kNoValue) n.outputs.pop_back();
      if (auto* conv = std::get_if<graph::Conv>(&n.op); conv != nullptr && conv->shift != 0) {
        shift = static_cast<double>(conv->shift) * type.quant->scale();
        conv->shift = 0;
      }
    }
    FOLD8_TRY(const std::vector<ValueId> outputs, copy(n));
    to.outputs.push_back(shift == 0 ? outputs[0] : plus(outputs[0], shift));
    writes.push_back(n.outputs[0]);
    has_row_scales = unrounded_ == kNoValue && type.quant &&
                     type.quant->granularity() == Granularity::per_token && outputs.size() > 2;
    if (has_row_scales) to.outputs.push_back(outputs[2]);
    for (std::size_t o = 1; o < outputs.size(); ++o) {
      if (outputs[o] == kNoValue || from_.type(n.outputs[o]).dtype != DType::f32 ||
          !known_(from_.value(n.outputs[o]).name))
        continue;
      to.outputs.push_back(outputs[o]);
      writes.push_back(n.outputs[o]);
    }
    return ok_status();
  }

  Graph to;
  std::vector<std::string> reads;
  std::vector<ValueId> writes;
  bool has_row_scales = false;

 private:
  TensorType plain(ValueId v) const {
    TensorType t = from_.type(v);
    if (t.layout == Layout::channels_last) t.layout = Layout::plain;
    for (int i = 0; i < t.shape.rank(); ++i)
      if (!t.shape[i].known()) t.shape[i] = Dim::unknown();
    if (v == unrounded_) {
      t.dtype = DType::f32;
      t.quant.reset();
    }
    return t;
  }

  ValueId plus(ValueId x, double number) {
    const ValueId c = to.add_constant<float>(to.fresh_name("shift"), Shape{1},
                                             std::vector<float>{static_cast<float>(number)});
    const ValueId y = to.add_value(to.fresh_name("shifted"), to.type(x));
    to.add_node(graph::Binary{graph::BinaryKind::add}, "shifted", {x, c}, {y});
    return y;
  }

  ValueId result(ValueId v) {
    return copies_[v] = to.add_value(to.fresh_name(from_.value(v).name), plain(v));
  }

  // A float tensor of the reference becomes an input of the piece.
  ValueId reference_input(ValueId v) {
    const std::string& name = from_.value(v).name;
    if (const auto it = inputs_.find(name); it != inputs_.end()) return it->second;
    TensorType t = plain(v);
    t.dtype = DType::f32;
    t.quant.reset();
    const ValueId in = to.add_value(name + " (reference)", std::move(t));
    to.inputs.push_back(in);
    reads.push_back(name);
    return inputs_[name] = as_stored(from_.value(v), in);
  }

  // The model stores a rescaled value as original / rescale; the reference has the original.
  ValueId as_stored(const graph::Value& v, ValueId original) {
    if (v.rescale.empty()) return original;
    Shape along;
    for (int i = 0; i < v.type.shape.rank(); ++i)
      along.push_back(Dim(i == v.rescale_axis ? static_cast<std::int64_t>(v.rescale.size()) : 1));
    const ValueId factor =
        to.add_constant<float>(to.fresh_name(v.name + " (factor)"), along, v.rescale);
    TensorType type = to.type(original);
    const ValueId y = to.add_value(to.fresh_name(v.name + " (rescaled)"), std::move(type));
    to.add_node(graph::Binary{graph::BinaryKind::div}, v.name, {original, factor}, {y});
    return y;
  }

  Result<ValueId> operand(ValueId v) {
    if (const auto it = copies_.find(v); it != copies_.end()) return it->second;
    const graph::Value& value = from_.value(v);
    if (value.is_constant())
      return copies_[v] = to.add_constant(to.fresh_name(value.name), value.type, value.constant);
    if (known_(value.name)) return from_reference(v);
    const NodeId p = producers_[static_cast<std::size_t>(v)];
    if (p == kNoNode) return invalid_model("input '" + value.name + "' has no float counterpart");
    const Node& n = from_.node(p);
    const bool rounds = std::holds_alternative<graph::Quantize>(n.op) ||
                        std::holds_alternative<graph::Dequantize>(n.op) ||
                        std::holds_alternative<graph::DynamicQuantize>(n.op);
    // The standardisation of an input, which the float model folds into its first layer.
    // So are the INT32 sums that a norm reads in place of the layer's f32 result.
    const bool accumulators =
        from_.type(v).dtype == DType::s32 && std::holds_alternative<graph::Linear>(n.op);
    if (rounds || accumulators || std::holds_alternative<graph::Affine>(n.op)) return through(n, v);
    if (std::holds_alternative<graph::Relayout>(n.op)) {
      // Layouts mean nothing here; it may round on its way.
      FOLD8_TRY(const ValueId inner, operand(n.inputs[0]));
      if (from_.type(n.inputs[0]).dtype == from_.type(v).dtype) return copies_[v] = inner;
      const ValueId q = result(v);
      to.add_node(graph::Quantize{}, n.name, {inner}, {q});
      return q;
    }
    if (writes_beside(n, v)) return from_beside(n, v);
    // The scale of a per-token tensor its producer writes together with the codes.
    if (n.outputs.size() == 3 && n.outputs[2] == v && known_(from_.value(n.outputs[0]).name)) {
      FOLD8_TRY(const ValueId ignored, operand(n.outputs[0]));
      (void)ignored;
      return copies_[v];
    }
    return invalid_model("operand '" + value.name + "' has no float counterpart");
  }

  // A norm that writes codes beside its f32 result (outputs y, sum, scale, codes), known by that.
  bool writes_beside(const Node& n, ValueId v) const {
    return std::holds_alternative<graph::Norm>(n.op) && n.outputs.size() == 4 &&
           n.outputs[3] != kNoValue && (v == n.outputs[3] || v == n.outputs[2]) &&
           known_(from_.value(n.outputs[0]).name);
  }

  Result<ValueId> from_beside(const Node& n, ValueId wanted) {
    const ValueId x = reference_input(n.outputs[0]), q = result(n.outputs[3]);
    if (n.outputs[2] == kNoValue) {
      to.add_node(graph::Quantize{}, n.name, {x}, {q});
    } else {
      const ValueId scale = result(n.outputs[2]);
      to.add_node(graph::DynamicQuantize{}, n.name, {x}, {q, scale});
    }
    return copies_[wanted];
  }

  Result<ValueId> through(const Node& n, ValueId wanted) {
    FOLD8_TRY(const std::vector<ValueId> ignored, copy(n));
    (void)ignored;
    return copies_[wanted];
  }

  // The node over copies of its operands; returns the copies of its results.
  Result<std::vector<ValueId>> copy(const Node& n) {
    std::vector<ValueId> inputs, outputs;
    for (ValueId v : n.inputs) {
      if (v == kNoValue) {
        inputs.push_back(kNoValue);
        continue;
      }
      FOLD8_TRY(const ValueId input, operand(v));
      inputs.push_back(input);
    }
    for (ValueId v : n.outputs) outputs.push_back(v == kNoValue ? kNoValue : result(v));
    to.add_node(n.op, n.name, std::move(inputs), outputs);
    return outputs;
  }

  // The reference's tensor, rounded as the model stores it.
  Result<ValueId> from_reference(ValueId v) {
    const TensorType t = plain(v);
    const ValueId x = reference_input(v);
    if (t.dtype == DType::f32) return copies_[v] = x;
    if (!t.quant || !is_quantizable(t.dtype))
      return invalid_model("operand '" + from_.value(v).name + "' is no float tensor");
    if (t.quant->granularity() != Granularity::per_token) {
      const ValueId q = result(v);
      to.add_node(graph::Quantize{}, from_.value(v).name, {x}, {q});
      return q;
    }
    const Node& p = from_.node(producers_[static_cast<std::size_t>(v)]);
    if (p.outputs.size() < 3 || p.outputs[2] == kNoValue)
      return invalid_model("operand '" + from_.value(v).name + "' has no scales");
    const ValueId q = result(v), scale = result(p.outputs[2]);
    to.add_node(graph::DynamicQuantize{}, from_.value(v).name, {x}, {q, scale});
    return q;
  }

  const Graph& from_;
  const std::vector<NodeId>& producers_;
  const std::function<bool(const std::string&)>& known_;
  ValueId unrounded_ = kNoValue;  // this result is f32 in the copy
  std::map<ValueId, ValueId> copies_;
  std::map<std::string, ValueId> inputs_;
};

}  // namespace

Result<SingleLayer> SingleLayer::cut(const Graph& g, NodeId node,
                                     const std::vector<NodeId>& producers,
                                     const std::function<bool(const std::string&)>& known,
                                     const Options& options) {
  Cutter cutter(g, producers, known);
  FOLD8_CHECK_OK(cutter.node(node, options.unrounded));
  SingleLayer layer;
  layer.reads_ = std::move(cutter.reads);
  layer.writes_ = std::move(cutter.writes);
  layer.has_row_scales_ = cutter.has_row_scales;
  layer.output_type_ = g.type(g.node(node).outputs[0]);
  FOLD8_TRY(auto model, exec::Model::from_graph(std::move(cutter.to)));
  exec::SessionOptions session;
  session.threads = options.threads;
  session.plan_cache = 2;
  FOLD8_TRY(layer.session_, exec::Session::create(std::move(model), session));
  return layer;
}

Result<std::vector<float>> SingleLayer::run(const std::vector<TensorView>& inputs) {
  FOLD8_CHECK_OK(session_->run(inputs));
  const auto& outputs = session_->outputs();
  std::span<const float> row_scales;
  if (has_row_scales_) row_scales = outputs[1].as<const float>();
  auto values = plain_f32(outputs[0], output_type_, row_scales);
  if (!values) return invalid_model("its result stands for no real numbers");
  return std::move(*values);
}

Result<std::vector<std::vector<float>>> SingleLayer::run_all(
    const std::vector<TensorView>& inputs) {
  std::vector<std::vector<float>> results(1);
  FOLD8_TRY(results[0], run(inputs));
  const auto& outputs = session_->outputs();
  for (std::size_t o = has_row_scales_ ? 2 : 1; o < outputs.size(); ++o)
    results.push_back(*plain_f32(outputs[o], {}));
  return results;
}

}  // namespace fold8::quant
