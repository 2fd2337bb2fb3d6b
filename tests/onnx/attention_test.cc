// Every ONNX spelling of attention and of rotary embedding: what becomes of it, and what is
// refused. Numbers: tests/conformance.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/onnx/import_support.h"

namespace fold8::onnx_io {
namespace {

using namespace fold8::testing;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

ModelWriter heads(int opset = 23) {
  return ModelWriter(opset)
      .input("q", {"N", "4", "S", "8"})
      .input("k", {"N", "2", "T", "8"})
      .input("v", {"N", "2", "T", "6"});
}
ModelWriter rows(int opset = 23) {
  return ModelWriter(opset)
      .input("q", {"N", "S", "32"})
      .input("k", {"N", "T", "16"})
      .input("v", {"N", "T", "12"});
}
const graph::Attention& attention_of(const graph::Graph& g) {
  return std::get<graph::Attention>(first<graph::Attention>(g)->op);
}

TEST(AttentionImport, HeadsComeFromTheShape) {
  const auto g = imported(heads().node("Attention", {"q", "k", "v"}, {"y"}).output("y"));
  const graph::Attention& a = attention_of(g);
  EXPECT_EQ(a.heads, 4);
  EXPECT_EQ(a.kv_heads, 2);
  EXPECT_EQ(a.depth, 8);
  EXPECT_EQ(a.value_depth, 6);
  EXPECT_EQ(a.scale, 1 / std::sqrt(8.0f));
  EXPECT_FALSE(a.causal || a.q_rows || a.y_rows);
  EXPECT_EQ(shape_of(g, "y"), "[N,4,S,6]");
}

TEST(AttentionImport, RowsAreDividedIntoHeads) {
  const auto g = imported(
      rows()
          .node("Attention", {"q", "k", "v"}, {"y"},
                {attribute("q_num_heads", 4), attribute("kv_num_heads", 2),
                 attribute("scale", 0.5f), attribute("softcap", 30.0f), attribute("is_causal", 1)})
          .output("y"));
  const graph::Attention& a = attention_of(g);
  EXPECT_TRUE(a.q_rows && a.k_rows && a.v_rows && a.y_rows && a.causal);
  EXPECT_EQ(a.scale, 0.5f);
  EXPECT_EQ(a.softcap, 30.0f);
  EXPECT_EQ(shape_of(g, "y"), "[N,S,24]");
}

TEST(AttentionImport, AnySubsetOfThePresentIsWritten) {
  for (const char* read : {"pk", "pv"}) {
    const auto g =
        imported(heads()
                     .input("past_k", {"N", "2", "P", "8"})
                     .input("past_v", {"N", "2", "P", "6"})
                     .node("Attention", {"q", "k", "v", "", "past_k", "past_v"}, {"y", "pk", "pv"})
                     .output("y")
                     .output(read));
    EXPECT_THAT(operators(g), ElementsAre("attention")) << read;
    EXPECT_EQ(first<graph::Attention>(g)->inputs.size(), 6u);
  }
}

TEST(AttentionImport, ScoresThatAreReadTakeItApart) {
  const auto g = imported(heads()
                              .node("Attention", {"q", "k", "v"}, {"y", "", "", "scores"},
                                    {attribute("qk_matmul_output_mode", 3)})
                              .output("y")
                              .output("scores"));
  EXPECT_THAT(operators(g), Contains("softmax"));
  EXPECT_THAT(operators(g), Not(Contains("attention")));
  EXPECT_EQ(shape_of(g, "scores"), "[N,4,S,T]");
  EXPECT_EQ(shape_of(g, "y"), "[N,4,S,6]");
}

TEST(AttentionImport, PaddedKeysBecomeAMask) {
  const auto g = imported(heads(24)
                              .input("lengths", {"N"}, kInt64)
                              .node("Attention", {"q", "k", "v", "", "", "", "lengths"}, {"y"},
                                    {attribute("is_causal", 1)})
                              .output("y"));
  EXPECT_FALSE(attention_of(g).causal);  // every sample has a frontier of its own
  EXPECT_THAT(operators(g), Contains("logical_and"));
}

TEST(AttentionImport, WindowsBecomeAMask) {
  const auto g = imported(heads(25)
                              .node("Attention", {"q", "k", "v"}, {"y"},
                                    {attribute("left_window_size", 2), attribute("is_causal", 1)})
                              .output("y"));
  EXPECT_TRUE(attention_of(g).causal);
  EXPECT_THAT(operators(g), Contains("greater_equal"));
}

TEST(AttentionImport, RefusalsNameTheReason) {
  const auto dynamic =
      import_error(ModelWriter(23)
                       .input("q", {"N", "S", "W"})
                       .input("k", {"N", "S", "W"})
                       .input("v", {"N", "S", "W"})
                       .node("Attention", {"q", "k", "v"}, {"y"},
                             {attribute("q_num_heads", 4), attribute("kv_num_heads", 4)})
                       .output("y"));
  EXPECT_EQ(dynamic.code, Code::unsupported);
  EXPECT_THAT(dynamic.message, HasSubstr("size is not known"));
  const auto uneven =
      import_error(rows()
                       .node("Attention", {"q", "k", "v"}, {"y"},
                             {attribute("q_num_heads", 5), attribute("kv_num_heads", 2)})
                       .output("y"));
  EXPECT_EQ(uneven.code, Code::invalid_model);
  EXPECT_THAT(uneven.message, HasSubstr("q_num_heads=5"));
  const auto half = import_error(heads()
                                     .input("past_k", {"N", "2", "P", "8"})
                                     .node("Attention", {"q", "k", "v", "", "past_k"}, {"y"})
                                     .output("y"));
  EXPECT_THAT(half.message, HasSubstr("come together"));
}

ModelWriter microsoft(const Names& query) {
  return ModelWriter(17).opset_import("com.microsoft", 1).input("q", query);
}

TEST(MultiHeadAttentionImport, PackedHeadsBiasAndMask) {
  const auto g =
      imported(microsoft({"N", "S", "4", "3", "8"})
                   .initializer(floats("b", {96}, std::vector<float>(96, 0.5f)))
                   .input("seen", {"N", "S"}, kInt32)
                   .node("MultiHeadAttention", {"q", "", "", "b", "seen"}, {"y"},
                         {attribute("num_heads", 4), attribute("mask_filter_value", -1000.0f)}, "",
                         "com.microsoft")
                   .output("y"));
  const graph::Attention& a = attention_of(g);
  EXPECT_EQ(a.heads, 4);
  EXPECT_EQ(a.depth, 8);
  EXPECT_FALSE(a.causal);
  EXPECT_EQ(first<graph::Attention>(g)->inputs.size(), 4u);
  EXPECT_EQ(shape_of(g, "y"), "[N,S,32]");
}

TEST(MultiHeadAttentionImport, BeamSearchIsRefused) {
  const Error e =
      import_error(microsoft({"N", "S", "32"})
                       .input("length", {"1"}, kInt32)
                       .node("MultiHeadAttention", {"q", "q", "q", "", "", "", "", "", "length"},
                             {"y"}, {attribute("num_heads", 4)}, "", "com.microsoft")
                       .output("y"));
  EXPECT_EQ(e.code, Code::unsupported);
  EXPECT_THAT(e.message, HasSubstr("past_sequence_length"));
}

ModelWriter grouped(const Names& more, std::initializer_list<Message> attributes) {
  Names inputs{"q", "k", "v", "", "", "lengths", "total"};
  inputs.insert(inputs.end(), more.begin(), more.end());
  return microsoft({"N", "S", "32"})
      .input("k", {"N", "S", "16"})
      .input("v", {"N", "S", "16"})
      .input("lengths", {"N"}, kInt32)
      .input("total", {}, kInt32)
      .initializer(floats("cos", {64, 4}, std::vector<float>(256, 1)))
      .initializer(floats("sin", {64, 4}, std::vector<float>(256, 0)))
      .node("GroupQueryAttention", inputs, {"y", "pk", "pv"}, attributes, "", "com.microsoft")
      .output("y")
      .output("pk")
      .output("pv");
}

TEST(GroupQueryAttentionImport, APromptIsCausalAndTurned) {
  const auto g =
      imported(grouped({"cos", "sin"}, {attribute("num_heads", 4), attribute("kv_num_heads", 2),
                                        attribute("do_rotary", 1)}));
  EXPECT_TRUE(attention_of(g).causal);
  EXPECT_EQ(attention_of(g).kv_heads, 2);
  const auto& rotary = std::get<graph::Rotary>(first<graph::Rotary>(g)->op);
  EXPECT_EQ(rotary.dims, 8);
  EXPECT_TRUE(rotary.rows);
  EXPECT_EQ(shape_of(g, "pk"), "[N,2,S,8]");
}

TEST(GroupQueryAttentionImport, WhatIsLeftOutIsRefusedByName) {
  const Error e = import_error(grouped(
      {}, {attribute("num_heads", 4), attribute("kv_num_heads", 2), attribute("qk_output", 1)}));
  EXPECT_EQ(e.code, Code::unsupported);
  EXPECT_THAT(e.message, HasSubstr("qk_output"));
}

TEST(RotaryImport, PositionsPickRowsOfTheTables) {
  const auto g =
      imported(ModelWriter(23)
                   .input("x", {"N", "S", "32"})
                   .input("ids", {"N", "S"}, kInt64)
                   .initializer(floats("cos", {50, 3}, std::vector<float>(150, 1)))
                   .initializer(floats("sin", {50, 3}, std::vector<float>(150, 0)))
                   .node("RotaryEmbedding", {"x", "cos", "sin", "ids"}, {"y"},
                         {attribute("num_heads", 4), attribute("rotary_embedding_dim", 6),
                          attribute("interleaved", 1)})
                   .output("y"));
  EXPECT_THAT(operators(g), ElementsAre("gather", "gather", "rotary"));
  const auto& op = std::get<graph::Rotary>(first<graph::Rotary>(g)->op);
  EXPECT_TRUE(op.rows && op.interleaved);
  EXPECT_EQ(op.heads, 4);
  EXPECT_EQ(op.depth, 8);
  EXPECT_EQ(op.dims, 6);
}

}  // namespace
}  // namespace fold8::onnx_io
