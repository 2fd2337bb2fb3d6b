// Elementwise operators, quantization, norms, reductions and pools against values worked out by
// hand.
#include <cmath>
#include <limits>

#include "tests/ops/run_graph.h"

namespace fold8::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using I = std::int64_t;

auto near(std::vector<float> v, float by = 1e-5f) { return Pointwise(FloatNear(by), v); }

TEST(Elementwise, Unary) {
  const Evaluated x = value<float>({4}, {-2, -0.5f, 0, 3});
  const auto f = [&](const std::string& kind) {
    return run_one("x: f32[4]\n y = unary(x) kind=" + kind + "\n return y", {x}).as<float>();
  };
  EXPECT_THAT(f("relu"), ElementsAre(0, 0, 0, 3));
  EXPECT_THAT(f("clip a=-1 b=2"), ElementsAre(-1, -0.5f, 0, 2));
  EXPECT_THAT(f("sigmoid"), near({0.1192029f, 0.3775407f, 0.5f, 0.9525741f}));
  EXPECT_THAT(f("gelu_erf"), near({-0.0455003f, -0.1542687f, 0, 2.9959502f}));
  EXPECT_THAT(f("square"), ElementsAre(4, 0.25f, 0, 9));
  EXPECT_THAT(f("sin"), near({-0.9092974f, -0.4794255f, 0, 0.1411200f}));
  const Evaluated n =
      run_one("x: f32[2]\n y = unary(x) kind=is_nan\n return y", {value<float>({2}, {NAN, 1})});
  EXPECT_THAT(n.as<std::uint8_t>(), ElementsAre(1, 0));
  EXPECT_THAT(
      run_one("x: s64[3]\n y = unary(x) kind=abs\n return y", {value<I>({3}, {-7, 0, 5})}).as<I>(),
      ElementsAre(7, 0, 5));
  EXPECT_THAT(
      failure("x: s32[1]\n y = unary(x) kind=exp\n return y", {value<std::int32_t>({1}, {1})}),
      HasSubstr("'exp' over s32"));
}
TEST(Elementwise, QuantizedUnaryIsATable) {
  const Evaluated x = value<std::uint8_t>({3}, {0, 128, 255});
  const Evaluated y = run_one(
      "x: u8[3] @(0.0625,128)\n y: u8[3] @(0.00390625,0) = unary(x) kind=sigmoid\n return y", {x});
  EXPECT_THAT(y.as<std::uint8_t>(), ElementsAre(0, 128, 255));  // sigmoid(-8), (0), (7.94)
  const Evaluated s =
      run_one("x: s8[3] @(0.5,0)\n y: s8[3] @(0.5,0) = unary(x) kind=relu\n return y",
              {value<std::int8_t>({3}, {-5, 0, 9})});
  EXPECT_THAT(s.as<std::int8_t>(), ElementsAre(0, 0, 9));
}
TEST(Elementwise, BinaryBroadcasts) {
  EXPECT_THAT(run_one("a: f32[2,1]\n b: f32[3]\n y = binary(a, b) kind=sub\n return y",
                      {value<float>({2, 1}, {1, 2}), value<float>({3}, {1, 10, 100})})
                  .as<float>(),
              ElementsAre(0, -9, -99, 1, -8, -98));
  EXPECT_THAT(
      run_one("a: f32[3]\n b: f32[]\n y = binary(a, b) kind=mul activation=clip a=0 b=5\n return y",
              {value<float>({3}, {-1, 2, 9}), value<float>({}, {2})})
          .as<float>(),
      ElementsAre(0, 4, 5));
  EXPECT_THAT(run_one("a: f32[2]\n b: f32[2]\n y = binary(a, b) kind=less\n return y",
                      {value<float>({2}, {1, 2}), value<float>({2}, {2, 2})})
                  .as<std::uint8_t>(),
              ElementsAre(1, 0));
}
TEST(Elementwise, Integers) {
  const auto f = [](const std::string& kind, std::vector<I> a, std::vector<I> b) {
    const auto n = static_cast<I>(a.size());
    return run_one("a: s64[?]\n b: s64[?]\n y = binary(a, b) kind=" + kind + "\n return y",
                   {value<I>({n}, a), value<I>({n}, b)})
        .as<I>();
  };
  EXPECT_THAT(f("div", {-7, 7, 7, 1, std::numeric_limits<I>::min()}, {2, -2, 0, 1, -1}),
              ElementsAre(-3, -3, 0, 1, std::numeric_limits<I>::min()));
  EXPECT_THAT(f("mod", {-7, 7, -7}, {3, -3, -3}), ElementsAre(2, -2, -1));
  EXPECT_THAT(f("fmod", {-7, 7, -7}, {3, -3, -3}), ElementsAre(-1, 1, -1));
  EXPECT_THAT(f("pow", {2, -1, 3}, {10, 3, 0}), ElementsAre(1024, -1, 1));
  EXPECT_THAT(f("max", {1, 5}, {3, 2}), ElementsAre(3, 5));
  EXPECT_THAT(run_one("a: u8[2]\n b: u8[2]\n y = binary(a, b) kind=add\n return y",
                      {value<std::uint8_t>({2}, {250, 1}), value<std::uint8_t>({2}, {10, 2})})
                  .as<std::uint8_t>(),
              ElementsAre(4, 3));
  EXPECT_THAT(run_one("a: bool[4]\n b: bool[4]\n y = binary(a, b) kind=logical_xor\n return y",
                      {booleans({4}, {0, 0, 1, 1}), booleans({4}, {0, 1, 0, 1})})
                  .as<std::uint8_t>(),
              ElementsAre(0, 1, 1, 0));
}
TEST(Elementwise, QuantizedAddFollowsTheContract) {
  const Evaluated a = random_u8({300}, 1), b = random_u8({300}, 2);
  for (const bool is_signed : {false, true}) {
    const std::string t = is_signed ? "s8" : "u8", za = is_signed ? "-28" : "100",
                      zb = is_signed ? "2" : "130", zy = is_signed ? "-8" : "120";
    Evaluated x = a, w = b;
    if (is_signed) {
      x = value<std::int8_t>({300}, a.as<std::int8_t>());
      w = value<std::int8_t>({300}, b.as<std::int8_t>());
      for (std::size_t i = 0; i < 300; ++i) {
        x.data->mutable_data()[i] ^= std::byte{0x80};
        w.data->mutable_data()[i] ^= std::byte{0x80};
      }
    }
    auto got =
        run_one("a: " + t + "[300] @(0.1," + za + ")\n b: " + t + "[300] @(0.03," + zb +
                    ")\n y: " + t + "[300] @(0.07," + zy + ") = binary(a, b) kind=add\n return y",
                {x, w})
            .as<std::uint8_t>();
    const auto ma = static_cast<float>(double(0.1f) / double(0.07f)),
               mb = static_cast<float>(double(0.03f) / double(0.07f));
    for (std::size_t i = 0; i < 300; ++i) {
      const float r = std::fma(float(a.as<std::uint8_t>()[i] - 100), ma,
                               float(b.as<std::uint8_t>()[i] - 130) * mb);
      const int q = static_cast<int>(std::nearbyintf(std::min(std::max(r, -120.0f), 135.0f))) + 120;
      ASSERT_EQ(is_signed ? got[i] ^ 0x80 : got[i], q) << i;
    }
  }
}
TEST(Elementwise, WhereCastAffine) {
  EXPECT_THAT(run_one("c: bool[2,1]\n a: f32[2]\n b: f32[]\n y = where(c, a, b)\n return y",
                      {booleans({2, 1}, {1, 0}), value<float>({2}, {1, 2}), value<float>({}, {9})})
                  .as<float>(),
              ElementsAre(1, 2, 9, 9));
  EXPECT_THAT(run_one("x: f32[4]\n y = cast(x) to=s32\n return y",
                      {value<float>({4}, {1.9f, -1.9f, 3e9f, NAN})})
                  .as<std::int32_t>(),
              ElementsAre(1, -1, INT32_MIN, INT32_MIN));
  EXPECT_THAT(run_one("x: f32[3]\n h = cast(x) to=f16\n y = cast(h) to=f32\n return y",
                      {value<float>({3}, {1.0009766f, 1e-7f, 70000.0f})})
                  .as<float>(),
              ElementsAre(1.0009766f, 1.1920929e-07f, INFINITY));
  EXPECT_THAT(run_one("x: f32[2]\n y = cast(x) to=bool\n return y", {value<float>({2}, {0.5f, 0})})
                  .as<std::uint8_t>(),
              ElementsAre(1, 0));
  EXPECT_THAT(run_one("x: f32[1,2,2]\n y = affine(x, f32[2]{2,3}, f32[2]{1,0})\n return y",
                      {value<float>({1, 2, 2}, {1, 2, 3, 4})})
                  .as<float>(),
              ElementsAre(3, 5, 9, 12));
}
TEST(Quantization, QuantizeDequantizeLookup) {
  const Evaluated x = value<float>({5}, {-100, 0.25f, 0.75f, 3, NAN});
  EXPECT_THAT(
      run_one("x: f32[5]\n y: u8[5] @(0.5,10) = quantize(x)\n return y", {x}).as<std::uint8_t>(),
      ElementsAre(0, 10, 12, 16, 10));
  EXPECT_THAT(run_one("x: f32[5]\n y = quantize(x, f32[]{0.5}, s8[]{-3})\n return y", {x})
                  .as<std::int8_t>(),
              ElementsAre(-128, -3, -1, 3, -3));
  EXPECT_THAT(run_one("x: u8[3] @(0.5,10)\n y = dequantize(x)\n return y",
                      {value<std::uint8_t>({3}, {10, 12, 0})})
                  .as<float>(),
              ElementsAre(0, 1, -5));
  EXPECT_THAT(run_one("x: s8[2,2]\n y = dequantize(x, f32[2]{1,10}, s8[2]{0,1}) axis=1\n return y",
                      {value<std::int8_t>({2, 2}, {1, 2, 3, 4})})
                  .as<float>(),
              ElementsAre(1, 10, 3, 30));
  EXPECT_THAT(run_one("x: f32[1,4]\n y = quantize(x, f32[1,2]{1,10}, s8[1,2]{0,0}) axis=1 "
                      "block_size=2\n return y",
                      {value<float>({1, 4}, {1, 2, 30, 40})})
                  .as<std::int8_t>(),
              ElementsAre(1, 2, 3, 4));
}
TEST(Quantization, Dynamic) {
  const auto r = run_text("x: f32[2,3]\n q, s = dynamic_quantize(x)\n return q, s",
                          {value<float>({2, 3}, {1, -2, 0.5f, NAN, 1, 2})});
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_THAT(r->at(0).as<std::uint8_t>(), ElementsAre(192, 1, 160, 128, 128, 128));
  EXPECT_FLOAT_EQ(r->at(1).as<float>()[0], 2.0f / 127);
  EXPECT_TRUE(std::isnan(r->at(1).as<float>()[1]));
  const auto o = run_text("x: f32[3]\n q, s, z = dynamic_quantize(x) onnx=true\n return q, s, z",
                          {value<float>({3}, {-1, 0, 1.55f})});
  ASSERT_TRUE(o.ok()) << o.error().message;
  EXPECT_FLOAT_EQ(o->at(1).as<float>()[0], 0.01f);
  EXPECT_THAT(o->at(2).as<std::uint8_t>(), ElementsAre(100));
  EXPECT_THAT(o->at(0).as<std::uint8_t>(), ElementsAre(0, 100, 255));
}
TEST(Quantization, DynamicOfRotatedRows) {
  std::vector<float> x(32);
  x[0] = 254, x[17] = 127;  // the first row's element 0, the second's 1
  const auto r = run_text(
      "x: f32[2,16]\n q, s = dynamic_quantize(x, f32[16]{0.5,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}) "
      "rotated=true\n return q, s",
      {value<float>({2, 16}, x)});
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_THAT(r->at(1).as<float>(), ElementsAre(1, 1));
  const auto q = r->at(0).as<std::uint8_t>();
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(q[i], 255);
    EXPECT_EQ(q[16 + i], i % 2 == 0 ? 255 : 1);
  }
}
TEST(Quantization, OnlyRowsOfAMultipleOf16AreRotated) {
  const auto r = run_text("x: f32[1,24]\n q, s = dynamic_quantize(x) rotated=true\n return q, s",
                          {value<float>({1, 24}, std::vector<float>(24))});
  ASSERT_FALSE(r.ok());
  EXPECT_THAT(r.error().message, ::testing::HasSubstr("multiple of 16"));
}
TEST(Norms, SpecValues) {
  EXPECT_THAT(run_one("x: f32[2,3]\n y = norm(x) kind=layer\n return y",
                      {value<float>({2, 3}, {1, 2, 3, 4, 5, 6})})
                  .as<float>(),
              near({-1.224736f, 0, 1.224736f, -1.224736f, 0, 1.224736f}));
  EXPECT_THAT(run_one("x: f32[3]\n y = norm(x) kind=rms axis=0 epsilon=1e-6\n return y",
                      {value<float>({3}, {1, 2, 3})})
                  .as<float>(),
              near({0.462910f, 0.925820f, 1.388730f}));
  EXPECT_THAT(run_one("x: f32[1,3]\n y = batch_norm(x, f32[3]{1,1,1}, f32[3]{0,0,0}, "
                      "f32[3]{1,2,3}, f32[3]{1.5,4.5,9.5})\n return y",
                      {value<float>({1, 3}, {10, 20, 30})})
                  .as<float>(),
              near({7.348445f, 8.485272f, 8.759952f}));
  const auto t = run_text(
      "x: f32[2,3]\n y, m, v = batch_norm(x, f32[3]{1,1.5,2}, f32[3]{0,1,-1}, f32[3]{0,0,0}, "
      "f32[3]{1,1,1}) training=true momentum=0.5\n return y, m, v",
      {value<float>({2, 3}, {1, 2, 3, 2, 4, 6})});
  ASSERT_TRUE(t.ok()) << t.error().message;
  EXPECT_THAT(t->at(0).as<float>(),
              near({-0.999980f, -0.499993f, -2.999996f, 0.999980f, 2.499993f, 0.999996f}));
  EXPECT_THAT(t->at(1).as<float>(), near({0.75f, 1.5f, 2.25f}));
  EXPECT_THAT(t->at(2).as<float>(), near({0.625f, 1.0f, 1.625f}));
}
TEST(Norms, ResidualAndOutputs) {
  const auto r = run_text(
      "x: f32[1,4]\n r: f32[1,4]\n y, s = norm(x, f32[4]{1,1,1,1}, _, r) kind=layer\n return y, s",
      {value<float>({1, 4}, {0, 1, 2, 3}), value<float>({1, 4}, {1, 1, 1, 1})});
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_THAT(r->at(1).as<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(r->at(0).as<float>(), near({-1.341635f, -0.447212f, 0.447212f, 1.341635f}));
  const Evaluated q =
      run_one("x: u8[1,3] @(1,5)\n y: u8[1,3] @(0.01,128) = norm(x) kind=layer\n return y",
              {value<std::uint8_t>({1, 3}, {6, 7, 8})});
  EXPECT_THAT(q.as<std::uint8_t>(), ElementsAre(6, 128, 250));
  EXPECT_THAT(run_one("x: f32[1,2,2]\n y = norm(x) kind=instance\n return y",
                      {value<float>({1, 2, 2}, {1, 3, 10, 30})})
                  .as<float>(),
              near({-0.999995f, 0.999995f, -1, 1}));
  EXPECT_THAT(
      run_one(
          "x: f32[1,2,2]\n y = norm(x, f32[2]{1,2}, f32[2]{0,1}) kind=group groups=1\n return y",
          {value<float>({1, 2, 2}, {1, 1, 3, 3})})
          .as<float>(),
      near({-0.999995f, -0.999995f, 2.99999f, 2.99999f}));
}
// What a norm of rows may read and write, on every target: the bytes of its parts one after the
// other on the reference.
struct NormForm {
  bool codes_in, residual, f32_out;
  const char* rounding;  // "", the type of static codes, or of codes per token
  const char* kind;

  bool token() const { return std::string(rounding).ends_with("token"); }
  bool rounds() const { return *rounding != 0; }
  std::string head() const {
    return std::string("x: ") + (codes_in ? "u8[3,40] @(0.03,120)" : "f32[3,40]") +
           "\n r: f32[3,40]\n ";
  }
  std::string tail(const std::string& gamma, const char* operands) const {
    return "(" + std::string(operands) + ", " + gamma +
           (rounds_residual(operands) ? ", _, r" : "") + ") kind=" + kind;
  }
  bool rounds_residual(const char* operands) const { return residual && *operands == 'x'; }
  std::string returned() const {
    std::string all;
    for (const auto& [wanted, name] :
         {std::pair(f32_out, "y"), {rounds(), "q"}, {token(), "t"}, {residual, "s"}})
      if (wanted) all += (all.empty() ? "" : ", ") + std::string(name);
    return "\n return " + all;
  }
  std::string in_parts(const std::string& gamma) const {
    std::string text = head();
    if (residual) text += codes_in ? "v = dequantize(x)\n " : "v = identity(x)\n ";
    if (residual) text += "s = binary(v, r) kind=add\n ";
    text += "y = norm" + tail(gamma, residual ? "s" : "x");
    if (rounds())
      text += "\n q: u8[3,40] " + std::string(rounding) +
              (token() ? ", t = dynamic_quantize(y)" : " = quantize(y)");
    return text + returned();
  }
  std::string at_once(const std::string& gamma) const {
    const std::string codes = "q: u8[3,40] " + std::string(rounding);
    std::string outputs = f32_out ? "y" : codes;
    outputs += residual ? ", s" : ", _";
    outputs += token() ? ", t" : ", _";
    if (f32_out && rounds()) outputs += ", " + codes;
    while (outputs.ends_with(", _")) outputs.resize(outputs.size() - 3);
    return head() + outputs + " = norm" + tail(gamma, "x") + returned();
  }
};

TEST(Norms, EveryFormOfRowsGivesTheBytesOfItsParts) {
  const Evaluated real = random_f32({3, 40}, 5, 2), codes = random_u8({3, 40}, 5),
                  residual = random_f32({3, 40}, 6);
  std::string gamma = "f32[40]{";
  for (int i = 0; i < 40; ++i) gamma += (i ? "," : "") + std::to_string(0.5 + 0.03 * i);
  gamma += "}";
  for (int form = 0; form < 48; ++form) {
    static constexpr const char* kRoundings[] = {"", "@(0.02,128)", "@token"};
    const NormForm f{form % 2 == 1, form / 2 % 2 == 1, form / 4 % 2 == 1, kRoundings[form / 16],
                     form / 8 % 2 == 1 ? "rms" : "layer"};
    if (!f.f32_out && !f.rounds()) continue;
    const std::vector<Evaluated> inputs{f.codes_in ? codes : real, residual};
    const auto want = run_text(f.in_parts(gamma), inputs, {runnable_targets().back()->kernels, 1});
    ASSERT_TRUE(want.ok()) << want.error().message << "\n" << f.in_parts(gamma);
    for (const kernels::Target* t : runnable_targets()) {
      const auto got = run_text(f.at_once(gamma), inputs, {t->kernels, 2});
      ASSERT_TRUE(got.ok()) << got.error().message << "\n" << f.at_once(gamma);
      for (std::size_t o = 0; o < want->size(); ++o)
        EXPECT_EQ(0, std::memcmp(got->at(o).data->data(), want->at(o).data->data(),
                                 want->at(o).data->size()))
            << f.at_once(gamma) << "\noutput " << o << " on " << t->name;
    }
  }
}
TEST(Reductions, Values) {
  const Evaluated x = value<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto f = [&](const std::string& rest) {
    return run_one("x: f32[2,3]\n y = reduce(x) " + rest + "\n return y", {x}).as<float>();
  };
  EXPECT_THAT(f("kind=sum axes=[0]"), ElementsAre(5, 7, 9));
  EXPECT_THAT(f("kind=mean axes=[1] keep_dims=false"), ElementsAre(2, 5));
  EXPECT_THAT(f("kind=max"), ElementsAre(6));
  EXPECT_THAT(f("kind=l2 axes=[1]"), near({3.741657f, 8.774964f}));
  EXPECT_THAT(f("kind=log_sum_exp axes=[1]"), near({3.407606f, 6.407606f}));
  EXPECT_THAT(f("kind=prod axes=[]"), ElementsAre(720));
  const Evaluated z = value<float>({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_THAT(
      run_one("x: f32[2,2,2]\n y = reduce(x) kind=sum axes=[0,2]\n return y", {z}).as<float>(),
      ElementsAre(14, 22));
  EXPECT_THAT(run_one("x: s64[2,2]\n y = reduce(x, s64{1}) kind=prod keep_dims=false\n return y",
                      {value<I>({2, 2}, {2, 3, 4, 5})})
                  .as<I>(),
              ElementsAre(6, 20));
  EXPECT_THAT(run_one("x: f32[2,3]\n y = arg_reduce(x) axis=1 keep_dims=false\n return y",
                      {value<float>({2, 3}, {1, 9, 9, 3, 2, 1})})
                  .as<I>(),
              ElementsAre(1, 0));
  EXPECT_THAT(run_one("x: s32[3]\n y = arg_reduce(x) max=false select_last=true\n return y",
                      {value<std::int32_t>({3}, {1, 0, 0})})
                  .as<I>(),
              ElementsAre(2));
}
TEST(Reductions, SoftmaxTopKCumSumLrnEinsum) {
  EXPECT_THAT(run_one("x: f32[1,3]\n y = softmax(x)\n return y", {value<float>({1, 3}, {1, 2, 3})})
                  .as<float>(),
              near({0.0900306f, 0.2447285f, 0.6652410f}));
  EXPECT_THAT(run_one("x: f32[2,2]\n y = softmax(x) axis=0 log=true\n return y",
                      {value<float>({2, 2}, {0, 0, 0, 1})})
                  .as<float>(),
              near({-0.6931472f, -1.3132617f, -0.6931472f, -0.3132617f}));
  const auto k = run_text("x: f32[1,5]\n v, i = top_k(x, s64{3})\n return v, i",
                          {value<float>({1, 5}, {3, 1, 3, 5, 2})});
  ASSERT_TRUE(k.ok()) << k.error().message;
  EXPECT_THAT(k->at(0).as<float>(), ElementsAre(5, 3, 3));
  EXPECT_THAT(k->at(1).as<I>(), ElementsAre(3, 0, 2));
  EXPECT_THAT(
      run_one("x: f32[2,2]\n y = cum_sum(x, s64[]{0}) exclusive=true reverse=true\n return y",
              {value<float>({2, 2}, {1, 2, 3, 4})})
          .as<float>(),
      ElementsAre(3, 4, 0, 0));
  EXPECT_THAT(run_one("x: f32[1,3,1]\n y = lrn(x) size=3 alpha=3 beta=1 bias=1\n return y",
                      {value<float>({1, 3, 1}, {1, 2, 3})})
                  .as<float>(),
              near({1.0f / 6, 2.0f / 15, 3.0f / 14}));
  EXPECT_THAT(
      run_one("a: f32[2,2]\n b: f32[2,2]\n y = einsum(a, b) equation=\"ij,kj->ik\"\n return y",
              {value<float>({2, 2}, {1, 2, 3, 4}), value<float>({2, 2}, {1, 0, 1, 1})})
          .as<float>(),
      ElementsAre(1, 3, 3, 7));
  EXPECT_THAT(run_one("a: f32[2,2]\n y = einsum(a) equation=\"ii\"\n return y",
                      {value<float>({2, 2}, {1, 2, 3, 4})})
                  .as<float>(),
              ElementsAre(5));
}
TEST(Pools, Values) {
  const Evaluated x = value<float>({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  const auto f = [&](const std::string& rest) {
    return run_one("x: f32[1,1,3,3]\n y = pool(x) " + rest + "\n return y", {x}).as<float>();
  };
  EXPECT_THAT(f("kind=max kernel=[2,2]"), ElementsAre(5, 6, 8, 9));
  EXPECT_THAT(f("kind=average kernel=[2,2] strides=[2,2] pads=[1,1,0,0]"),
              ElementsAre(1, 2.5f, 5.5f, 7));
  EXPECT_THAT(f("kind=average kernel=[2,2] strides=[2,2] pads=[1,1,0,0] count_include_pad=true"),
              ElementsAre(0.25f, 1.25f, 2.75f, 7));
  EXPECT_THAT(f("kind=average global=true"), ElementsAre(5));
  EXPECT_THAT(f("kind=max global=true"), ElementsAre(9));
  EXPECT_THAT(f("kind=lp kernel=[3,1]"), near({8.124038f, 9.643651f, 11.224972f}));
  const auto r =
      run_text("x: f32[1,1,3,3]\n v, i = pool(x) kind=max kernel=[2,2]\n return v, i", {x});
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_THAT(r->at(1).as<I>(), ElementsAre(4, 5, 7, 8));
  EXPECT_THAT(run_one("x: u8[1,1,2,2] @(0.5,10)\n y: u8[1,1,1,1] @(0.25,0) = pool(x) kind=average "
                      "global=true\n return y",
                      {value<std::uint8_t>({1, 1, 2, 2}, {10, 11, 12, 14})})
                  .as<std::uint8_t>(),
              ElementsAre(4));  // 0.875 / 0.25 = 3.5, to even
}
TEST(Resizes, Values) {
  EXPECT_THAT(run_one("x: f32[1,1,2,2]\n y = resize(x, f32[4]{1,1,2,2}) coordinates=asymmetric "
                      "nearest=floor\n return y",
                      {value<float>({1, 1, 2, 2}, {1, 2, 3, 4})})
                  .as<float>(),
              ElementsAre(1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4));
  EXPECT_THAT(run_one("x: f32[1,1,2]\n y = resize(x, f32[3]{1,1,2}) mode=linear\n return y",
                      {value<float>({1, 1, 2}, {0, 4})})
                  .as<float>(),
              ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(run_one("x: u8[1,1,2] @(0.5,0)\n y: u8[1,1,4] @(0.5,0) = resize(x, f32[3]{1,1,2}) "
                      "mode=linear\n return y",
                      {value<std::uint8_t>({1, 1, 2}, {0, 4})})
                  .as<std::uint8_t>(),
              ElementsAre(0, 1, 3, 4));
}

}  // namespace
}  // namespace fold8::ops
