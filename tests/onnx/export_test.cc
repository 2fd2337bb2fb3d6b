// Export: what is written means what the graph means. Both are run here; the reader is the import.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "runtime/exec/model.h"
#include "runtime/exec/session.h"
#include "tests/data/temp_folder.h"
#include "tests/onnx/import_support.h"
#include "tests/support/random.h"
#include "tools/onnx/export.h"

namespace fold8::onnx_io {
namespace {

using namespace fold8::testing;
using ::testing::HasSubstr;

graph::Graph parsed(const std::string& text) {
  auto g = graph::parse(text);
  EXPECT_TRUE(g.ok()) << g.error().message;
  const auto s = exec::infer_types(*g);
  EXPECT_TRUE(s.ok()) << s.error().message;
  return *g;
}

std::vector<std::vector<float>> run(const graph::Graph& g, std::vector<Tensor>& inputs) {
  auto model = exec::Model::from_graph(g);
  EXPECT_TRUE(model.ok()) << model.error().message;
  auto session = exec::Session::create(*model);
  EXPECT_TRUE(session.ok());
  std::vector<TensorView> views;
  for (Tensor& t : inputs) views.push_back(t.view());
  const auto s = (*session)->run(views);
  EXPECT_TRUE(s.ok()) << s.error().message;
  std::vector<std::vector<float>> out;
  for (const TensorView& v : (*session)->outputs()) {
    EXPECT_EQ(v.dtype, DType::f32);
    const auto f = v.as<float>();
    out.emplace_back(f.begin(), f.end());
  }
  return out;
}

// Runs the graph and its exported and imported copy on the same random f32 inputs.
void expect_same(const graph::Graph& g, float tolerance = 1e-5f) {
  const TempFolder folder;
  const auto written = export_file(g, folder / "m.onnx");
  ASSERT_TRUE(written.ok()) << written.error().message;
  const auto back = import_file(folder / "m.onnx");
  ASSERT_TRUE(back.ok()) << back.error().message;
  SeededRng rng;
  std::vector<Tensor> inputs;
  for (graph::ValueId v : g.inputs) {
    inputs.emplace_back(DType::f32, g.type(v).shape);
    rng.fill_normal(inputs.back().as<float>());
  }
  const auto want = run(g, inputs), got = run(back->graph, inputs);
  ASSERT_EQ(want.size(), got.size());
  for (std::size_t o = 0; o < want.size(); ++o) {
    ASSERT_EQ(want[o].size(), got[o].size());
    float largest = 0;
    for (float f : want[o]) largest = std::fmax(largest, std::fabs(f));
    for (std::size_t i = 0; i < want[o].size(); ++i)
      ASSERT_NEAR(want[o][i], got[o][i], tolerance * largest) << i;
  }
  for (std::size_t o = 0; o < g.outputs.size(); ++o)
    EXPECT_EQ(g.value(g.outputs[o]).name, back->graph.value(back->graph.outputs[o]).name);
}

TEST(Export, LinearWithEverythingFused) {
  expect_same(
      parsed("x: f32[3,8]\nr: f32[3,5]\ny = linear(x, random:f32[5,8], random:f32[5], r) "
             "activation=hard_swish a=0.16666667 b=0.5\nreturn y\n"));
  expect_same(
      parsed("x: f32[2,3,8]\nr: f32[2,3,5]\ny = linear(x, random:f32[5,8], random:f32[5], r) "
             "activation=clip a=0 b=6\nreturn y\n"));
  expect_same(parsed("x: f32[2,3,8]\ny = linear(x, random:f32[5,8])\nreturn y\n"));
}

TEST(Export, ConvolutionsWithActivations) {
  expect_same(
      parsed("x: f32[1,4,6,6]\nr: f32[1,6,6,6]\n"
             "y = conv(x, random:f32[6,2,3,3], random:f32[6], r) kernel=[3,3] strides=[1,1] "
             "pads=[1,1,1,1] dilations=[1,1] group=2 activation=leaky_relu a=0.1\nreturn y\n"));
  expect_same(
      parsed("x: f32[1,4,5]\ny = conv(x, random:f32[4,3,4]) kernel=[4] strides=[2] pads=[1,1] "
             "dilations=[1] transposed=true output_padding=[0] activation=silu a=1\nreturn y\n"));
}

TEST(Export, NormsOfEveryKind) {
  expect_same(
      parsed("x: f32[3,8]\nh = norm(x, random:f32[8], random:f32[8]) kind=layer\nk = norm(h, "
             "random:f32[8]) kind=rms epsilon=1e-6\ny = norm(k) kind=layer\nreturn y\n"));
  expect_same(
      parsed("x: f32[2,4,5]\nh = norm(x, random:f32[4], random:f32[4]) kind=instance\ny = norm(h, "
             "random:f32[4], random:f32[4]) kind=group groups=2\nreturn y\n"));
  expect_same(
      parsed("x: f32[2,4,5]\ny = norm(x, random:f32[2], random:f32[2]) kind=group groups=2 "
             "affine_per_group=true\nreturn y\n"));
  expect_same(
      parsed("x: f32[3,8]\nr: f32[3,8]\ny, s = norm(x, random:f32[8], random:f32[8], r) "
             "kind=layer\nz = binary(y, s) kind=mul\nreturn z\n"));
}

TEST(Export, AffineActivationsAndSums) {
  expect_same(
      parsed("x: f32[2,3,4]\na = affine(x, random:f32[3], random:f32[3]) axis=1 "
             "activation=gelu_erf\nb = binary(a, x) kind=add activation=tanh\n"
             "c = unary(b) kind=gelu_tanh\nd = unary(c) kind=square\ny = unary(d) kind=silu "
             "a=1.702\nreturn y\n"));
}

TEST(Export, QuantizedTypesBecomeQuantizeAndDequantize) {
  const graph::Graph g =
      parsed("x: f32[2,3]\nq: u8[2,3] @(0.05,100) = quantize(x)\ny = dequantize(q)\nreturn y\n");
  expect_same(g);
  const TempFolder folder;
  ASSERT_TRUE(export_file(g, folder / "m.onnx").ok());
  const std::string bytes = read_bytes(folder / "m.onnx");
  EXPECT_THAT(bytes, HasSubstr("QuantizeLinear"));
  EXPECT_THAT(bytes, HasSubstr("DequantizeLinear"));
}

TEST(Export, LargeModelsKeepTheirWeightsBesideThem) {
  const TempFolder folder;
  const graph::Graph g =
      parsed("x: f32[2,64]\ny = linear(x, random:f32[32,64], random:f32[32])\nreturn y\n");
  ASSERT_TRUE(export_file(g, folder / "m.onnx", 100).ok());
  EXPECT_EQ(std::filesystem::file_size(folder / "m.onnx.data"), 32u * 64 * 4);
  EXPECT_LT(std::filesystem::file_size(folder / "m.onnx"), 2000u);
  const auto back = import_file(folder / "m.onnx");
  ASSERT_TRUE(back.ok()) << back.error().message;
}

TEST(Export, WhatOnnxCannotSayIsAnErrorThatNamesTheNode) {
  const TempFolder folder;
  graph::Graph g =
      parsed("x: f32[2,3]\nq, s = dynamic_quantize(x)\ny = dequantize(q, s)\nreturn y\n");
  const auto r = export_file(g, folder / "m.onnx");
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().code, Code::unsupported);
  EXPECT_FALSE(std::filesystem::exists(folder / "m.onnx"));
}

TEST(Export, FullDisksAndMissingFoldersAreIoErrors) {
  const auto r = export_file(parsed("x: f32[2]\ny = unary(x) kind=relu\nreturn y\n"),
                             "/nonexistent/folder/m.onnx");
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().code, Code::io);
}

TEST(Export, AttentionInEveryForm) {
  const std::string heads = "q: f32[2,4,5,6]\nk: f32[2,2,7,6]\nv: f32[2,2,7,3]\n",
                    op = " heads=4 kv_heads=2 depth=6 value_depth=3 scale=0.4";
  expect_same(parsed(heads + "y = attention(q, k, v)" + op + "\nreturn y\n"));
  expect_same(
      parsed(heads + "y = attention(q, k, v)" + op + " softcap=1.5 causal=true\nreturn y\n"));
  expect_same(parsed(heads + "m: f32[5,7]\ny = attention(q, k, v, m)" + op + "\nreturn y\n"));
  expect_same(parsed(heads +
                     "pk: f32[2,2,4,6]\npv: f32[2,2,4,3]\nm: f32[2,4,5,11]\n"
                     "y, nk, nv = attention(q, k, v, m, pk, pv)" +
                     op + " causal=true\nreturn y, nk, nv\n"));
  expect_same(
      parsed("x: f32[2,5,48]\ny = attention(x, x, x) heads=4 kv_heads=2 depth=6 value_depth=6 "
             "scale=0.4 q_rows=true k_rows=true v_rows=true y_rows=true k_offset=24 v_offset=36 "
             "causal=true\nreturn y\n"));
}

TEST(Export, AttentionWithInt8ProductsIsRefused) {
  const auto e =
      export_file(parsed("q: f32[1,2,5,6]\ny = attention(q, q, q) heads=2 kv_heads=2 depth=6 "
                         "value_depth=6 int8=true\nreturn y\n"),
                  TempFolder() / "m.onnx");
  ASSERT_FALSE(e.ok());
  EXPECT_THAT(e.error().message, HasSubstr("INT8"));
}

TEST(Export, RotaryInEveryForm) {
  for (const char* form : {"", " interleaved=true"})
    for (const char* table : {"[5,3]", "[5,6]", "[2,5,3]", "[2,1,5,6]"}) {
      const std::string tables = "c: f32" + std::string(table) + "\ns: f32" + table + "\n";
      expect_same(parsed("x: f32[2,4,5,8]\n" + tables +
                         "y = rotary(x, c, s) heads=4 depth=8 dims=6" + form + "\nreturn y\n"));
      expect_same(parsed("x: f32[2,5,32]\n" + tables +
                         "y = rotary(x, c, s) heads=4 depth=8 dims=6 rows=true" + form +
                         "\nreturn y\n"));
    }
}

}  // namespace
}  // namespace fold8::onnx_io
