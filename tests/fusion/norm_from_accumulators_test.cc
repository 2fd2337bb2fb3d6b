// Norms that read INT32 accumulators: which are rewritten, that not a bit changes, and which must
// stay.
#include "fusion/passes/norm_from_accumulators.h"

#include <gtest/gtest.h>

#include <cstring>

#include "fusion/rewrite/driver.h"
#include "runtime/exec/model.h"
#include "runtime/exec/session.h"
#include "runtime/graph/text.h"
#include "tests/support/random.h"

namespace fold8::fusion {
namespace {

using graph::Graph;

Graph parsed(const std::string& text) {
  auto g = graph::parse(text);
  EXPECT_TRUE(g.ok()) << g.error().message;
  EXPECT_TRUE(exec::infer_types(*g).ok());
  return std::move(*g);
}

int rewritten(Graph& g) {
  const auto tally = run(Pass(&norm_from_accumulators), g);
  EXPECT_TRUE(tally.ok()) << tally.error().message;
  return tally.ok() ? tally->applied : -1;
}

std::vector<Tensor> evaluate(const Graph& g, const std::vector<TensorView>& inputs) {
  std::vector<Tensor> results;
  auto session = exec::Session::create(exec::Model::from_graph(g).value());
  EXPECT_TRUE(session.ok());
  const Status s = (*session)->run(inputs);
  EXPECT_TRUE(s.ok()) << s.error().message;
  for (const TensorView& v : (*session)->outputs()) {
    Tensor t(v.dtype, v.shape);
    std::memcpy(t.view().data, v.data, v.bytes());
    results.push_back(std::move(t));
  }
  return results;
}

const std::string kPostNorm = R"(
x: f32[5,24]
r: f32[5,40]
q, s = dynamic_quantize(x)
h: f32[5,40] = linear(q, random:s8[40,24] @channel(0), random:f32[40], r, s)
y: f32[5,40] = layer_norm(h, random:f32[40], random:f32[40])
return y
)";
const std::string kPreNorm = R"(
x: f32[5,24]
r: f32[5,40]
xq: u8[5,24] @(0.03,119) = quantize(x)
h: f32[5,40] = linear(xq, random:s8[40,24] @channel(0), random:f32[40], r)
y: f32[5,40] = rms_norm(h, random:f32[40])
z: f32[5,40] = add(h, y)
return z, h
)";

void expect_same_bits(const std::string& text) {
  testing::SeededRng rng;
  Graph before = parsed(text), after = before;
  ASSERT_EQ(rewritten(after), 1);
  Tensor x(DType::f32, Shape{5, 24}), r(DType::f32, Shape{5, 40});
  rng.fill_normal(x.as<float>(), 0.5f);
  rng.fill_normal(r.as<float>());
  const auto a = evaluate(before, {x.view(), r.view()}), b = evaluate(after, {x.view(), r.view()});
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(std::memcmp(a[i].view().data, b[i].view().data, a[i].bytes()), 0) << "output " << i;
}

TEST(NormFromAccumulators, TheLayerWritesSums) {
  Graph g = parsed(kPostNorm);
  ASSERT_EQ(rewritten(g), 1);
  const std::string text = graph::to_text(g);
  EXPECT_NE(text.find("h_acc: s32[5,40] = linear("), std::string::npos) << text;
  EXPECT_NE(text.find("norm(h_acc,"), std::string::npos) << text;
  EXPECT_EQ(g.find_value("h"), graph::kNoValue);
}

TEST(NormFromAccumulators, ASkipConnectionReadsTheSumTheNormWrites) {
  Graph g = parsed(kPreNorm);
  ASSERT_EQ(rewritten(g), 1);
  EXPECT_TRUE(g.is_output(g.find_value("h")));
}

TEST(NormFromAccumulators, PerTokenRowsKeepEveryBit) { expect_same_bits(kPostNorm); }
TEST(NormFromAccumulators, StaticScalesKeepEveryBit) { expect_same_bits(kPreNorm); }

TEST(NormFromAccumulators, LeavesWhatIsNotTheSame) {
  Graph float_layer = parsed(
      "x: f32[5,24]\nh = linear(x, random:f32[40,24])\ny = layer_norm(h, random:f32[40])\nreturn "
      "y\n");
  EXPECT_EQ(rewritten(float_layer), 0);
  Graph activated = parsed(R"(
x: u8[5,24] @(0.03,119)
h: f32[5,40] = linear(x, random:s8[40,24] @channel(0)) activation=gelu_erf
y: f32[5,40] = layer_norm(h, random:f32[40])
return y
)");
  EXPECT_EQ(rewritten(activated), 0);
  Graph long_sum = parsed(R"(
x: u8[1,70000] @(0.03,119)
h: f32[1,16] = linear(x, zeros:s8[16,70000] @channel(0))
y: f32[1,16] = layer_norm(h, random:f32[16])
return y
)");
  EXPECT_EQ(rewritten(long_sum), 0);
  Graph two_axes = parsed(R"(
x: u8[2,5,24] @(0.03,119)
h: f32[2,5,40] = linear(x, random:s8[40,24] @channel(0))
y: f32[2,5,40] = layer_norm(h, random:f32[5,40]) axis=1
return y
)");
  EXPECT_EQ(rewritten(two_axes), 0);
}

}  // namespace
}  // namespace fold8::fusion
