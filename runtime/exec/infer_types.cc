// Symbolic types for a whole graph, bodies of If, Loop and Scan included.
#include "runtime/exec/facts.h"
#include "runtime/exec/model.h"
#include "runtime/exec/nested.h"

namespace fold8::exec {
namespace {

// A shape in another graph, whose symbols mean nothing here.
Shape foreign(const Shape& s) {
  Shape out = s;
  for (int a = 0; a < out.rank(); ++a)
    if (!out[a].known()) out[a] = Dim::unknown();
  return out;
}

TensorType foreign(const TensorType& t) {
  TensorType out = t;
  out.shape = foreign(t.shape);
  return out;
}

// Extents known and equal in both, else unknown.
Shape common(const Shape& a, const Shape& b) {
  Shape out = a;
  for (int i = 0; i < out.rank(); ++i)
    if (i >= b.rank() || !same(a[i], b[i])) out[i] = Dim::unknown();
  return out;
}

// Types the inputs of a body from the operands; `types` may hold null (keep what is declared).
Result<std::shared_ptr<const graph::Graph>> typed_body(
    const std::shared_ptr<const graph::Graph>& body,
    const std::vector<std::optional<TensorType>>& types) {
  auto copy = std::make_shared<graph::Graph>(*body);
  for (std::size_t i = 0; i < types.size() && i < copy->inputs.size(); ++i) {
    graph::Value& input = copy->value(copy->inputs[i]);
    if (!types[i] || input.has_type) continue;
    input.type = *types[i];
    input.has_type = true;
  }
  FOLD8_CHECK_OK(infer_types(*copy));
  return std::shared_ptr<const graph::Graph>(std::move(copy));
}

class ControlInference {
 public:
  ControlInference(graph::Graph& g, graph::NodeId n, FactsTable& facts)
      : node_(g.node(n)), facts_(facts) {}

  Status run() {
    FOLD8_CHECK_OK(check_control_flow(node_));
    if (auto* op = std::get_if<graph::If>(&node_.op)) return infer(*op);
    if (auto* op = std::get_if<graph::Loop>(&node_.op)) return infer(*op);
    return infer(std::get<graph::Scan>(node_.op));
  }

 private:
  std::optional<TensorType> operand(std::size_t i) const {
    const graph::ValueId v = node_.inputs[i];
    if (v == graph::kNoValue || !facts_[v].has_type) return std::nullopt;
    return foreign(facts_.type(v));
  }
  void set_output(std::size_t o, TensorType type) {
    if (node_.outputs[o] == graph::kNoValue) return;
    Facts& f = facts_.edit(node_.outputs[o]);
    if (f.has_type && f.type.shape.rank() == type.shape.rank()) return;  // declared
    f.type = std::move(type);
    f.has_type = true;
  }
  static TensorType output_of(const graph::Graph& body, std::size_t o) {
    TensorType t = foreign(body.type(body.outputs[o]));
    t.layout = Layout::plain;  // graph outputs are handed over in plain layout
    return t;
  }

  Status infer(graph::If& op) {
    std::vector<std::optional<TensorType>> types;
    for (std::size_t i = 1; i < node_.inputs.size(); ++i) types.push_back(operand(i));
    FOLD8_TRY(op.then_branch, typed_body(op.then_branch, types));
    FOLD8_TRY(op.else_branch, typed_body(op.else_branch, types));
    for (std::size_t o = 0; o < node_.outputs.size(); ++o) {
      TensorType a = output_of(*op.then_branch, o);
      const TensorType b = output_of(*op.else_branch, o);
      if (a.dtype != b.dtype)
        return invalid_model("output " + std::to_string(o) + " is " + std::string(name(a.dtype)) +
                             " in one branch, " + std::string(name(b.dtype)) + " in the other");
      a.shape = common(a.shape, b.shape);
      set_output(o, std::move(a));
    }
    return ok_status();
  }

  // What a body carries may change its extents from one iteration to the next.
  std::optional<TensorType> carried(std::size_t i) const {
    auto t = operand(i);
    if (t)
      for (int a = 0; a < t->shape.rank(); ++a) t->shape[a] = Dim::unknown();
    return t;
  }

  Status infer(graph::Loop& op) {
    std::vector<std::optional<TensorType>> types = {TensorType{DType::s64, Shape{}},
                                                    TensorType{DType::boolean, Shape{}}};
    const auto carried_count = static_cast<std::size_t>(op.carried);
    for (std::size_t i = 2; i < node_.inputs.size(); ++i)
      types.push_back(i - 2 < carried_count ? carried(i) : operand(i));
    FOLD8_TRY(op.body, typed_body(op.body, types));
    for (std::size_t o = 0; o < node_.outputs.size(); ++o) {
      TensorType t = output_of(*op.body, o + 1);
      if (o >= carried_count) {
        FOLD8_CHECK_OK(check_stackable(t));
        t.shape.insert(0, Dim::unknown());
      }
      set_output(o, std::move(t));
    }
    return ok_status();
  }

  Status infer(graph::Scan& op) {
    const ScanShape s = scan_shape(node_, op);
    std::vector<std::optional<TensorType>> types;
    for (std::size_t i = 0; i < node_.inputs.size(); ++i) {
      auto t = i < s.states ? carried(i) : operand(i);
      if (t && i >= s.states && i < s.states + s.scanned) {
        const auto axis = normalize_axis(s.input_axis(i - s.states), t->shape.rank());
        if (!axis)
          return invalid_model("input axis " + std::to_string(s.input_axis(i - s.states)) +
                               " is out of range");
        t->shape.erase(*axis);
      }
      types.push_back(std::move(t));
    }
    FOLD8_TRY(op.body, typed_body(op.body, types));
    for (std::size_t o = 0; o < node_.outputs.size(); ++o) {
      TensorType t = output_of(*op.body, o);
      if (o >= s.states) {
        FOLD8_CHECK_OK(check_stackable(t));
        const auto axis = normalize_axis(s.output_axis(o - s.states), t.shape.rank() + 1);
        if (!axis)
          return invalid_model("output axis " + std::to_string(s.output_axis(o - s.states)) +
                               " is out of range");
        t.shape.insert(*axis, Dim::unknown());
      }
      set_output(o, std::move(t));
    }
    return ok_status();
  }

  static Status check_stackable(const TensorType& t) {
    return t.shape.rank() < Shape::kMaxRank
               ? ok_status()
               : Status(unsupported("stacked outputs of rank above 8"));
  }

  graph::Node& node_;
  FactsTable& facts_;
};

}  // namespace

Status infer_types(graph::Graph& g) {
  FOLD8_TRY(const std::vector<graph::NodeId> order, g.topological_order());
  const ConstantFacts constants(g);
  FactsTable facts(constants);
  ops::InferContext context;
  for (graph::NodeId n : order) {
    if (!is_control_flow(g.node(n).op)) {
      FOLD8_CHECK_OK(infer_node(n, facts, context));
    } else if (auto s = ControlInference(g, n, facts).run(); !s.ok()) {
      return in_context(describe(g.node(n)), std::move(s).error());
    }
  }
  for (graph::ValueId v = 0; v < g.value_count(); ++v) {
    if (g.is_constant(v)) continue;
    g.value(v).type = std::move(facts.edit(v).type);
    g.value(v).has_type = facts[v].has_type;
  }
  return ok_status();
}

}  // namespace fold8::exec
