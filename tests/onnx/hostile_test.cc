// Files made to hurt: an error each, no crash, no large allocation.
#include <gmock/gmock.h>

#include "tests/onnx/import_support.h"
#include "tests/support/random.h"

namespace fold8::onnx_io {
namespace {

using namespace fold8::testing;
using ::testing::HasSubstr;

ModelWriter small_model() {
  return ModelWriter()
      .input("x", {"1", "2", "5", "5"})
      .initializer(floats("w", {3, 2, 3, 3}, std::vector<float>(54, 0.5f)))
      .initializer(ints("s", {2}, {1, -1}))
      .initializer(floats("q", {}, {0.5f}))
      .node("Conv", {"x", "w"}, {"c"}, {attribute("pads", Dims{1, 1, 1, 1})}, "conv")
      .node("Relu", {"c"}, {"r"})
      .node("QuantizeLinear", {"r", "q"}, {"u"})
      .node("DequantizeLinear", {"u", "q"}, {"d"})
      .node("Reshape", {"d", "s"}, {"y"})
      .output("y");
}

TEST(Hostile, EveryDamagedByteAndTruncation) {
  const std::string sound = small_model().bytes();
  ASSERT_TRUE(import_bytes(sound, "").ok());
  SeededRng rng;
  for (std::size_t i = 0; i < sound.size(); ++i) {
    std::string bytes = sound;
    bytes[i] = static_cast<char>(bytes[i] ^ static_cast<char>(rng.integer(1, 255)));
    (void)import_bytes(bytes, "").ok();
    (void)import_bytes(sound.substr(0, i), "").ok();
  }
}

TEST(Hostile, NoiseTextAndNothing) {
  SeededRng rng;
  for (const std::string& bytes :
       {std::string(), std::string("hello, world\n"), std::string(1000, '\0')})
    EXPECT_FALSE(import_bytes(bytes, "").ok());
  for (int k = 0; k < 200; ++k) {
    std::string noise(static_cast<std::size_t>(rng.integer(1, 400)), '\0');
    for (char& c : noise) c = static_cast<char>(rng.integer(0, 255));
    EXPECT_FALSE(import_bytes(noise, "").ok());
  }
}

TEST(Hostile, ShapesThatLie) {
  const auto model = [](const Message& w) {
    return ModelWriter()
        .input("x", {"1", "2"})
        .initializer(w)
        .node("MatMul", {"x", "w"}, {"y"})
        .output("y");
  };
  const auto dims = [](std::initializer_list<std::int64_t> d) {
    Message w;
    for (auto n : d) w.number(1, n);
    return w.number(2, kFloat).text(8, "w").text(9, "1234");
  };
  for (const auto& w :
       {dims({1LL << 40, 1LL << 40}), dims({-1, 2}), dims({1LL << 40}),
        dims({0, 1LL << 62, 1LL << 62}), dims({2}), dims({1, 1, 1, 1, 1, 1, 1, 1, 1})})
    EXPECT_THAT(import_error(model(w)).message, HasSubstr("'w'"));
  EXPECT_THAT(
      import_error(model(Message().number(1, 1).number(2, 999).text(8, "w").text(9, "1234")))
          .message,
      HasSubstr("999"));
}

TEST(Hostile, DeepNestingIsAnErrorNotAnOverflow) {
  Message graph;
  for (int depth = 0; depth < 3000; ++depth)
    graph = Message().message(
        1, Message().text(4, "If").text(1, "c").text(2, "y").message(
               5, Message().text(1, "then_branch").message(6, graph).number(20, 5)));
  EXPECT_FALSE(
      import_bytes(
          Message().number(1, 8).message(7, graph).message(8, Message().number(2, 17)).bytes, "")
          .ok());
}

TEST(Hostile, NodesWithoutOperandsOrOutputs) {
  for (const char* op :
       {"Relu", "Conv", "Gemm", "Concat", "Slice", "Resize", "QuantizeLinear", "QLinearConv",
        "ConvInteger", "BatchNormalization", "Sum", "Constant", "Split", "TopK", "Pad"}) {
    EXPECT_FALSE(import_bytes(ModelWriter().node(op, {}, {"y"}).output("y").bytes(), "").ok())
        << op;
    EXPECT_FALSE(import_bytes(ModelWriter().node(op, {"", ""}, {"y"}).output("y").bytes(), "").ok())
        << op;
    (void)import_bytes(ModelWriter().input("x", {"2"}).node(op, {"x"}, {}).output("x").bytes(), "")
        .ok();
    (void)import_bytes(
        ModelWriter().input("x", {"2"}).node(op, Names(12, "x"), {"y"}).output("y").bytes(), "")
        .ok();
  }
}

}  // namespace
}  // namespace fold8::onnx_io
