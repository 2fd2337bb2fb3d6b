// A typed graph from its text form.
#pragma once

#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "runtime/exec/model.h"
#include "runtime/graph/text.h"

namespace fold8::testing_support {

// An empty graph, and a failed test, where the text is no graph.
inline graph::Graph parsed(std::string_view text) {
  auto g = graph::parse(text);
  EXPECT_TRUE(g.ok()) << g.error().message;
  if (!g.ok()) return {};
  const Status typed = exec::infer_types(*g);
  EXPECT_TRUE(typed.ok()) << typed.error().message;
  return std::move(*g);
}

}  // namespace fold8::testing_support
