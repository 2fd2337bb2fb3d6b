// What the import tests share: import bytes, look at the result.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/graph/text.h"
#include "tests/onnx/model_writer.h"
#include "tools/onnx/onnx.h"

namespace fold8::testing {

inline graph::Graph imported(const ModelWriter& model) {
  auto r = onnx_io::import_bytes(model.bytes(), "");
  EXPECT_TRUE(r.ok()) << r.error().message;
  return r.ok() ? std::move(r->graph) : graph::Graph();
}

inline Error import_error(const ModelWriter& model) {
  auto r = onnx_io::import_bytes(model.bytes(), "");
  EXPECT_FALSE(r.ok()) << "import succeeded";
  return r.ok() ? Error{} : r.error();
}

// display names in execution order
inline std::vector<std::string> operators(const graph::Graph& g) {
  std::vector<std::string> names;
  const std::vector<graph::NodeId> order = g.topological_order().value();
  for (graph::NodeId n : order) names.push_back(graph::display_name(g.node(n).op));
  return names;
}

// The first operator of that type; null if there is none.
template <class O>
const graph::Node* first(const graph::Graph& g) {
  for (graph::NodeId n = 0; n < g.node_count(); ++n)
    if (!g.node(n).dead && std::holds_alternative<O>(g.node(n).op)) return &g.node(n);
  return nullptr;
}

inline std::string shape_of(const graph::Graph& g, const std::string& name) {
  const graph::ValueId v = g.find_value(name);
  return v == graph::kNoValue ? "absent" : to_string(g.type(v).shape, g.symbols);
}

inline const graph::Value& value_named(const graph::Graph& g, const std::string& name) {
  const graph::ValueId v = g.find_value(name);
  EXPECT_NE(v, graph::kNoValue) << name;
  return g.value(std::max(v, 0));
}

}  // namespace fold8::testing
