// Operators all of whose inputs are constants are evaluated, by the runtime itself; so are the
// shapes that are known.
//   op(constants)                      =>  constant
//   shape_of(x), size_of(x)            =>  constant, if x's extents are known
//   gather(shape_of(x), i), slice(...) =>  constant, if those extents are
// Quantized constants stay as they are: a Dequantize evaluated here would lose the file's own
// rounding.
#include <algorithm>

#include "fusion/passes/passes.h"
#include "fusion/rewrite/constants.h"
#include "fusion/rewrite/index.h"
#include "runtime/exec/model.h"
#include "runtime/exec/session.h"

namespace fold8::fusion {

using graph::Graph;
using graph::kNoValue;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

namespace {

// A constant may be this much larger than what it was computed from: enough for casts and masks,
// too little for an Expand or a ConstantOfShape to fill the memory.
constexpr std::size_t kLargestGrowth = 8;
constexpr std::size_t kAlwaysAllowed = std::size_t{1} << 20;
constexpr std::int64_t kMostShapeElements = 64;

bool stays(const graph::Op& op) {
  return std::holds_alternative<graph::Quantize>(op) ||
         std::holds_alternative<graph::Dequantize>(op) ||
         std::holds_alternative<graph::DynamicQuantize>(op) ||
         std::holds_alternative<graph::Lookup>(op) || std::holds_alternative<graph::Relayout>(op) ||
         std::holds_alternative<graph::If>(op) || std::holds_alternative<graph::Loop>(op) ||
         std::holds_alternative<graph::Scan>(op);
}

bool all_constant(const Graph& g, const Node& node) {
  if (node.inputs.empty()) return false;
  bool any = false;
  for (const ValueId v : node.inputs) {
    if (v == kNoValue) continue;
    any = true;
    if (!g.is_constant(v) || g.type(v).quant || g.type(v).layout != Layout::plain) return false;
  }
  for (const ValueId v : node.outputs)
    if (v != kNoValue && g.type(v).quant) return false;
  return any;
}

// The node alone, its operands as constants.
Graph alone(const Graph& g, const Node& node) {
  Graph one;
  std::vector<ValueId> inputs, outputs, seen;
  std::vector<ValueId> here;
  for (const ValueId v : node.inputs) {
    if (v == kNoValue) {
      inputs.push_back(kNoValue);
      continue;
    }
    const auto at = std::find(seen.begin(), seen.end(), v);
    if (at == seen.end()) {
      seen.push_back(v);
      here.push_back(one.add_constant(g.value(v).name, g.type(v), g.value(v).constant));
      inputs.push_back(here.back());
    } else {
      inputs.push_back(here[static_cast<std::size_t>(at - seen.begin())]);
    }
  }
  for (const ValueId v : node.outputs) {
    outputs.push_back(v == kNoValue ? kNoValue : one.add_untyped_value(g.value(v).name));
    if (v != kNoValue) one.outputs.push_back(outputs.back());
  }
  one.add_node(node.op, node.name, inputs, outputs);
  return one;
}

bool small_enough(const Graph& g) {
  std::size_t in = 0, out = 0;
  for (ValueId v = 0; v < g.value_count(); ++v)
    if (g.is_constant(v)) in += g.value(v).constant->size();
  for (const ValueId v : g.outputs) {
    const auto elements = g.type(v).shape.elements();
    std::size_t bytes = 0;
    if (!elements ||
        __builtin_mul_overflow(static_cast<std::size_t>(*elements), size_of(g.type(v).dtype),
                               &bytes) ||
        __builtin_add_overflow(out, bytes, &out))
      return false;
  }
  return out <= std::max(kAlwaysAllowed, kLargestGrowth * in);
}

// The values of the node's outputs, in order; empty: it cannot be evaluated here.
Result<std::vector<Tensor>> evaluate(const Graph& g, const Node& node) {
  Graph one = alone(g, node);
  FOLD8_CHECK_OK(exec::infer_types(one));
  if (!small_enough(one)) return std::vector<Tensor>{};
  FOLD8_TRY(const auto model, exec::Model::from_graph(std::move(one)));
  FOLD8_TRY(const auto session, exec::Session::create(model));
  FOLD8_CHECK_OK(session->run({}));
  std::vector<Tensor> results;
  for (const TensorView& view : session->outputs()) {
    Tensor copy(view.dtype, view.shape);
    if (view.bytes() > 0)
      std::copy_n(static_cast<const std::byte*>(view.data), view.bytes(),
                  static_cast<std::byte*>(copy.view().data));
    results.push_back(std::move(copy));
  }
  return results;
}

void make_constant(Graph& g, ValueId v, const Tensor& tensor) {
  graph::Value& value = g.value(v);
  value.type = TensorType{tensor.dtype(), tensor.shape(), {}, Layout::plain};
  value.has_type = true;
  value.constant = tensor.buffer();
}

void make_integers(Graph& g, ValueId v, const Shape& shape, const std::vector<std::int64_t>& ints) {
  Tensor tensor(DType::s64, shape);
  std::copy(ints.begin(), ints.end(), tensor.as<std::int64_t>().begin());
  make_constant(g, v, tensor);
}

// The extents a ShapeOf returns, known or not; nullopt if x has no type.
std::optional<std::vector<Dim>> extents(const Graph& g, const Node& node) {
  const auto* op = std::get_if<graph::ShapeOf>(&node.op);
  if (op == nullptr || !g.value(node.inputs[0]).has_type) return std::nullopt;
  const Shape& x = g.type(node.inputs[0]).shape;
  const auto bound = [&](std::int64_t i) {
    return std::clamp<std::int64_t>(i < 0 ? i + x.rank() : i, 0, x.rank());
  };
  std::vector<Dim> dims;
  for (std::int64_t i = bound(op->start); i < bound(op->end); ++i)
    dims.push_back(x[static_cast<int>(i)]);
  return dims;
}

bool make_shape(Graph& g, ValueId v, const Shape& shape, const std::vector<Dim>& dims) {
  std::vector<std::int64_t> ints;
  for (const Dim d : dims) {
    if (!d.known()) return false;
    ints.push_back(d.value());
  }
  make_integers(g, v, shape, ints);
  return true;
}

// gather and slice over a ShapeOf, where the extents they want are known although others are not.
bool part_of_shape(Graph& g, const Node& node, const std::vector<Dim>& dims) {
  const auto rank = static_cast<std::int64_t>(dims.size());
  std::vector<Dim> wanted;
  if (std::holds_alternative<graph::Gather>(node.op)) {
    const auto indices = integers(g, node.inputs[1]);
    if (!indices || static_cast<std::int64_t>(indices->size()) > kMostShapeElements) return false;
    for (const std::int64_t i : *indices) {
      const auto at = normalize_axis(i, static_cast<int>(rank));
      if (!at) return false;
      wanted.push_back(dims[static_cast<std::size_t>(*at)]);
    }
    return make_shape(g, node.outputs[0], g.type(node.inputs[1]).shape, wanted);
  }
  if (!std::holds_alternative<graph::Slice>(node.op)) return false;
  const auto start = integers(g, node.inputs[1]), end = integers(g, node.inputs[2]);
  if (!start || !end || start->size() != 1 || end->size() != 1) return false;
  if (node.inputs.size() > 4 && node.inputs[4] != kNoValue) {
    const auto step = integers(g, node.inputs[4]);
    if (!step || step->size() != 1 || step->front() != 1) return false;
  }
  const auto bound = [rank](std::int64_t i) {
    return std::clamp<std::int64_t>(i < 0 ? i + rank : i, 0, rank);
  };
  for (std::int64_t i = bound(start->front()); i < bound(end->front()); ++i)
    wanted.push_back(dims[static_cast<std::size_t>(i)]);
  return make_shape(g, node.outputs[0], Shape({Dim(static_cast<std::int64_t>(wanted.size()))}),
                    wanted);
}

bool known_shape(Graph& g, const Node& node, const std::vector<NodeId>& producers) {
  if (const auto dims = extents(g, node))
    return make_shape(g, node.outputs[0], Shape({Dim(static_cast<std::int64_t>(dims->size()))}),
                      *dims);
  if (std::holds_alternative<graph::SizeOf>(node.op) && g.value(node.inputs[0]).has_type) {
    const auto elements = g.type(node.inputs[0]).shape.elements();
    if (!elements) return false;
    make_integers(g, node.outputs[0], Shape(), {*elements});
    return true;
  }
  if (node.inputs.empty() || node.inputs[0] == kNoValue) return false;
  const NodeId maker = producers[static_cast<std::size_t>(node.inputs[0])];
  if (maker == graph::kNoNode) return false;
  const auto dims = extents(g, g.node(maker));
  return dims && part_of_shape(g, node, *dims);
}

// Evaluates a node into its outputs; a reason if that is not possible.
Result<std::string> replace_by_values(Graph& g, const Node& node) {
  Result<std::vector<Tensor>> values = evaluate(g, node);
  if (!values.ok()) return "it cannot be evaluated: " + values.error().message;
  if (values->empty()) return std::string("its result would be much larger than its inputs");
  std::size_t next = 0;
  for (const ValueId v : node.outputs)
    if (v != kNoValue) make_constant(g, v, (*values)[next++]);
  return std::string();
}

Result<Tally> fold_where(Graph& g, std::string_view pass, bool shapes,
                         bool (*wanted)(const Graph&, const Node&)) {
  Tally tally;
  FOLD8_TRY(const std::vector<NodeId> order, g.topological_order());
  const std::vector<NodeId> producers = g.producers();
  for (const NodeId n : order) {
    const Node node = g.node(n);
    if (!shapes || !known_shape(g, node, producers)) {
      if (!wanted(g, node)) continue;
      FOLD8_TRY(std::string why, replace_by_values(g, node));
      if (!why.empty()) {
        tally.declined.push_back({std::string(pass), node.name, std::move(why)});
        continue;
      }
    }
    g.erase(n);
    ++tally.applied;
  }
  return tally;
}

bool foldable(const Graph& g, const Node& node) { return !stays(node.op) && all_constant(g, node); }

bool stored_weight(const Graph& g, const Node& node) {
  if (!std::holds_alternative<graph::Dequantize>(node.op)) return false;
  return std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId v) { return v == kNoValue || g.is_constant(v); });
}

// No kernel reads a bias as integers, so it may become f32 before layers are lowered.
bool stored_bias(const Graph& g, const Node& node) {
  return stored_weight(g, node) && g.type(node.inputs[0]).dtype == DType::s32;
}

Result<Tally> run(Graph& g, const Context&) {
  return fold_where(g, "fold_constants", true, foldable);
}
Result<Tally> run_dequantize(Graph& g, const Context&) {
  return fold_where(g, "dequantize_constants", false, stored_weight);
}
Result<Tally> run_biases(Graph& g, const Context&) {
  return fold_where(g, "dequantize_biases", false, stored_bias);
}

}  // namespace

const GraphPass fold_constants{"fold_constants", run};
const GraphPass dequantize_constants{"dequantize_constants", run_dequantize};
const GraphPass dequantize_biases{"dequantize_biases", run_biases};

}  // namespace fold8::fusion
