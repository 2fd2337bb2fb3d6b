// For tests of the INT8 half of the pipeline: text graphs, samples, and the runtime itself before
// and after a pass.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "fusion/convert.h"
#include "fusion/passes/fuse_quantize.h"
#include "fusion/passes/passes.h"
#include "fusion/passes/quantize.h"
#include "quant/calibrate.h"
#include "runtime/format/f8.h"
#include "tests/fusion/graph_testing.h"
#include "tests/support/memory_samples.h"

namespace fold8::fusion {

using testing_support::MemorySamples;
using testing_support::model_of;
using testing_support::normal_samples;
using testing_support::run_once;
using testing_support::same_bytes;

inline int count_ops(const graph::Graph& g, std::string_view op) {
  const auto names = op_names(g);
  return static_cast<int>(std::count(names.begin(), names.end(), op));
}

inline const graph::Node& node_named(const graph::Graph& g, std::string_view name) {
  for (graph::NodeId n = 0; n < g.node_count(); ++n)
    if (!g.node(n).dead && g.node(n).name == name) return g.node(n);
  ADD_FAILURE() << "no node " << name << " in\n" << graph::to_text(g);
  return g.node(0);
}

inline void expect_verified(const graph::Graph& g) {
  const Status s = graph::verify(g);
  EXPECT_TRUE(s.ok()) << s.error().message << "\n" << graph::to_text(g);
}

// How far the outputs of two graphs are apart: codes for integer outputs, bit patterns for floats
// (0: the same bytes everywhere).
inline long steps_apart(const graph::Graph& a, const graph::Graph& b, std::uint64_t seed = 1) {
  auto samples = normal_samples(a, 1, seed);
  const auto x = run_once(a, samples.all()[0]), y = run_once(b, samples.all()[0]);
  EXPECT_EQ(x.size(), y.size());
  EXPECT_FALSE(x.empty());
  long most = 0;
  for (std::size_t o = 0; o < std::min(x.size(), y.size()); ++o) {
    if (x[o].dtype() != y[o].dtype() || !(x[o].shape() == y[o].shape())) {
      ADD_FAILURE() << "output " << o << " changed its type or shape";
      return 1L << 40;
    }
    const auto n = static_cast<std::size_t>(x[o].shape().count());
    for (std::size_t i = 0; i < n; ++i) {
      long d = 0;
      if (x[o].dtype() == DType::u8)
        d = std::labs(long{x[o].as<std::uint8_t>()[i]} - y[o].as<std::uint8_t>()[i]);
      else if (x[o].dtype() == DType::s8)
        d = std::labs(long{x[o].as<std::int8_t>()[i]} - y[o].as<std::int8_t>()[i]);
      else
        d = std::labs(long{x[o].as<std::int32_t>()[i]} - y[o].as<std::int32_t>()[i]);
      most = std::max(most, d);
    }
  }
  return most;
}

inline quant::CalibrationTable calibrated(const graph::Graph& g, quant::SampleSource& samples) {
  quant::CalibrateOptions options;
  options.observe = values_to_observe(g);
  auto table = quant::calibrate(model_of(g), samples, options);
  EXPECT_TRUE(table.ok()) << table.error().message;
  return table.ok() ? std::move(*table) : quant::CalibrationTable{};
}

struct Quantized {
  graph::Graph before, graph;
  QuantizeOutcome outcome;
};

// quantize() over a text graph, with ranges of `count` standard normal samples.
inline Quantized quantized(graph::Graph g, QuantizeOptions options = {}, std::size_t count = 4) {
  Quantized q{g, g, {}};
  quant::CalibrationTable table;
  if (count > 0) {
    auto samples = normal_samples(g, count);
    table = calibrated(g, samples);
    options.calibration = &table;
  }
  auto outcome = quantize(q.graph, options);
  EXPECT_TRUE(outcome.ok()) << outcome.error().message;
  if (outcome.ok()) q.outcome = std::move(*outcome);
  expect_verified(q.graph);
  return q;
}
inline Quantized quantized(std::string_view text, QuantizeOptions options = {},
                           std::size_t count = 4) {
  return quantized(parsed(text), std::move(options), count);
}

// The whole offline compiler over a text graph, with `count` samples (0: without data).
inline Converted must_convert(const std::string& text, const ConvertOptions& options = {},
                              std::size_t count = 8) {
  const graph::Graph g = parsed(text);
  auto samples = normal_samples(g, count);
  auto c = convert(g, count > 0 ? &samples : nullptr, options);
  EXPECT_TRUE(c.ok()) << c.error().message;
  if (!c.ok()) return {};
  expect_verified(c->graph);
  return std::move(*c);
}
inline std::string bytes_of(const Converted& c) {
  auto bytes = format::to_bytes(c.graph);
  EXPECT_TRUE(bytes.ok()) << bytes.error().message;
  return bytes.ok() ? *bytes : std::string();
}

// fuse_quantize over a graph.
inline Ran fused(graph::Graph g) {
  Ran ran{std::move(g), {}};
  auto tally = run(Pass{&fuse_quantize}, ran.graph);
  EXPECT_TRUE(tally.ok()) << tally.error().message;
  if (tally.ok()) ran.tally = std::move(*tally);
  expect_verified(ran.graph);
  return ran;
}

// No kernel reads computed weights of convolutions: those behind a Dequantize become floats, as
// emit does.
inline graph::Graph runnable(graph::Graph g) {
  EXPECT_TRUE(run(Pass{&dequantize_constants}, g).ok());
  return g;
}

// The pass over a text graph whose outputs may move by at most `steps` codes (0: the same bytes).
inline Ran fused(const std::string& text, long steps) {
  const graph::Graph before = parsed(text);
  Ran ran = fused(before);
  for (const std::uint64_t seed : {1u, 2u})
    EXPECT_LE(steps_apart(runnable(before), runnable(ran.graph), seed), steps)
        << graph::to_text(ran.graph);
  return ran;
}

}  // namespace fold8::fusion
