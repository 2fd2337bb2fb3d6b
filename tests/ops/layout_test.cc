// channels_last against plain: the same logical numbers, bit by bit, whatever mix of layouts goes
// in and comes out.
#include "runtime/ops/op_impl.h"
#include "tests/ops/run_graph.h"

namespace fold8::ops {
namespace {

struct LayoutCase {
  const char* op;     // over x: f32[2,6,4,4] (and r, the same)
  const char* shape;  // of y
};
const LayoutCase kCases[] = {
    {"conv(x, random:f32[5,6,3,3]) pads=[1,1,1,1]", "[2,5,4,4]"},
    {"conv(x, random:f32[6,6,1,1], _, r) activation=clip b=6", "[2,6,4,4]"},
    {"conv(x, random:f32[6,1,3,3]) group=6", "[2,6,2,2]"},
    {"conv(x, random:f32[6,2,2,2]) group=2 strides=[2,2] transposed=true", "[2,4,8,8]"},
    {"pool(x) kind=max kernel=[3,3] pads=[1,1,1,1]", "[2,6,4,4]"},
    {"pool(x) kind=average kernel=[2,2]", "[2,6,3,3]"},
    {"pool(x) kind=average global=true", "[2,6,1,1]"},
    {"pool(x) kind=lp kernel=[2,2]", "[2,6,3,3]"},
    {"unary(x) kind=silu a=1", "[2,6,4,4]"},
    {"binary(x, r) kind=add", "[2,6,4,4]"},
    {"binary(x, random:f32[6,1,1]) kind=mul", "[2,6,4,4]"},
    {"binary(random:f32[1,6,1,1], x) kind=sub", "[2,6,4,4]"},
    {"binary(x, random:f32[4]) kind=add", "[2,6,4,4]"},
    {"affine(x, random:f32[6], random:f32[6])", "[2,6,4,4]"},
    {"batch_norm(x, random:f32[6], random:f32[6], random:f32[6], random_positive:f32[6])",
     "[2,6,4,4]"},
    {"norm(x, random:f32[6], random:f32[6]) kind=group groups=3", "[2,6,4,4]"},
    {"norm(x) kind=instance", "[2,6,4,4]"},
    {"norm(x, random:f32[4]) kind=layer", "[2,6,4,4]"},
    {"softmax(x) axis=1", "[2,6,4,4]"},
    {"lrn(x) size=3", "[2,6,4,4]"},
    {"reduce(x) kind=mean axes=[2,3]", "[2,6,1,1]"},
    {"reduce(x) kind=sum axes=[1]", "[2,1,4,4]"},
    {"reduce(x) kind=l2 axes=[0,3]", "[1,6,4,1]"},
    {"resize(x, f32[4]{1,1,2,2}) mode=linear", "[2,6,8,8]"},
    {"resize(x, f32[4]{1,1,2,1.5})", "[2,6,8,6]"},
    {"resize(x, f32[4]{1,1,1.5,2}) mode=cubic", "[2,6,6,8]"},
    {"concat(x, r) axis=1", "[2,12,4,4]"},
    {"concat(x, r) axis=3", "[2,6,4,8]"},
    {"slice(x, s64{1,1}, s64{5,9}, s64{1,2}, s64{2,1})", "[2,2,3,4]"},
    {"pad(x, s64{0,1,1,2,0,0,1,1})", "[2,7,6,7]"},
    {"pad(x, s64{0,0,1,2,0,0,1,1}) mode=reflect", "[2,6,6,7]"},
    {"transpose(x) perm=[0,2,3,1]", "[2,4,4,6]"},
    {"transpose(x) perm=[3,1,0,2]", "[4,6,2,4]"},
    {"space_to_depth(x) block=2", "[2,24,2,2]"},
    {"tile(x, s64{1,2,1,2})", "[2,12,4,8]"},
    {"expand(x, s64{2,6,4,4})", "[2,6,4,4]"},
    {"reshape(x, s64{2,3,8,4})", "[2,3,8,4]"},
    {"gather(x, s64{3,0}) axis=1", "[2,2,4,4]"},
    {"where(bool[6,1,1]{1,0,1,0,0,1}, x, r)", "[2,6,4,4]"},
    {"identity(x)", "[2,6,4,4]"},
    {"relayout(x)", "[2,6,4,4]"},
    {"cast(x) to=f32", "[2,6,4,4]"},
    {"linear(x, random:f32[7,4])", "[2,6,4,7]"},
    {"cum_sum(x, s64[]{1})", "[2,6,4,4]"},
};

TEST(Layouts, ChannelsLastGivesTheSameBits) {
  const Evaluated x = random_f32({2, 6, 4, 4}, 1), r = random_f32({2, 6, 4, 4}, 2);
  for (const LayoutCase& l : kCases) {
    const auto text = [&](bool x_last, bool y_last) {
      const std::string in = x_last ? " nhwc" : "", out = y_last ? " nhwc" : "";
      return "x: f32[2,6,4,4]" + in + "\n r: f32[2,6,4,4]" + in + "\n y: f32" + l.shape + out +
             " = " + l.op + "\n return y";
    };
    const auto want = run_one(text(false, false), {x, r}).as<float>();
    ASSERT_FALSE(want.empty()) << l.op;
    const Evaluated xl = channels_last(x), rl = channels_last(r);
    EXPECT_EQ(plain(run_one(text(true, true), {xl, rl}, {nullptr, 2})).as<float>(), want)
        << l.op << " both";
    EXPECT_EQ(run_one(text(true, false), {xl, rl}).as<float>(), want) << l.op << " in";
    EXPECT_EQ(plain(run_one(text(false, true), {x, r})).as<float>(), want) << l.op << " out";
  }
}

TEST(Layouts, QuantizedChannelsLastGivesTheSameBits) {
  const Evaluated x = random_u8({2, 6, 4, 4}, 1), r = random_u8({2, 6, 4, 4}, 2);
  for (const LayoutCase l :
       {LayoutCase{"conv(x, random:s8[5,6,3,3] @channel(0)) pads=[1,1,1,1]", "[2,5,4,4]"},
        LayoutCase{"conv(x, random:s8[6,1,3,3] @channel(0)) group=6", "[2,6,2,2]"},
        LayoutCase{"binary(x, r) kind=add", "[2,6,4,4]"},
        LayoutCase{"pool(x) kind=average kernel=[2,2]", "[2,6,3,3]"},
        LayoutCase{"softmax(x)", "[2,6,4,4]"}, LayoutCase{"unary(x) kind=tanh", "[2,6,4,4]"},
        LayoutCase{"concat(x, r) axis=1", "[2,12,4,4]"},
        LayoutCase{"resize(x, f32[4]{1,1,2,2}) mode=linear", "[2,6,8,8]"}}) {
    const auto text = [&](bool last) {
      const std::string f = last ? " nhwc" : "";
      return "x: u8[2,6,4,4] @(0.1,100)" + f + "\n r: u8[2,6,4,4] @(0.2,80)" + f + "\n y: u8" +
             l.shape + " @(0.15,110)" + f + " = " + l.op + "\n return y";
    };
    const auto want = run_one(text(false), {x, r}).as<std::uint8_t>();
    EXPECT_EQ(plain(run_one(text(true), {channels_last(x), channels_last(r)}, {nullptr, 2}))
                  .as<std::uint8_t>(),
              want)
        << l.op;
  }
}

TEST(Layouts, ARelayoutQuantizesOnTheWay) {
  for (const Shape& shape : {Shape{2, 3, 5, 7}, Shape{2, 21, 4, 9}, Shape{1, 4, 70},
                             Shape{3, 1, 6, 6}, Shape{2, 5, 1, 1}}) {
    const Evaluated x = random_f32(shape, 3, 9);
    const auto text = [&](const char* op, const char* layout) {
      return "x: f32" + to_string(shape) + "\n y: u8" + to_string(shape) + " @(0.1,100)" + layout +
             " = " + op + "(x)\n return y";
    };
    const auto want = run_one(text("quantize", ""), {x}).as<std::uint8_t>();
    for (const kernels::Target* t : runnable_targets())
      for (int threads : {1, 2})
        EXPECT_EQ(plain(run_one(text("relayout", " nhwc"), {x}, {t->kernels, threads}))
                      .as<std::uint8_t>(),
                  want)
            << to_string(shape) << " " << t->name;
  }
  EXPECT_NE(failure("x: f32[2,3,5,7] nhwc\n y: u8[2,3,5,7] @(0.1,100) = relayout(x)\n return y",
                    {channels_last(random_f32({2, 3, 5, 7}, 1))}),
            "");
}

TEST(Layouts, TraitsTellPlansTheTruth) {
  const TensorType plain{DType::f32, {2, 6, 4, 4}, {}, Layout::plain},
      last{DType::f32, {2, 6, 4, 4}, {}, Layout::channels_last};
  const TensorType flat{DType::f32, {2, 96}, {}, Layout::plain},
      pooled{DType::f32, {2, 6, 1, 1}, {}, Layout::channels_last},
      vector{DType::f32, {2, 6}, {}, Layout::plain};
  EXPECT_TRUE(is_view(graph::Flatten{}, plain, flat));
  EXPECT_FALSE(is_view(graph::Flatten{}, last, flat));
  EXPECT_TRUE(is_view(graph::Flatten{}, pooled, vector));
  EXPECT_TRUE(is_view(graph::Transpose{{0, 1, 3, 2}}, {DType::f32, {2, 6, 1, 4}, {}, Layout::plain},
                      {DType::f32, {2, 6, 4, 1}, {}, Layout::plain}));
  EXPECT_FALSE(is_view(graph::Transpose{{0, 2, 1, 3}}, plain,
                       {DType::f32, {2, 4, 6, 4}, {}, Layout::plain}));
  EXPECT_TRUE(may_run_in_place(graph::Unary{}, 0, plain, plain));
  EXPECT_FALSE(may_run_in_place(graph::Unary{}, 0, plain, last));
  EXPECT_FALSE(may_run_in_place(graph::Cast{}, 0, plain, plain));
  const TensorType* in[] = {&plain};
  const TensorType* out[] = {&plain};
  EXPECT_TRUE(accepts_channels_last(graph::Unary{}, in, out));
  EXPECT_FALSE(accepts_channels_last(graph::Softmax{}, in, out));
  EXPECT_TRUE(needs_known_ints(graph::Reshape{}, 1));
  EXPECT_FALSE(needs_known_ints(graph::Gather{}, 1));
}

TEST(ControlFlow, IsRefusedByName) {
  InferContext c;
  const Status s = infer(graph::Loop{}, c);
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().code, Code::unsupported);
  EXPECT_THAT(s.error().message, ::testing::HasSubstr("'loop'"));
  EXPECT_FALSE(prepare(graph::Op{graph::If{}}, PrepareContext{}).ok());
}

}  // namespace
}  // namespace fold8::ops
