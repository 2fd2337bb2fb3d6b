// Random graphs: sharing memory must not change a bit, nor may threads, targets or batch mates.
#include "tests/exec/exec_support.h"

namespace fold8 {
namespace {

using testing::elements;
using testing::expect_same_bytes;
using testing::model_of;
using testing::outputs_of;
using testing::random_tensor;
using testing::SeededRng;
using testing::session_of;

// A graph over values [n, 12] (and views of them) of elementwise, linear, view and reducing
// operators.
std::string random_graph(SeededRng& rng) {
  std::string text = "x0: f32[n,12]\nx1: f32[n,12]\n";
  std::vector<std::string> values = {"x0", "x1"};
  const auto pick = [&] {
    return values[static_cast<std::size_t>(
        rng.integer(0, static_cast<std::int64_t>(values.size()) - 1))];
  };
  const auto count = rng.integer(4, 24);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string y = "v" + std::to_string(i);
    switch (rng.integer(0, 8)) {
      case 0:
        text += y + " = relu(" + pick() + ")\n";
        break;
      case 1:
        text += y + " = add(" + pick() + ", " + pick() + ")\n";
        break;
      case 2:
        text += y + " = mul(" + pick() + ", f32[12]{1,2,3,4,5,6,7,8,9,0.5,-1,-2})\n";
        break;
      case 3:
        text += y + " = linear(" + pick() + ", random:f32[12,12])\n";
        break;
      case 4:
        text += y + "a = reshape(" + pick() + ", s64{-1,3,4})\n" + y + "b = neg(" + y + "a)\n" + y +
                " = reshape(" + y + "b, s64{-1,12})\n";
        break;
      case 5:
        text += y + "a, " + y + "b = split(" + pick() + ") axis=1\n" + y + " = concat(" + y +
                "b, " + y + "a) axis=1\n";
        break;
      case 6:
        text += y + " = layer_norm(" + pick() + ", f32[12]{1,1,1,1,1,1,1,1,1,1,1,1})\n";
        break;
      case 7:
        text += y + "a = reduce_max(" + pick() + ") axes=[1]\n" + y + " = sub(" + pick() + ", " +
                y + "a)\n";
        break;
      default:
        text += y + " = softmax(" + pick() + ")\n";
        break;
    }
    values.push_back(y);
  }
  text += "return " + values.back();
  for (std::int64_t extra = rng.integer(0, 3); extra > 0; --extra) text += ", " + pick();
  return text + "\n";
}

TEST(RandomDag, SharedMemoryThreadsTargetsAndBatchChangeNoBit) {
  SeededRng rng;
  for (int round = 0; round < 40; ++round) {
    const std::string text = random_graph(rng);
    SCOPED_TRACE(text);
    const Shape shape{rng.integer(1, 9), 12};
    const std::vector<Tensor> x = {random_tensor(DType::f32, shape, rng),
                                   random_tensor(DType::f32, shape, rng)};
    std::vector<Tensor> expected;
    const auto check = [&](exec::SessionOptions options) {
      auto s = session_of(model_of(text), options);
      for (int repeat = 0; repeat < 2; ++repeat) {
        const auto status = testing::run(*s, x);
        ASSERT_TRUE(status.ok()) << status.error().message;
        const auto y = outputs_of(*s);
        if (expected.empty()) expected = y;
        for (std::size_t o = 0; o < y.size(); ++o) expect_same_bytes(y[o], expected[o]);
      }
    };
    check({.keep_all = true});
    testing::on_every_target([&] {
      check({});
      check({.threads = 3});
    });
    // One row at a time.
    auto s = session_of(model_of(text));
    for (std::int64_t row = 0; row < shape.extent(0); ++row) {
      std::vector<TensorView> views;
      for (const Tensor& t : x)
        views.push_back({DType::f32, Shape{1, 12}, static_cast<float*>(t.view().data) + row * 12,
                         Layout::plain});
      ASSERT_TRUE(s->run(views).ok());
      for (std::size_t o = 0; o < expected.size(); ++o)
        EXPECT_EQ(std::memcmp(s->outputs()[o].data,
                              static_cast<const float*>(expected[o].view().data) + row * 12,
                              12 * sizeof(float)),
                  0);
    }
  }
}

}  // namespace
}  // namespace fold8
