// What convert makes can be taken apart again: every layer of an emitted model runs alone, packed
// weights, layouts, per-token scales and all.
#include "fusion/convert.h"
#include "quant/compare.h"
#include "tests/fusion/int8_testing.h"

namespace fold8::fusion {
namespace {

constexpr const char* kCnn = R"(
x: f32[n,3,8,8]
c = conv(x, random:f32[8,3,3,3]) kernel=[3,3] strides=[1,1] pads=[1,1,1,1] dilations=[1,1]
b = batch_norm(c, random_positive:f32[8], random:f32[8], random:f32[8], random_positive:f32[8])
r = relu(b)
d = conv(r, random:f32[8,1,3,3], random:f32[8]) kernel=[3,3] strides=[1,1] pads=[1,1,1,1] dilations=[1,1] group=8
e = add(d, r)
t = conv(e, random:f32[8,4,2,2]) kernel=[2,2] strides=[2,2] pads=[0,0,0,0] dilations=[1,1] transposed=true
m = max_pool(t) kernel=[2,2] strides=[2,2] pads=[0,0,0,0] dilations=[1,1]
p = average_pool(m) global=true
f = flatten(p)
y = linear(f, random:f32[5,4], random:f32[5])
return y
)";

// One pre-norm block with a head.
constexpr const char* kTransformer = R"(
x: f32[2,t,8]
n = norm(x, random_positive:f32[8], random:f32[8]) kind=layer
q = linear(n, random:f32[8,8], random:f32[8])
k = linear(n, random:f32[8,8], random:f32[8])
v = linear(n, random:f32[8,8], random:f32[8])
s = matmul(q, k) transpose_b=true alpha=0.35
a = softmax(s)
o = matmul(a, v)
h = linear(o, random:f32[8,8], random:f32[8])
i = add(h, x)
j = norm(i, random_positive:f32[8]) kind=rms
u = linear(j, random:f32[16,8])
g = unary(u) kind=gelu_erf
w = linear(g, random:f32[8,16], random:f32[8])
z = norm(w, random_positive:f32[8], random:f32[8]) kind=layer
y = linear(z, random:f32[5,8])
return y
)";

struct Pair {
  Converted of_float, int8;
  quant::Comparison comparison;
};

Pair converted_and_compared(const char* text) {
  const graph::Graph g = parsed(text);
  auto samples = normal_samples(g, 6);
  Pair p;
  ConvertOptions options;
  options.float_only = true;
  auto a = convert(g, &samples, options), b = convert(g, &samples, {});
  EXPECT_TRUE(a.ok() && b.ok()) << (a.ok() ? b.error().message : a.error().message);
  if (!a.ok() || !b.ok()) return p;
  p.of_float = std::move(*a);
  p.int8 = std::move(*b);
  auto c = quant::compare(model_of(p.of_float.graph), model_of(p.int8.graph), samples);
  EXPECT_TRUE(c.ok()) << c.error().message;
  if (c.ok()) p.comparison = std::move(*c);
  return p;
}

class ConvertReport : public testing::TestWithParam<const char*> {};

TEST_P(ConvertReport, EveryLayerHasItsErrors) {
  const Pair p = converted_and_compared(GetParam());
  ASSERT_FALSE(p.comparison.layers.empty());
  int int8_layers = 0;
  for (const quant::LayerError& l : p.comparison.layers) {
    EXPECT_GT(l.accumulated.elements, 0u) << l.name << " (" << l.op << ")";
    ASSERT_TRUE(l.own) << l.name << " (" << l.op << "): " << l.own_missing;
    EXPECT_EQ(l.own->elements, l.accumulated.elements) << l.name;
    EXPECT_GT(l.own->exact ? 1e9 : l.own->sqnr_db.value_or(0), 20) << l.name;
    int8_layers += l.int8;
  }
  EXPECT_GE(int8_layers, 4);
}

TEST_P(ConvertReport, TheSummaryAndTheReportAgree) {
  const Pair p = converted_and_compared(GetParam());
  ASSERT_EQ(p.comparison.outputs.size(), 1u);
  ASSERT_EQ(p.int8.summary.outputs.size(), 1u);
  EXPECT_EQ(p.comparison.outputs[0].error.sqnr_db, p.int8.summary.outputs[0].error.sqnr_db);
  EXPECT_EQ(p.int8.summary.int8_mac_share, 1.0);
}

TEST_P(ConvertReport, AFloatModelIsExactInEveryLayer) {
  const Pair p = converted_and_compared(GetParam());
  auto samples = normal_samples(parsed(GetParam()), 2, 7);
  const auto model = model_of(p.of_float.graph);
  const auto c = quant::compare(model, model, samples);
  ASSERT_TRUE(c.ok()) << c.error().message;
  for (const quant::LayerError& l : c->layers) {
    EXPECT_TRUE(l.accumulated.exact) << l.name;
    ASSERT_TRUE(l.own) << l.name << ": " << l.own_missing;
    EXPECT_TRUE(l.own->exact) << l.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, ConvertReport, testing::Values(kCnn, kTransformer),
                         [](const auto& p) { return p.index == 0 ? "Cnn" : "Transformer"; });

}  // namespace
}  // namespace fold8::fusion
