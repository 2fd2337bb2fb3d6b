// Tensors between INT8 layers that no multiply-add reads: skip connections, sums, gated feature
// maps, what is pooled. Kept as u8 they cost a quarter of the memory traffic and one rounding each.
#pragma once

#include <functional>
#include <vector>

#include "runtime/graph/graph.h"

namespace fold8::fusion {

// Operators that move or select values of operand 0 (Concat: of all operands) and so commute with
// any increasing, elementwise map; the first data_operands(n) are data, the others indices and
// shapes.
bool only_moves_values(const graph::Node& n);
std::size_t data_operands(const graph::Node& n);

// The f32 operands of `n` that may be read as u8 once its result is (for a layer: once it is INT8
// itself, whatever becomes of its result), by position in n.inputs:
//   Conv, Linear               the residual
//   Add of equal shapes        both
//   Mul by [N, C, 1, ..] gates the feature map; the gates stay f32
//   average pooling            its input; a global one only if something else carries it as u8
//   anyway
//                              (thousands of roundings of one sign would end up in one number)
//   what moves values only     all data, with the scale of the result
std::vector<std::size_t> u8_operands(const graph::Graph& g, const graph::Node& n);
// True if n reads u8 only where its operand is u8 anyway.
bool only_joins(const graph::Node& n);

// Values that a graph whose layers satisfying `becomes_int8` are INT8 can carry as u8, without what
// those layers multiply.
std::vector<graph::ValueId> u8_streams(const graph::Graph& g,
                                       const std::vector<graph::NodeId>& topological_order,
                                       const std::function<bool(const graph::Node&)>& becomes_int8);

}  // namespace fold8::fusion
