// Factors of smoothed tensors travel with plain ONNX files.
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "runtime/exec/model.h"
#include "runtime/graph/text.h"
#include "tests/data/temp_folder.h"
#include "tools/onnx/export.h"
#include "tools/onnx/onnx.h"

namespace fold8::onnx_io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

graph::Graph with_factors(std::vector<float> factors, int axis) {
  auto g = graph::parse("x: f32[2,3]\nh = relu(x)\ny = tanh(h)\nreturn y");
  EXPECT_TRUE(g.ok()) << g.error().message;
  EXPECT_TRUE(exec::infer_types(*g).ok());
  g->value(g->find_value("h")).rescale = std::move(factors);
  g->value(g->find_value("h")).rescale_axis = axis;
  return std::move(*g);
}

Result<Imported> there_and_back(const graph::Graph& g, const std::string& from = "",
                                const std::string& to = "") {
  const TempFolder folder;
  const auto written = export_file(g, folder / "m.onnx");
  EXPECT_TRUE(written.ok()) << written.error().message;
  std::ifstream file(folder / "m.onnx", std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  std::string text = bytes.str();
  if (!from.empty()) text.replace(text.find(from), from.size(), to);  // of the same length
  return import_bytes(text, "");
}

TEST(Rescale, FactorsSurviveTheFile) {
  const auto back = there_and_back(with_factors({0.1f, 1.0f / 3, 2.5e-8f}, 1));
  ASSERT_TRUE(back.ok()) << back.error().message;
  const graph::Graph& g = back->graph;
  const graph::Value& h = g.value(g.find_value("h"));
  EXPECT_THAT(h.rescale, ElementsAre(0.1f, 1.0f / 3, 2.5e-8f));
  EXPECT_EQ(h.rescale_axis, 1);
  EXPECT_TRUE(g.value(g.find_value("y")).rescale.empty());
  for (const auto& [key, value] : g.metadata) EXPECT_THAT(key, Not(HasSubstr("rescale")));
}

TEST(Rescale, FactorsOfAnotherShapeOrTensorAreDropped) {
  for (const auto& g : {with_factors({1, 2}, 1), with_factors({1, 2, 3}, 0)}) {
    const auto back = there_and_back(g);
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_TRUE(back->graph.value(back->graph.find_value("h")).rescale.empty());
  }
  const auto gone = there_and_back(with_factors({1, 2, 3}, 1), "rescale.h", "rescale.g");
  ASSERT_TRUE(gone.ok()) << gone.error().message;
}

TEST(Rescale, OtherTextIsRefused) {
  for (const char* text :
       {"x 11 2 3", "1 11 2 x", "1 -1 2 3", "1 nan  3", "1       ", "-1 1 2 3"}) {
    const auto back = there_and_back(with_factors({11, 2, 3}, 1), "1 11 2 3", text);
    ASSERT_FALSE(back.ok()) << text;
  }
}

}  // namespace
}  // namespace fold8::onnx_io
