#include "fusion/passes/attention_operands.h"

namespace fold8::fusion {

using graph::Graph;
using graph::Ints;
using graph::ValueId;

ValueId transposed(Graph& g, ValueId x, const Ints& perm) {
  TensorType type = g.type(x);
  for (std::size_t i = 0; i < perm.size(); ++i)
    type.shape[static_cast<int>(i)] = g.type(x).shape[static_cast<int>(perm[i])];
  const std::string name = g.fresh_name(g.value(x).name + "_transposed");
  const ValueId y = g.add_value(name, type);
  g.add_node(graph::Transpose{perm}, name, {x}, {y});
  return y;
}

ValueId last_two_swapped(Graph& g, ValueId x) {
  Ints perm;
  for (int i = 0; i < g.type(x).shape.rank(); ++i) perm.push_back(i);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return transposed(g, x, perm);
}

ValueId unsqueezed(Graph& g, ValueId x, std::int64_t axis) {
  TensorType type = g.type(x);
  Shape shape;
  for (int i = 0; i < type.shape.rank(); ++i) {
    if (i == axis) shape.push_back(Dim(1));
    shape.push_back(type.shape[i]);
  }
  type.shape = shape;
  const std::string name = g.fresh_name(g.value(x).name + "_unsqueezed");
  const ValueId y = g.add_value(name, type);
  g.add_node(graph::Unsqueeze{{axis}}, name, {x}, {y});
  return y;
}

ValueId kept_two(Graph& g, const std::string& stem, const Ints& rest) {
  Ints shape{0, 0};
  shape.insert(shape.end(), rest.begin(), rest.end());
  return g.add_constant<std::int64_t>(g.fresh_name(stem + "_shape"),
                                      Shape{Dim(static_cast<std::int64_t>(shape.size()))},
                                      std::span<const std::int64_t>(shape));
}

ValueId tokens_reshaped(Graph& g, ValueId x, const Ints& rest) {
  TensorType type = g.type(x);
  type.shape = Shape{type.shape[0], type.shape[1]};
  for (std::int64_t e : rest) type.shape.push_back(Dim(e));
  const std::string name = g.fresh_name(g.value(x).name + "_rows");
  const ValueId y = g.add_value(name, type);
  g.add_node(graph::Reshape{}, name, {x, kept_two(g, name, rest)}, {y});
  return y;
}

}  // namespace fold8::fusion
