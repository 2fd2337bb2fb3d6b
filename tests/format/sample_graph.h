// Graphs for the tests of the .f8 format.
#pragma once

#include <gtest/gtest.h>

#include "runtime/graph/graph.h"
#include "runtime/graph/text.h"

namespace fold8::testing {

inline graph::Graph parsed(std::string_view text) {
  auto g = graph::parse(text);
  if (!g.ok()) {
    ADD_FAILURE() << g.error().message;
    return {};
  }
  return std::move(g).value();
}

// Small, with every kind of part: symbols, quantization, constants (two of them equal), rescale,
// metadata, `inside`.
inline graph::Graph sample_graph() {
  graph::Graph g = parsed(R"(
    x: f32[batch,4]
    q: u8[batch,4] @(0.5,128) = quantize(x)
    w = const random:s8[3,4] @channel(0)
    b = const f32[3]{1,2,3}
    b2 = const f32[3]{1,2,3}
    h: f32[batch,3] = linear(q, w, b) activation=clip b=6
    y: f32[batch,3] = add(h, b2)
    return y
  )");
  g.metadata["producer"] = "test";
  g.metadata["a"] = "";
  g.node(1).inside = {"fc", "relu"};
  g.value(g.find_value("h")).rescale = {1, 2, 0.5f};
  g.value(g.find_value("h")).rescale_axis = 1;
  return g;
}

}  // namespace fold8::testing
