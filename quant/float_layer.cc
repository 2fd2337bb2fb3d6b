#include "quant/float_layer.h"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>

#include "quant/plain_f32.h"

namespace fold8::quant {
namespace {

using graph::Graph;
using graph::kNoNode;
using graph::kNoValue;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

std::unordered_map<std::string, ValueId> computed_values(const Graph& g) {
  std::unordered_map<std::string, ValueId> names;
  for (ValueId v = 0; v < g.value_count(); ++v)
    if (!g.is_constant(v)) names.emplace(g.value(v).name, v);
  return names;
}

bool has_codes(const TensorType& t) { return t.quant && is_quantizable(t.dtype); }
bool per_token(const TensorType& t) {
  return t.quant && t.quant->granularity() == Granularity::per_token;
}

bool rotates(const graph::Op& op) {
  const auto* q = std::get_if<graph::DynamicQuantize>(&op);
  return q != nullptr && q->rotated;
}

class Cutter {
 public:
  Cutter(const Graph& reference, const Graph& other, bool unrounded)
      : ref_(reference),
        other_(other),
        ref_producers_(reference.producers()),
        other_producers_(other.producers()),
        other_readers_(other.consumers()),
        ref_names_(computed_values(reference)),
        other_names_(computed_values(other)),
        unrounded_(unrounded) {}

  Status node(NodeId id) {
    const Node& n = other_.node(id);
    for (ValueId v : n.outputs)
      if (v != kNoValue) own_.push_back(v);
    for (ValueId v : own_) {
      const auto original = ref_names_.find(other_.value(v).name);
      if (original == ref_names_.end() || ref_.type(original->second).dtype != DType::f32) {
        if (v == own_[0]) return invalid_model("the reference has no such tensor");
        continue;
      }
      FOLD8_TRY(const ValueId y, computed(original->second));
      to.outputs.push_back(y);
      writes.push_back(v);
    }
    return ok_status();
  }

  Graph to;
  std::vector<ValueId> reads, writes;

 private:
  TensorType plain(const Graph& g, ValueId v) const {
    TensorType t = g.type(v);
    if (t.layout == Layout::channels_last) t.layout = Layout::plain;
    for (int i = 0; i < t.shape.rank(); ++i)
      if (!t.shape[i].known()) t.shape[i] = Dim::unknown();
    return t;
  }
  TensorType as_float(TensorType t) const {
    t.dtype = DType::f32;
    t.quant.reset();
    return t;
  }
  ValueId add(const std::string& name, TensorType type) {
    return to.add_value(to.fresh_name(name), std::move(type));
  }
  ValueId constant(const Graph& g, ValueId v) {
    const graph::Value& value = g.value(v);
    return to.add_constant(to.fresh_name(value.name), value.type, value.constant);
  }
  static NodeId producer(const std::vector<NodeId>& producers, ValueId v) {
    return producers[static_cast<std::size_t>(v)];
  }

  // ---- in the reference: original numbers

  Result<ValueId> original(ValueId v) {
    if (const auto it = originals_.find(v); it != originals_.end()) return it->second;
    if (ref_.is_constant(v)) return originals_[v] = constant(ref_, v);
    const auto shared = other_names_.find(ref_.value(v).name);
    if (shared != other_names_.end() && !is_own(shared->second)) {
      FOLD8_TRY(const ValueId x, of_other(v, shared->second));
      return originals_[v] = x;
    }
    return computed(v);
  }

  bool is_own(ValueId v) const { return std::find(own_.begin(), own_.end(), v) != own_.end(); }

  // By the reference's operator, from its operands.
  Result<ValueId> computed(ValueId v) {
    if (const auto it = originals_.find(v); it != originals_.end()) return it->second;
    const NodeId p = producer(ref_producers_, v);
    if (p == kNoNode)
      return invalid_model("the model has no tensor '" + ref_.value(v).name + "' to read");
    const Node& n = ref_.node(p);
    std::vector<ValueId> inputs, outputs;
    for (ValueId x : n.inputs) {
      ValueId y = kNoValue;
      if (x != kNoValue) {
        FOLD8_TRY(y, original(x));
      }
      inputs.push_back(y);
    }
    for (ValueId y : n.outputs) {
      outputs.push_back(y == kNoValue ? kNoValue : add(ref_.value(y).name, plain(ref_, y)));
      if (y != kNoValue) originals_.emplace(y, outputs.back());
    }
    to.add_node(n.op, n.name, std::move(inputs), std::move(outputs));
    return originals_.at(v);
  }

  // The tensor of that name in the other model; its factor is undone.
  Result<ValueId> of_other(ValueId ref, ValueId v) {
    if (ref_.type(ref).dtype != DType::f32) return input(v);
    FOLD8_TRY(const ValueId x, reals(v));
    const graph::Value& value = other_.value(v);
    if (value.rescale.empty()) return x;
    Shape along;
    for (int i = 0; i < value.type.shape.rank(); ++i)
      along.push_back(
          Dim(i == value.rescale_axis ? static_cast<std::int64_t>(value.rescale.size()) : 1));
    const ValueId factor =
        to.add_constant<float>(to.fresh_name(value.name + " (factor)"), along, value.rescale);
    const ValueId y = add(value.name + " (original)", to.type(x));
    to.add_node(graph::Binary{graph::BinaryKind::mul}, value.name, {x, factor}, {y});
    return y;
  }

  // ---- in the other model: numbers as it has them

  Result<ValueId> input(ValueId v) {
    if (const auto it = inputs_.find(v); it != inputs_.end()) return it->second;
    if (other_.is_constant(v)) return inputs_[v] = constant(other_, v);
    const ValueId in = add(other_.value(v).name, plain(other_, v));
    to.inputs.push_back(in);
    reads.push_back(v);
    return inputs_[v] = in;
  }

  Result<ValueId> reals(ValueId v) {
    if (const auto it = reals_.find(v); it != reals_.end()) return it->second;
    FOLD8_TRY(const ValueId x, find_reals(v));
    return reals_[v] = x;
  }

  Result<ValueId> find_reals(ValueId v) {
    const NodeId p = producer(other_producers_, v);
    const Node* n = p == kNoNode ? nullptr : &other_.node(p);
    const TensorType& t = other_.type(v);
    const bool dequantizes = n != nullptr && std::holds_alternative<graph::Dequantize>(n->op) &&
                             n->inputs.size() == 1 && has_codes(other_.type(n->inputs[0])) &&
                             !other_.is_constant(n->inputs[0]);
    if (t.dtype == DType::f32 && !(dequantizes && unrounded_)) return input(v);
    if (dequantizes) return reals(n->inputs[0]);
    if (!has_codes(t)) return invalid_model("'" + other_.value(v).name + "' is no float tensor");
    if (!unrounded_ || n == nullptr || std::holds_alternative<graph::Lookup>(n->op))
      return dequantized(v);
    if (std::holds_alternative<graph::Quantize>(n->op) ||
        std::holds_alternative<graph::Relayout>(n->op) ||
        std::holds_alternative<graph::DynamicQuantize>(n->op))
      return n->inputs.size() == 1 && !rotates(n->op) ? reals(n->inputs[0]) : dequantized(v);
    return before_rounding(*n, v);
  }

  Result<ValueId> dequantized(ValueId v) {
    if (per_token(other_.type(v)))
      return invalid_model("'" + other_.value(v).name + "' has scales of rows");
    FOLD8_TRY(const ValueId q, input(v));
    const ValueId x = add(other_.value(v).name + " (real)", as_float(plain(other_, v)));
    to.add_node(graph::Dequantize{}, other_.value(v).name, {q}, {x});
    return x;
  }

  // The operator once more with f32 results. Matrix layers and norms read what they read in the
  // model. What only moves or joins values would not be rounded itself if only a float layer read
  // it; else it joins codes.
  Result<ValueId> before_rounding(const Node& from, ValueId wanted) {
    Node n = from;
    const bool multiplies =
        std::holds_alternative<graph::Linear>(n.op) || std::holds_alternative<graph::Conv>(n.op) ||
        std::holds_alternative<graph::Norm>(n.op) || std::holds_alternative<graph::Attention>(n.op);
    const bool shared = other_readers_[static_cast<std::size_t>(wanted)].size() > 1;
    if (shared && !multiplies && !std::holds_alternative<graph::Binary>(n.op) &&
        !std::holds_alternative<graph::Unary>(n.op))
      return dequantized(wanted);
    const bool as_stored = multiplies || shared;
    double shift = 0;
    if (auto* conv = std::get_if<graph::Conv>(&n.op); conv != nullptr && conv->shift != 0) {
      shift = static_cast<double>(conv->shift) * other_.type(wanted).quant->scale();
      conv->shift = 0;
    }
    if (per_token(other_.type(wanted)) && n.outputs.size() > 2) n.outputs[2] = kNoValue;
    while (n.outputs.back() == kNoValue) n.outputs.pop_back();
    for (ValueId& x : n.inputs) {
      if (x == kNoValue) continue;
      if (!as_stored && has_codes(other_.type(x)) && !other_.is_constant(x)) {
        FOLD8_TRY(x, reals(x));
      } else {
        FOLD8_TRY(x, stored_operand(x));
      }
    }
    for (ValueId& y : n.outputs) {
      if (y == kNoValue) continue;
      const TensorType t = plain(other_, y);
      const ValueId copy = add(other_.value(y).name + " (real)", has_codes(t) ? as_float(t) : t);
      if (y == wanted) wanted = copy;
      y = copy;
    }
    to.add_node(n.op, n.name, n.inputs, n.outputs);
    return shift == 0 ? wanted : plus(wanted, shift);
  }

  // INT32 sums come from their layer: they are no tensor of the model's own.
  Result<ValueId> stored_operand(ValueId v) {
    if (const auto it = inputs_.find(v); it != inputs_.end()) return it->second;
    const NodeId p = producer(other_producers_, v);
    if (other_.type(v).dtype != DType::s32 || p == kNoNode ||
        !std::holds_alternative<graph::Linear>(other_.node(p).op))
      return input(v);
    const Node& n = other_.node(p);
    std::vector<ValueId> inputs;
    for (ValueId x : n.inputs) {
      ValueId y = kNoValue;
      if (x != kNoValue) {
        FOLD8_TRY(y, input(x));
      }
      inputs.push_back(y);
    }
    const ValueId sums = add(other_.value(v).name, plain(other_, v));
    to.add_node(n.op, n.name, std::move(inputs), {sums});
    return inputs_[v] = sums;
  }

  ValueId plus(ValueId x, double number) {
    const ValueId c = to.add_constant<float>(to.fresh_name("shift"), Shape{1},
                                             std::vector<float>{static_cast<float>(number)});
    const ValueId y = add("shifted", to.type(x));
    to.add_node(graph::Binary{graph::BinaryKind::add}, "shifted", {x, c}, {y});
    return y;
  }

  const Graph &ref_, &other_;
  const std::vector<NodeId> ref_producers_, other_producers_;
  const std::vector<std::vector<NodeId>> other_readers_;
  const std::unordered_map<std::string, ValueId> ref_names_, other_names_;
  const bool unrounded_;
  std::vector<ValueId> own_;                   // what the node writes
  std::map<ValueId, ValueId> originals_;       // of the reference -> of the piece
  std::map<ValueId, ValueId> inputs_, reals_;  // of the other model -> of the piece
};

}  // namespace

Result<FloatLayer> FloatLayer::cut(const Graph& reference, const Graph& other, NodeId node,
                                   const Options& options) {
  Cutter cutter(reference, other, options.unrounded);
  FOLD8_CHECK_OK(cutter.node(node));
  FloatLayer layer;
  layer.reads_ = std::move(cutter.reads);
  layer.writes_ = std::move(cutter.writes);
  FOLD8_TRY(auto model, exec::Model::from_graph(std::move(cutter.to)));
  exec::SessionOptions session;
  session.threads = options.threads;
  session.plan_cache = 2;
  FOLD8_TRY(layer.session_, exec::Session::create(std::move(model), session));
  return layer;
}

Result<std::vector<std::vector<float>>> FloatLayer::run(const std::vector<TensorView>& inputs) {
  FOLD8_CHECK_OK(session_->run(inputs));
  std::vector<std::vector<float>> results;
  for (const TensorView& t : session_->outputs()) {
    auto values = plain_f32(t, {});
    if (!values) return invalid_model("its result stands for no real numbers");
    results.push_back(std::move(*values));
  }
  return results;
}

}  // namespace fold8::quant
