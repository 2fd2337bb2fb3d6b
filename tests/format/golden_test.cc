// A .f8 written by 2.0 loads in every later 2.y, and today's writer still gives the same bytes.
// FOLD8_UPDATE_GOLDEN=1 rewrites the file: only before the first release, or when a new golden file
// is added beside it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "runtime/format/f8.h"
#include "tests/format/sample_graph.h"

namespace fold8 {
namespace {

std::string golden_path() {
  return std::string(FOLD8_SOURCE_DIR) + "/tests/format/golden/sample_2_0.f8";
}

// Without random constants: their generator belongs to the standard library.
graph::Graph golden_graph() {
  graph::Graph g = testing::parsed(R"(
    x: f32[batch,4]
    q: u8[batch,4] @(0.5,128) = quantize(x)
    w = const s8[2,4] @channel(0){1,-2,3,-4,127,-128,0,5}
    b = const f32[2]{1,-2}
    h: f32[batch,2] = linear(q, w, b) activation=clip b=6
    y: f32[batch,2] = mul(h, f32[1]{0.5})
    return y
  )");
  g.metadata["producer"] = "golden";
  return g;
}

TEST(Golden, OldFilesLoadAndBytesDoNotDrift) {
  const std::string now = format::to_bytes(golden_graph()).value();
  if (std::getenv("FOLD8_UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(format::write_atomically(golden_path(), now.data(), now.size()).ok());
  }
  const auto loaded = format::read_file(golden_path(), true);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(graph::to_text(loaded->graph), graph::to_text(golden_graph()));
  std::ifstream file(golden_path(), std::ios::binary);
  const std::string then{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(then, now);
}

}  // namespace
}  // namespace fold8
