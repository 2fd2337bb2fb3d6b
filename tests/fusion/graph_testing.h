// Text graphs in, structure and numbers out: what every test of a pass needs.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "fusion/pipeline.h"
#include "fusion/rewrite/driver.h"
#include "runtime/exec/model.h"
#include "runtime/graph/text.h"
#include "runtime/graph/verify.h"
#include "tests/support/evaluate_graph.h"
#include "tests/support/parsed_graph.h"

namespace fold8::fusion {

// Folds round their results to float once: a few units in the last place of a sum of some dozen
// terms of size 1.
inline constexpr double kFoldTolerance = 4e-6;

using testing_support::parsed;

// What a person reads, in execution order: "conv", "relu", ...
inline std::vector<std::string> op_names(const graph::Graph& g) {
  std::vector<std::string> names;
  const auto order = g.topological_order();
  if (!order.ok()) return {"cycle"};
  for (const graph::NodeId n : *order) names.push_back(graph::display_name(g.node(n).op));
  return names;
}

inline std::vector<std::string> reasons(const std::vector<Declined>& declined) {
  std::vector<std::string> why;
  for (const Declined& d : declined) why.push_back(d.why);
  return why;
}

struct Ran {
  graph::Graph graph;
  Tally tally;
};

// The graph after the passes, which must verify and keep the function within `tolerance` of 1 +
// |value|.
inline void expect_same(const graph::Graph& before, const graph::Graph& after,
                        double tolerance = kFoldTolerance) {
  for (const std::uint64_t seed : {1u, 2u}) {
    const auto inputs = testing_support::random_inputs(before, seed);
    const auto a = testing_support::evaluate(before, inputs),
               b = testing_support::evaluate(after, inputs);
    ASSERT_TRUE(a.ok()) << a.error().message;
    ASSERT_TRUE(b.ok()) << b.error().message << "\n" << graph::to_text(after);
    for (const auto& [name, expected] : *a) {
      ASSERT_TRUE(b->count(name)) << "no output " << name;
      const auto& got = b->at(name);
      ASSERT_EQ(got.shape, expected.shape) << name;
      for (std::size_t i = 0; i < expected.data.size(); ++i)
        ASSERT_NEAR(got.data[i], expected.data[i], tolerance * (1 + std::fabs(expected.data[i])))
            << name << "[" << i << "]\n"
            << graph::to_text(after);
    }
  }
}

// Runs passes over a text graph; checks the graph and, unless told otherwise, the numbers.
inline Ran run_passes(std::vector<Pass> passes, std::string_view text, Context context = {},
                      bool numbers = true) {
  Ran ran{parsed(text), {}};
  const graph::Graph before = ran.graph;
  auto tally = run(Stage{"test", std::move(passes)}, ran.graph, context);
  EXPECT_TRUE(tally.ok()) << tally.error().message;
  if (tally.ok()) ran.tally = std::move(*tally);
  const Status verified = graph::verify(ran.graph);
  EXPECT_TRUE(verified.ok()) << verified.error().message;
  if (numbers) expect_same(before, ran.graph);
  return ran;
}

inline const graph::Node& only_node(const graph::Graph& g) {
  EXPECT_EQ(g.live_nodes(), 1u) << graph::to_text(g);
  for (graph::NodeId n = 0; n < g.node_count(); ++n)
    if (!g.node(n).dead) return g.node(n);
  return g.node(0);
}

inline std::vector<float> floats(const graph::Graph& g, graph::ValueId v) {
  const auto data = g.constant<float>(v);
  return {data.begin(), data.end()};
}

}  // namespace fold8::fusion
