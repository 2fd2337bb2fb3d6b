#include "runtime/exec/appended.h"

#include <algorithm>

namespace fold8::exec {
namespace {

// Nobody but operand `operand` of `keeper` reads the elements.
bool read_only_by(const GraphInfo& info, graph::ValueId v, const graph::Node* keeper,
                  std::size_t operand) {
  for (graph::NodeId id : info.order) {
    const graph::Node& n = info.g.node(id);
    for (std::size_t i = 0; i < n.inputs.size(); ++i)
      if (n.inputs[i] == v && !(&n == keeper && i == operand) &&
          !std::holds_alternative<graph::ShapeOf>(n.op))
        return false;
  }
  return true;
}

// Where rows are dense in memory anyway anybody may read them; rows of several heads that lie apart
// are the business of the operator that puts them there.
bool may_lie_in_place(const GraphInfo& info, const graph::Node& n, const ops::Append& append) {
  for (const auto* list : {&n.inputs, &n.outputs})
    for (graph::ValueId v : *list)
      if (v != graph::kNoValue &&
          (info.g.type(v).layout != Layout::plain || info.g.type(v).dtype == DType::f16 ||
           info.g.type(v).dtype == DType::bf16 || info.g.type(v).dtype == DType::f64))
        return false;
  const graph::ValueId input = n.inputs[append.input], output = n.outputs[append.output];
  const Shape& shape = info.g.type(input).shape;
  bool one = true;
  for (int a = 0; a < append.axis; ++a) one &= shape[a].known() && shape.extent(a) == 1;
  if (one) return true;
  const auto& outputs = info.g.outputs;
  return append.spread && read_only_by(info, input, &n, append.input) &&
         read_only_by(info, output, nullptr, 0) &&
         std::find(outputs.begin(), outputs.end(), input) == outputs.end();
}

}  // namespace

std::optional<Appended> find_appended(const GraphInfo& info, graph::ValueId output,
                                      graph::ValueId input) {
  const int p = info.made_at[static_cast<std::size_t>(output)];
  if (p < 0) return std::nullopt;
  const graph::NodeId id = info.order[static_cast<std::size_t>(p)];
  const graph::Node& n = info.g.node(id);
  const auto all = ops::appends(n.op, info.g.type(input).shape.rank());
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].input < n.inputs.size() && all[i].output < n.outputs.size() &&
        n.inputs[all[i].input] == input && n.outputs[all[i].output] == output)
      return Appended{id, i, all[i].axis, may_lie_in_place(info, n, all[i])};
  return std::nullopt;
}

}  // namespace fold8::exec
