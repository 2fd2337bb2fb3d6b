#include "fusion/passes/quantize.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "fusion/passes/float_pairs.h"
#include "fusion/passes/glob.h"
#include "fusion/passes/quantize_tables.h"
#include "fusion/passes/shifted_codes.h"
#include "fusion/passes/u8_streams.h"
#include "fusion/rewrite/constants.h"
#include "fusion/weight_cache.h"
#include "quant/data_warnings.h"
#include "quant/rotate.h"

namespace fold8::fusion {
namespace {

using graph::Conv;
using graph::Graph;
using graph::kNoValue;
using graph::Linear;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

bool has_token_norm(const Graph& g) {
  for (NodeId n = 0; n < g.node_count(); ++n)
    if (!g.node(n).dead)
      if (const auto* norm = std::get_if<graph::Norm>(&g.node(n).op))
        if (norm->kind == graph::NormKind::layer || norm->kind == graph::NormKind::rms) return true;
  return false;
}

class Quantizer {
 public:
  Quantizer(Graph& g, const QuantizeOptions& options)
      : g_(g),
        options_(options),
        per_token_(rounds_per_token(g, options.activations)),
        producers_(g.producers()) {}

  Result<QuantizeOutcome> run() {
    FOLD8_TRY(const std::vector<NodeId> order, g_.topological_order());
    for (NodeId n : order) FOLD8_CHECK_OK(layer(n));
    if (options_.streams != Streams::f32) carry_streams(order);
    FOLD8_TRY(outcome_.tables, quantize_tables(g_, options_, matched_));
    for (const std::string& glob : options_.keep_float)
      if (matched_.count(glob) == 0)
        outcome_.warnings.push_back(unmatched_glob(glob) +
                                    "; `fold8 inspect --why` lists the names");
    return std::move(outcome_);
  }

 private:
  // Why this layer must stay float; nullopt if it may become INT8.
  std::optional<std::string> reason_to_stay_float(const Node& n) {
    if (const std::string* glob = kept_float_by(options_, g_, n)) {
      matched_.insert(*glob);
      return "kept float by '" + *glob + "'";
    }
    if (const auto kept = options_.also_float.find(g_.value(n.outputs[0]).name);
        kept != options_.also_float.end())
      return kept->second;
    if (!g_.is_constant(n.inputs[1])) return "its weights are computed, not constant";
    const TensorType& w = g_.type(n.inputs[1]);
    if (w.dtype != DType::f32) return "its weights are " + std::string(fold8::name(w.dtype));
    if (w.shape.count() == 0) return "it has no weights";
    if (g_.is_constant(n.inputs[0])) return "its input is constant";
    return std::nullopt;
  }

  // Rounded per token on the way, so no samples are needed.
  void attention(NodeId id, graph::Attention& op) {
    if (const std::string* glob = kept_float_by(options_, g_, g_.node(id))) {
      matched_.insert(*glob);
      return;
    }
    if (options_.attention == AttentionProducts::f32 ||
        options_.activations == Activations::float_ ||
        options_.also_float.count(g_.value(g_.node(id).outputs[0]).name) != 0)
      return;
    op.int8 = true;
    ++outcome_.int8_attentions;
  }

  Status layer(NodeId id) {
    if (auto* op = std::get_if<graph::Attention>(&g_.node(id).op)) attention(id, *op);
    const Node& n = g_.node(id);
    const bool conv = std::holds_alternative<Conv>(n.op);
    if (!conv && !std::holds_alternative<Linear>(n.op)) return ok_status();
    const TensorType& w = g_.type(n.inputs[1]);
    if (w.quant && is_quantizable(w.dtype) && g_.type(n.inputs[0]).quant) {  // imported as INT8
      outcome_.quantized.push_back(n.name);
      return ok_status();
    }
    if (auto why = reason_to_stay_float(n)) return keep_float(n, std::move(*why));
    if (options_.activations == Activations::float_) return weight_only(id, conv);
    const bool rotated = rotates(n);
    const bool dynamic = rotated || (per_token_ && !conv &&
                                     options_.static_inputs.count(g_.value(n.inputs[0]).name) == 0);
    if (!dynamic) {
      const auto* seen =
          options_.calibration ? options_.calibration->find(g_.value(n.inputs[0]).name) : nullptr;
      if (options_.calibration == nullptr)
        return keep_float(n, conv ? "a convolution's input needs a range: give calibration data"
                                  : "its input needs a range: give calibration data");
      if (seen == nullptr)
        return internal_error("tensor '" + g_.value(n.inputs[0]).name + "' was not observed");
    }
    FOLD8_CHECK_OK(quantize_weights(id, rotated));
    correct_bias(id);
    const ValueId x = g_.node(id).inputs[0];
    if (dynamic) {
      const auto [q, scale] = token_twin(x, rotated);
      Node& node = g_.node(id);
      node.inputs[0] = q;
      node.inputs.resize(5, kNoValue);
      node.inputs[4] = scale;
    } else {
      g_.node(id).inputs[0] = static_twin(x);
    }
    outcome_.quantized.push_back(g_.node(id).name);
    return ok_status();
  }

  bool rotates(const Node& n) const {
    return per_token_ && std::holds_alternative<Linear>(n.op) &&
           options_.rotated_inputs.count(g_.value(n.inputs[0]).name) != 0 &&
           g_.type(n.inputs[0]).shape.back() == g_.type(n.inputs[1]).shape.back() &&
           quant::can_rotate(static_cast<std::size_t>(g_.type(n.inputs[1]).shape.back().value()));
  }

  Status keep_float(const Node& n, std::string why) {
    outcome_.kept_float.push_back({n.name, graph::display_name(n.op), std::move(why)});
    return ok_status();
  }

  Status weight_only(NodeId id, bool conv) {
    if (conv) return keep_float(g_.node(id), "weight-only INT8 is for matrix layers");
    FOLD8_CHECK_OK(quantize_weights(id, false));
    outcome_.quantized.push_back(g_.node(id).name);
    return ok_status();
  }

  Status quantize_weights(NodeId id, bool rotated) {
    const Node& n = g_.node(id);
    const ValueId w = n.inputs[1];
    int axis = 0;
    std::int64_t groups = 1;
    if (const auto* conv = std::get_if<Conv>(&n.op)) {
      axis = conv->transposed ? 1 : 0;
      groups = conv->transposed ? conv->group : 1;
    } else {
      axis = g_.type(w).shape.rank() - 2;
    }
    const auto key = std::make_tuple(w, axis, groups, rotated);
    const auto known = weights_.find(key);
    if (known == weights_.end()) {
      auto made = codes_of(w, axis, groups, rotated);
      if (!made.ok())
        return in_context("weight '" + g_.value(w).name + "' of node '" + n.name + "'",
                          made.error());
      weights_[key] =
          g_.add_constant(g_.fresh_name(g_.value(w).name + "_s8"), made->type, made->data);
    }
    g_.node(id).inputs[1] = weights_[key];
    return ok_status();
  }

  void correct_bias(NodeId id) {
    const auto known = options_.bias_corrections.find(g_.value(g_.node(id).outputs[0]).name);
    if (known == options_.bias_corrections.end()) return;
    const Node& n = g_.node(id);
    const ValueId old = n.inputs.size() > 2 ? n.inputs[2] : kNoValue;
    const auto before = old == kNoValue ? std::optional(std::vector<double>(known->second.size()))
                                        : doubles(g_, old);
    if (!before || before->size() != known->second.size()) return;
    std::vector<double> bias = known->second;
    for (std::size_t c = 0; c < bias.size(); ++c) bias[c] += (*before)[c];
    if (!all_finite_as_float(bias)) return;
    const ValueId corrected = add_floats(g_, n.name + "_bias_corrected",
                                         Shape{static_cast<std::int64_t>(bias.size())}, bias);
    auto& inputs = g_.node(id).inputs;
    inputs.resize(std::max<std::size_t>(inputs.size(), 3), kNoValue);
    inputs[2] = corrected;
  }

  Result<WeightCache::Made> codes_of(ValueId w, int axis, std::int64_t groups, bool rotated) const {
    const Shape& shape = g_.type(w).shape;
    const std::string& name = g_.value(w).name;
    if (options_.rounded)
      if (const auto known = options_.rounded->find(rotated ? rotated_name(name) : name);
          known != options_.rounded->end())
        return s8_constant(known->second, shape);
    const bool in_groups = options_.weight_group > 0 && axis == 0 && shape.rank() == 2;
    if (rotated) return rotated_codes(w, axis, groups, in_groups);
    return cached_codes(options_.cache,
                        {g_.value(w).constant.get(), axis, groups, options_.weights,
                         in_groups ? options_.weight_group : 0, rotated},
                        g_.value(w));
  }

  Result<WeightCache::Made> rotated_codes(ValueId w, int axis, std::int64_t groups,
                                          bool in_groups) const {
    const Shape& shape = g_.type(w).shape;
    const std::vector<float> values = quant::rotated_weights(
        g_.constant<float>(w), static_cast<std::size_t>(shape.back().value()));
    FOLD8_TRY(const quant::QuantizedWeight q,
              in_groups ? quant::quantize_weight_groups(values, shape, options_.weight_group)
                        : quant::quantize_weight(values, shape, axis, options_.weights, groups));
    return s8_constant(q, shape);
  }

  // From the outputs up: whoever writes a tensor that is rounded to u8 anyway reads u8 too.
  void carry_streams(const std::vector<NodeId>& order) {
    for (std::size_t i = order.size(); i-- > 0;) {
      const Node& n = g_.node(order[i]);
      const bool layer = std::holds_alternative<Conv>(n.op) || std::holds_alternative<Linear>(n.op);
      const bool is_u8 =
          layer ? g_.type(n.inputs[0]).quant && g_.type(n.inputs[0]).quant->is_per_tensor()
                : !n.outputs.empty() && static_twins_.count(n.outputs[0]) != 0;
      // Between layers that round per token nothing is u8 for its own sake.
      if (!is_u8 || (per_token_ && std::holds_alternative<Linear>(n.op))) continue;
      const bool moves = only_moves_values(n), joins = only_joins(n);  // n moves as nodes are added
      for (const std::size_t o : u8_operands(g_, n)) {
        const ValueId x = g_.node(order[i]).inputs[o];
        if ((!observed(x) && !moves) || stays_float(x)) continue;
        if (joins && static_twins_.count(x) == 0) continue;
        if (moves) share_params(x, g_.node(order[i]).outputs[0]);
        const ValueId carried = layer ? static_twin(x) : dequantized(static_twin(x));
        g_.node(order[i]).inputs[o] = carried;
        ++outcome_.u8_streams;
      }
    }
  }

  bool stays_float(ValueId x) {
    for (const std::string& glob : options_.keep_float)
      if (glob_matches(glob, g_.value(x).name)) {
        matched_.insert(glob);
        return true;
      }
    return false;
  }

  // x moves into y: their codes are the same, unless a layer has rounded x for itself already.
  void share_params(ValueId x, ValueId y) {
    if (static_twins_.count(x) == 0)
      params_.insert_or_assign(x, *g_.type(static_twins_.at(y)).quant);
  }

  bool observed(ValueId x) const {
    return options_.calibration != nullptr &&
           options_.calibration->find(g_.value(x).name) != nullptr;
  }

  // The u8 tensor as f32 again, for operators that fuse_quantize lets read the integers.
  ValueId dequantized(ValueId q) {
    if (const auto it = dequantized_.find(q); it != dequantized_.end()) return it->second;
    const std::string name = g_.fresh_name(g_.value(q).name + "_f32");
    const ValueId x =
        g_.add_value(name, TensorType{DType::f32, g_.type(q).shape, {}, Layout::plain});
    g_.add_node(graph::Dequantize{}, name, {q}, {x});
    return dequantized_[q] = x;
  }

  // From x's range on the samples. What was only moved keeps the codes it had before.
  QuantParams static_params(ValueId x) {
    if (const auto it = params_.find(x); it != params_.end()) return it->second;
    const QuantParams params = choose_params(x);
    params_.emplace(x, params);
    return params;
  }

  QuantParams choose_params(ValueId x) {
    if (const ValueId before = moved_from(x); before != kNoValue) {
      const auto twin = static_twins_.find(before);
      return twin != static_twins_.end() ? *g_.type(twin->second).quant : static_params(before);
    }
    const quant::Observer& seen = *options_.calibration->find(g_.value(x).name);
    warn_about(x, seen);
    const QuantParams params = static_params_of(options_, seen);
    const auto producer = [this](ValueId v) { return producers_[static_cast<std::size_t>(v)]; };
    const NodeId maker = producer(x);
    return maker == graph::kNoNode
               ? params
               : params_for_shift(params, shift_behind_layer(g_, maker, producer));
  }

  // The operand that x is a rearrangement of, if its range is known.
  ValueId moved_from(ValueId x) const {
    const NodeId p = producers_[static_cast<std::size_t>(x)];
    if (p == graph::kNoNode || !only_moves_values(g_.node(p)) || data_operands(g_.node(p)) != 1 ||
        std::holds_alternative<graph::Slice>(g_.node(p).op))
      return kNoValue;
    const ValueId from = g_.node(p).inputs[0];
    return observed(from) || static_twins_.count(from) != 0 ? from : kNoValue;
  }

  // The u8 tensor that stands for x.
  ValueId static_twin(ValueId x) {
    if (const auto it = static_twins_.find(x); it != static_twins_.end()) return it->second;
    TensorType type{DType::u8, g_.type(x).shape, static_params(x), Layout::plain};
    const std::string name = g_.fresh_name(g_.value(x).name + "_u8");
    const ValueId q = g_.add_value(name, std::move(type));
    g_.add_node(graph::Quantize{}, name, {x}, {q});
    return static_twins_[x] = q;
  }

  std::pair<ValueId, ValueId> token_twin(ValueId x, bool rotated) {
    if (const auto it = token_twins_.find(x); it != token_twins_.end()) return it->second;
    const std::string name = g_.fresh_name(g_.value(x).name + "_u8");
    const ValueId q = g_.add_value(
        name, TensorType{DType::u8, g_.type(x).shape, QuantParams::per_token(), Layout::plain});
    Shape rows = g_.type(x).shape;
    rows[rows.rank() - 1] = Dim(1);
    const ValueId scale = g_.add_value(g_.fresh_name(name + "_scale"),
                                       TensorType{DType::f32, rows, {}, Layout::plain});
    graph::DynamicQuantize op;
    op.rotated = rotated;
    g_.add_node(op, name, {x}, {q, scale});
    if (rotated) outcome_.rotated.push_back(g_.value(x).name);
    return token_twins_[x] = {q, scale};
  }

  void warn_about(ValueId x, const quant::Observer& seen) {
    if (auto warning = quant::range_warning(g_.value(x).name, seen))
      outcome_.warnings.push_back(*std::move(warning));
  }

  Graph& g_;
  const QuantizeOptions& options_;
  const bool per_token_;
  const std::vector<NodeId> producers_;  // before anything was added
  QuantizeOutcome outcome_;
  std::set<std::string> matched_;  // globs that named a layer
  std::map<std::tuple<ValueId, int, std::int64_t, bool>, ValueId> weights_;
  std::map<ValueId, ValueId> static_twins_, dequantized_;
  std::map<ValueId, QuantParams> params_;
  std::map<ValueId, std::pair<ValueId, ValueId>> token_twins_;
};

}  // namespace

std::string rotated_name(const std::string& weight) { return weight + " rotated"; }

bool rounds_per_token(const Graph& g, Activations activations) {
  if (activations == Activations::dynamic) return true;
  return activations == Activations::automatic && has_token_norm(g);
}

QuantParams static_params_of(const QuantizeOptions& options, const quant::Observer& seen) {
  return quant::activation_params(quant::choose_range(seen, options.method, options.percentile));
}

const std::string* kept_float_by(const QuantizeOptions& options, const Graph& g, const Node& n) {
  for (const std::string& glob : options.keep_float)
    if (glob_matches(glob, n.name) || glob_matches(glob, g.value(n.outputs[0]).name)) return &glob;
  return nullptr;
}

bool is_quantizable_layer(const Graph& g, const Node& n) {
  return (std::holds_alternative<Conv>(n.op) || std::holds_alternative<Linear>(n.op)) &&
         g.is_constant(n.inputs[1]) && g.type(n.inputs[1]).dtype == DType::f32 &&
         g.type(n.inputs[0]).dtype == DType::f32 && !g.is_constant(n.inputs[0]);
}

std::set<std::string> values_to_observe(const Graph& g) {
  std::set<std::string> names;
  const std::vector<NodeId> producers = g.producers();
  for (NodeId n = 0; n < g.node_count(); ++n) {
    if (g.node(n).dead || !is_quantizable_layer(g, g.node(n))) continue;
    const ValueId x = g.node(n).inputs[0];
    names.insert(g.value(x).name);
    // A standardised input: bad data is reported under the name people know, the graph input's.
    const NodeId maker = producers[static_cast<std::size_t>(x)];
    if (maker == graph::kNoNode || !std::holds_alternative<graph::Affine>(g.node(maker).op))
      continue;
    const ValueId raw = g.node(maker).inputs[0];
    if (g.is_input(raw) && g.type(raw).dtype == DType::f32) names.insert(g.value(raw).name);
  }
  if (const auto order = g.topological_order(); order.ok())
    for (ValueId v :
         u8_streams(g, *order, [&](const Node& n) { return is_quantizable_layer(g, n); }))
      names.insert(g.value(v).name);
  return names;
}

std::set<std::string> values_at_the_edge(const Graph& g) {
  std::set<std::string> names;
  for (ValueId v : g.inputs)
    if (g.type(v).dtype == DType::f32) names.insert(g.value(v).name);
  for (ValueId v : g.outputs)
    if (g.type(v).dtype == DType::f32) names.insert(g.value(v).name);
  return names;
}

Result<QuantizeOutcome> quantize(Graph& g, const QuantizeOptions& options) {
  return Quantizer(g, options).run();
}

}  // namespace fold8::fusion
