// The text form of a graph: what tests write, what logs and `fold8 inspect` print.
//
//   x: f32[batch,3,224,224]                                  graph inputs, first
//   w = const s8[64,3,7,7] @channel(0)                       constants print their type (and few
//   elements, if small) h: u8[batch,64,112,112] @(0.02,0) = conv(x, w, _, res) kernel=[7,7]
//   strides=[2,2] activation=relu return h
//
// `_` is an absent operand. Constants may be written inline when parsing: `f32[2]{1,2}`,
// `random:f32[16,8]`, `random_positive:f32[16]`, `zeros:f32[4]`, `s64{1,-1}` (shape from the
// count). Several results: `a, b = split(x) axis=1`. A result's type may be given (`h: f32[4,8] =
// ...`); otherwise it is untyped until inference. Enumerators print by name; attributes equal to
// their default are not printed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/graph/graph.h"

namespace fold8::graph {

std::string to_text(const Graph& g);
std::string to_text(const Graph& g, NodeId n);  // one node, one line
Result<Graph> parse(std::string_view text,
                    std::uint64_t seed = 1);  // seed of the `random:` constants

}  // namespace fold8::graph
