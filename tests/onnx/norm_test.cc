// Every ONNX spelling of a normalization.
#include <gmock/gmock.h>

#include "tests/onnx/import_support.h"

namespace fold8::onnx_io {
namespace {

using namespace fold8::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelWriter with_statistics(int opset) {
  ModelWriter m(opset);
  m.input("x", {"N", "2", "4"});
  for (const char* name : {"g", "b", "m", "v"}) m.initializer(floats(name, {2}, {1, 2}));
  return m;
}

TEST(BatchNorm, SpatialZeroIsRefusedByName) {
  const Error e = import_error(
      with_statistics(8)
          .node("BatchNormalization", {"x", "g", "b", "m", "v"}, {"y"}, {attribute("spatial", 0)})
          .output("y"));
  EXPECT_EQ(e.code, Code::unsupported);
  EXPECT_THAT(e.message, HasSubstr("spatial=0"));
}

TEST(BatchNorm, TrainingIsAnAttributeSince14AndShownByOutputsBefore) {
  const auto inference = imported(
      with_statistics(9).node("BatchNormalization", {"x", "g", "b", "m", "v"}, {"y"}).output("y"));
  EXPECT_FALSE(std::get<graph::BatchNorm>(first<graph::BatchNorm>(inference)->op).training);
  const auto old = imported(with_statistics(9)
                                .node("BatchNormalization", {"x", "g", "b", "m", "v"},
                                      {"y", "rm", "rv", "sm", "sv"}, {attribute("momentum", 0.7f)})
                                .output("y"));
  EXPECT_TRUE(std::get<graph::BatchNorm>(first<graph::BatchNorm>(old)->op).training);
  EXPECT_EQ(std::get<graph::BatchNorm>(first<graph::BatchNorm>(old)->op).momentum, 0.7f);
  const auto now = imported(with_statistics(15)
                                .node("BatchNormalization", {"x", "g", "b", "m", "v"},
                                      {"y", "rm", "rv"}, {attribute("training_mode", 1)})
                                .output("y")
                                .output("rm")
                                .output("rv"));
  EXPECT_TRUE(std::get<graph::BatchNorm>(first<graph::BatchNorm>(now)->op).training);
  EXPECT_EQ(first<graph::BatchNorm>(now)->outputs.size(), 3u);
}

const graph::Norm& norm_of(const graph::Graph& g) {
  return std::get<graph::Norm>(first<graph::Norm>(g)->op);
}

TEST(LayerNorm, TheLastAxisHasOneName) {
  for (int axis : {-1, 2}) {
    const auto g =
        imported(ModelWriter()
                     .input("x", {"N", "3", "4"})
                     .initializer(floats("g", {4}, {1, 1, 1, 1}))
                     .node("LayerNormalization", {"x", "g"}, {"y"}, {attribute("axis", axis)})
                     .output("y"));
    EXPECT_EQ(norm_of(g).axis, -1);
    EXPECT_EQ(norm_of(g).kind, graph::NormKind::layer);
  }
}

TEST(LayerNorm, ScaleThatOnlyBroadcastsIsMultiplied) {
  const auto g = imported(ModelWriter()
                              .input("x", {"N", "3", "4"})
                              .initializer(floats("g", {1}, {2}))
                              .initializer(floats("b", {4}, {1, 1, 1, 1}))
                              .node("LayerNormalization", {"x", "g", "b"}, {"y"})
                              .output("y"));
  EXPECT_THAT(operators(g), ElementsAre("layer_norm", "mul", "add"));
}

TEST(LayerNorm, StatisticsThatAreReadAreComputed) {
  const auto g = imported(ModelWriter()
                              .input("x", {"N", "4"})
                              .initializer(floats("g", {4}, {1, 1, 1, 1}))
                              .node("LayerNormalization", {"x", "g"}, {"y", "mean", "inv"})
                              .output("y")
                              .output("mean")
                              .output("inv"));
  EXPECT_EQ(shape_of(g, "mean"), "[N,1]");
  EXPECT_EQ(shape_of(g, "inv"), "[N,1]");
  EXPECT_EQ(shape_of(g, "y"), "[N,4]");
}

TEST(RmsNorm, BothNamesOfTheDefaultDomain) {
  for (const char* op : {"RMSNormalization", "SimplifiedLayerNormalization"}) {
    const auto g = imported(ModelWriter(23)
                                .input("x", {"N", "4"})
                                .initializer(floats("g", {4}, {1, 1, 1, 1}))
                                .node(op, {"x", "g"}, {"y"}, {attribute("epsilon", 1e-6f)})
                                .output("y"));
    EXPECT_EQ(norm_of(g).kind, graph::NormKind::rms);
    EXPECT_EQ(norm_of(g).epsilon, 1e-6f);
  }
}

TEST(GroupNorm, ScaleIsPerGroupIn18AndPerChannelIn21) {
  for (int opset : {18, 21}) {
    const std::int64_t n = opset == 18 ? 2 : 4;
    const std::vector<float> ones(static_cast<std::size_t>(n), 1.0f);
    const auto g = imported(
        ModelWriter(opset)
            .input("x", {"N", "4", "3"})
            .initializer(floats("g", {n}, ones))
            .initializer(floats("b", {n}, ones))
            .node("GroupNormalization", {"x", "g", "b"}, {"y"}, {attribute("num_groups", 2)})
            .output("y"));
    EXPECT_EQ(norm_of(g).kind, graph::NormKind::group);
    EXPECT_EQ(norm_of(g).groups, 2);
    EXPECT_EQ(norm_of(g).affine_per_group, opset == 18);
  }
}

TEST(SkipNorm, IsASumAndANorm) {
  for (const char* op : {"SkipLayerNormalization", "SkipSimplifiedLayerNormalization"}) {
    const bool rms = std::string(op) != "SkipLayerNormalization";
    const Names operands = rms ? Names{"x", "s", "g", "bias"} : Names{"x", "s", "g", "b", "bias"};
    ModelWriter m;
    m.opset_import("com.microsoft", 1).input("x", {"N", "4"}).input("s", {"N", "4"});
    for (const char* name : {"g", "b", "bias"}) m.initializer(floats(name, {4}, {1, 1, 1, 1}));
    const auto g = imported(m.node(op, operands, {"y", "", "", "sum"}, {}, "skip", "com.microsoft")
                                .output("y")
                                .output("sum"));
    EXPECT_THAT(operators(g), ElementsAre("add", "add", rms ? "rms_norm" : "layer_norm"));
    EXPECT_EQ(norm_of(g).epsilon, 1e-12f);
    EXPECT_EQ(first<graph::Norm>(g)->inputs[0], g.find_value("sum"));
  }
}

}  // namespace
}  // namespace fold8::onnx_io
