// The second engine agrees with fold8's own kernels: f32 to rounding, INT8 to one step of the
// output.
#include "tests/exec/exec_support.h"

#include <cmath>
#include <thread>

namespace fold8 {
namespace {

using testing::model_of;
using testing::outputs_of;
using testing::random_tensor;
using testing::session_of;

// f32 sums in another order: relative to the largest output.
constexpr float kFloatTolerance = 2e-6f;

void expect_close(const Tensor& own, const Tensor& other) {
  ASSERT_EQ(own.shape(), other.shape());
  ASSERT_EQ(own.dtype(), other.dtype());
  if (own.dtype() == DType::u8) {
    for (std::size_t i = 0; i < own.bytes(); ++i)
      ASSERT_LE(std::abs(own.as<std::uint8_t>()[i] - other.as<std::uint8_t>()[i]), 1) << i;
    return;
  }
  float largest = 0;
  for (const float v : own.as<float>()) largest = std::max(largest, std::abs(v));
  for (std::size_t i = 0; i < own.as<float>().size(); ++i)
    ASSERT_NEAR(own.as<float>()[i], other.as<float>()[i],
                kFloatTolerance * std::max(largest, 1.0f) * 8)
        << i;
}

void compare(const std::string& text, const std::vector<std::pair<DType, Shape>>& inputs,
             bool taken = true) {
  SCOPED_TRACE(text);
  testing::SeededRng rng;
  std::vector<Tensor> x;
  for (const auto& [dtype, shape] : inputs) x.push_back(random_tensor(dtype, shape, rng));
  auto own = session_of(model_of(text));
  auto other = session_of(model_of(text), {.engine = "onednn"});
  ASSERT_NE(other, nullptr);
  for (int repeat = 0; repeat < 2; ++repeat) {
    const auto a = testing::run(*own, x), b = testing::run(*other, x);
    ASSERT_TRUE(a.ok()) << a.error().message;
    ASSERT_TRUE(b.ok()) << b.error().message;
    const auto y = outputs_of(*own), z = outputs_of(*other);
    for (std::size_t o = 0; o < y.size(); ++o) expect_close(y[o], z[o]);
  }
  for (const auto& step : other->profile()) {
    const bool matrix = step.op.find("conv") != std::string::npos || step.op == "linear" ||
                        step.op == "matmul" || step.op.find("pool") != std::string::npos;
    const bool int8_without_vnni =
        inputs[0].first == DType::u8 &&
        other->model().target().name.find("vnni") == std::string_view::npos;
    if (taken) {
      EXPECT_EQ(step.engine, matrix && !int8_without_vnni ? "onednn" : "fold8") << step.name;
    }
  }
}

TEST(Onednn, Convolutions) {
  compare(
      "x: f32[2,3,9,10]\ny = conv(x, random:f32[8,3,3,3], random:f32[8]) kernel=[3,3] "
      "strides=[2,1] pads=[1,0,1,2] dilations=[1,1] activation=clip b=6\nreturn y",
      {{DType::f32, Shape{2, 3, 9, 10}}});
  compare(
      "x: f32[1,8,6,6]\nr: f32[1,16,6,6]\ny = conv(x, random:f32[16,8,1,1], _, r) kernel=[1,1] "
      "strides=[1,1] pads=[0,0,0,0] dilations=[1,1] activation=silu a=1\nreturn y",
      {{DType::f32, Shape{1, 8, 6, 6}}, {DType::f32, Shape{1, 16, 6, 6}}},
      false);  // 3.x adds no plain residual
  compare(
      "x: f32[1,8,9,9]\ny = conv(x, random:f32[8,1,3,3]) kernel=[3,3] strides=[1,1] pads=[2,2,2,2] "
      "dilations=[2,2] group=8\nreturn y",
      {{DType::f32, Shape{1, 8, 9, 9}}});
  compare(
      "x: f32[1,4,12]\ny = conv(x, random:f32[6,2,3]) kernel=[3] strides=[1] pads=[1,1] "
      "dilations=[1] group=2\nreturn y",
      {{DType::f32, Shape{1, 4, 12}}});
  compare(
      "x: f32[1,4,4,5,6]\ny = conv(x, random:f32[6,4,2,2,2]) kernel=[2,2,2] strides=[1,1,1] "
      "pads=[0,0,0,0,0,0] dilations=[1,1,1]\nreturn y",
      {{DType::f32, Shape{1, 4, 4, 5, 6}}});
}

TEST(Onednn, ChannelsLast) {
  compare(R"(
    x: f32[1,8,7,7]
    n: f32[1,8,7,7] nhwc = relayout(x)
    c: f32[1,16,7,7] nhwc = conv(n, random:f32[16,8,3,3], random:f32[16]) kernel=[3,3] strides=[1,1] pads=[1,1,1,1] dilations=[1,1]
    p: f32[1,16,3,3] nhwc = max_pool(c) kernel=[3,3] strides=[2,2] pads=[0,0,0,0] dilations=[1,1]
    y: f32[1,16,3,3] = relayout(p)
    return y
  )",
          {{DType::f32, Shape{1, 8, 7, 7}}});
  compare(R"(
    x: f32[1,16,6,6]
    n: f32[1,16,6,6] nhwc = relayout(x)
    c: f32[1,16,6,6] nhwc = conv(n, random:f32[16,16,1,1], random:f32[16], n) kernel=[1,1] strides=[1,1] pads=[0,0,0,0] dilations=[1,1] activation=silu a=1
    y: f32[1,16,6,6] = relayout(c)
    return y
  )",
          {{DType::f32, Shape{1, 16, 6, 6}}});
}

TEST(Onednn, TransposedConvolutions) {
  for (const std::string stride : {"1", "2"}) {
    const bool taken = stride == "1";  // the others are faster on fold8's kernels
    const std::string step = " strides=[" + stride + "," + stride + "]";
    compare("x: f32[1,4,5,6]\ny = conv(x, random:f32[4,6,3,3], random:f32[6]) kernel=[3,3]" + step +
                " pads=[1,1,1,1] dilations=[1,1] transposed=true\nreturn y",
            {{DType::f32, Shape{1, 4, 5, 6}}}, taken);
    compare("x: f32[1,4,5,6]\ny = conv(x, random:f32[4,3,2,2]) kernel=[2,2]" + step +
                " pads=[0,0,0,0] dilations=[1,1] transposed=true group=2\nreturn y",
            {{DType::f32, Shape{1, 4, 5, 6}}}, taken);
  }
  compare(
      "x: f32[1,4,5,6]\ny = conv(x, random:f32[4,6,3,3], random:f32[6]) kernel=[3,3] strides=[2,2] "
      "pads=[1,1,1,1] dilations=[1,1] transposed=true output_padding=[1,0]\nreturn y",
      {{DType::f32, Shape{1, 4, 5, 6}}}, false);
}

TEST(Onednn, LinearAndMatMul) {
  compare(
      "x: f32[n,5,32]\nr: f32[n,5,24]\ny = linear(x, random:f32[24,32], random:f32[24], r) "
      "activation=gelu_erf\nreturn y",
      {{DType::f32, Shape{3, 5, 32}}, {DType::f32, Shape{3, 5, 24}}});
  compare("a: f32[2,3,5,8]\nb: f32[1,3,7,8]\ny = matmul(a, b) transpose_b=true alpha=0.5\nreturn y",
          {{DType::f32, Shape{2, 3, 5, 8}}, {DType::f32, Shape{1, 3, 7, 8}}});
}

TEST(Onednn, Pooling) {
  compare(
      "x: f32[1,4,9,9]\na = average_pool(x) kernel=[3,3] strides=[2,2] pads=[1,1,1,1] "
      "dilations=[1,1]\nb = average_pool(x) kernel=[3,3] strides=[2,2] pads=[1,1,1,1] "
      "dilations=[1,1] count_include_pad=true\nc = average_pool(x) global=true\nd = max_pool(x) "
      "kernel=[3,2] strides=[1,1] pads=[0,0,0,0] dilations=[1,1]\nreturn a, b, c, d",
      {{DType::f32, Shape{1, 4, 9, 9}}});
}

TEST(Onednn, Int8) {
  compare(R"(
    x: u8[4,32] @(0.05,128)
    h: u8[4,48] @(0.5,10) = linear(x, random:s8[48,32] @channel(0), random:f32[48]) activation=clip b=60
    y: f32[4,16] = linear(h, random:s8[16,48] @channel(0))
    return h, y
  )",
          {{DType::u8, Shape{4, 32}}});
  compare(R"(
    x: u8[1,16,7,7] @(0.05,100)
    n: u8[1,16,7,7] @(0.05,100) nhwc = relayout(x)
    c: u8[1,32,7,7] @(0.9,3) nhwc = conv(n, random:s8[32,16,3,3] @channel(0), random:f32[32]) kernel=[3,3] strides=[1,1] pads=[1,1,1,1] dilations=[1,1]
    y: u8[1,32,7,7] @(0.9,3) = relayout(c)
    return y
  )",
          {{DType::u8, Shape{1, 16, 7, 7}}});
}

TEST(Onednn, WhatItDeclinesRunsAllTheSame) {
  compare(
      "x: f32[1,4,9,9]\ny = max_pool(x) kernel=[3,2] strides=[1,1] pads=[0,0,0,0] "
      "dilations=[2,1]\nreturn y",
      {{DType::f32, Shape{1, 4, 9, 9}}},
      /*taken=*/false);
  compare(
      "x: f32[2,8]\na = softmax(x)\nb = layer_norm(a, random:f32[8])\ny = linear(b, "
      "random:f32[4,8]) activation=hard_swish a=0.16666667 b=0.5\nreturn y",
      {{DType::f32, Shape{2, 8}}}, /*taken=*/false);
}

TEST(Onednn, ManyThreadsAtOnce) {
  const auto model = model_of(
      "x: f32[1,8,12,12]\ny = conv(x, random:f32[16,8,3,3]) kernel=[3,3] strides=[1,1] "
      "pads=[1,1,1,1] dilations=[1,1]\nreturn y");
  testing::SeededRng rng;
  const Tensor x = random_tensor(DType::f32, Shape{1, 8, 12, 12}, rng);
  auto first = session_of(model, {.engine = "onednn"});
  ASSERT_TRUE(testing::run(*first, {x}).ok());
  const Tensor expected = std::move(outputs_of(*first)[0]);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      auto s = session_of(model, {.engine = "onednn"});
      for (int i = 0; i < 50; ++i) {
        ASSERT_TRUE(testing::run(*s, {x}).ok());
        testing::expect_same_bytes(outputs_of(*s)[0], expected);
      }
    });
  for (auto& t : threads) t.join();
}

}  // namespace
}  // namespace fold8
