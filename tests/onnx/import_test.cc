// The frame of the import: names, constants, inputs, order, dead branches, unsupported operators.
#include <gmock/gmock.h>

#include "tests/onnx/import_support.h"

namespace fold8::onnx_io {
namespace {

using namespace fold8::testing;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Import, SymbolsUnknownsAndConstants) {
  const auto g = imported(ModelWriter()
                              .input("x", {"N", "?", "3"})
                              .initializer(floats("w", {3}, {1, 2, 3}))
                              .node("Add", {"x", "w"}, {"y"})
                              .output("y"));
  EXPECT_EQ(shape_of(g, "x"), "[N,?,3]");
  EXPECT_EQ(shape_of(g, "y"), "[N,?,3]");
  EXPECT_TRUE(value_named(g, "w").is_constant());
  EXPECT_EQ(g.inputs.size(), 1u);
}

TEST(Import, InitializerListedAsInputIsAConstant) {
  const auto g = imported(ModelWriter()
                              .input("x", {"3"})
                              .input("w", {"3"})
                              .initializer(floats("w", {3}, {1, 2, 3}))
                              .node("Add", {"x", "w"}, {"y"})
                              .output("y"));
  EXPECT_EQ(g.inputs.size(), 1u);
}

TEST(Import, ConstantNodesOfEveryForm) {
  const auto g =
      imported(ModelWriter()
                   .input("x", {"2", "3"})
                   .node("Constant", {}, {"a"}, {attribute("value", floats("", {3}, {1, 2, 3}))})
                   .node("Constant", {}, {"b"}, {attribute("value_float", 2.5f)})
                   .node("Constant", {}, {"c"}, {attribute("value_ints", Dims{3, 2})})
                   .node("Add", {"x", "a"}, {"s"})
                   .node("Mul", {"s", "b"}, {"m"})
                   .node("Reshape", {"m", "c"}, {"y"})
                   .output("y"));
  EXPECT_EQ(shape_of(g, "y"), "[3,2]");
  EXPECT_THAT(operators(g), ElementsAre("add", "mul", "reshape"));
}

TEST(Import, NodesOutOfOrderAreSorted) {
  const auto g = imported(ModelWriter()
                              .input("x", {"2"})
                              .node("Relu", {"h"}, {"y"})
                              .node("Neg", {"x"}, {"h"})
                              .output("y"));
  EXPECT_THAT(operators(g), ElementsAre("neg", "relu"));
}

TEST(Import, DeadBranchesAreLeftOutWithANoteEvenIfUnsupported) {
  const auto r = import_bytes(ModelWriter()
                                  .input("x", {"2"})
                                  .node("Relu", {"x"}, {"y"})
                                  .node("Bernoulli", {"x"}, {"z"}, {}, "idle")
                                  .output("y")
                                  .bytes(),
                              "");
  ASSERT_TRUE(r.ok()) << r.error().message;
  ASSERT_EQ(r->notes.size(), 1u);
  EXPECT_EQ(r->notes[0].node, "idle");
}

TEST(Import, EveryUnsupportedOperatorIsListed) {
  const Error e = import_error(ModelWriter()
                                   .opset_import("com.example", 1)
                                   .input("x", {"2"})
                                   .node("Fancy", {"x"}, {"a"}, {}, "one", "com.example")
                                   .node("Relu", {"a"}, {"b"})
                                   .node("LSTM", {"b"}, {"c"}, {}, "two")
                                   .node("Loop", {"c"}, {"y"})
                                   .output("y"));
  EXPECT_EQ(e.code, Code::unsupported);
  for (const char* word :
       {"3 operators", "'one' (com.example.Fancy)", "'two' (LSTM)", "'y' (Loop)"})
    EXPECT_THAT(e.message, HasSubstr(word));
}

TEST(Import, NamesOfNodesAreUniqueAndDerivedFromOutputs) {
  const auto g = imported(ModelWriter()
                              .input("x", {"2"})
                              .node("Relu", {"x"}, {"a"}, {}, "same")
                              .node("Neg", {"a"}, {"b"}, {}, "same")
                              .node("Abs", {"b"}, {"y"})
                              .output("y"));
  std::vector<std::string> names;
  for (graph::NodeId n = 0; n < g.node_count(); ++n) names.push_back(g.node(n).name);
  EXPECT_THAT(names, ElementsAre("same", "b", "y"));
}

TEST(Import, InventedNamesNeverClashWithThoseOfTheFile) {
  // Clip with attributes would invent y/max; the file already has a tensor of that name.
  const auto g = imported(ModelWriter()
                              .input("x", {"2"}, kInt64)
                              .initializer(ints("l", {}, {1}))
                              .initializer(ints("h", {}, {5}))
                              .node("Clip", {"x", "l", "h"}, {"y"})
                              .node("Neg", {"y"}, {"y/raised"})
                              .output("y/raised"));
  EXPECT_THAT(operators(g), ElementsAre("max", "min", "neg"));
}

TEST(Import, OutputsMayBeInputsAndConstants) {
  const auto g = imported(ModelWriter()
                              .input("x", {"2"})
                              .initializer(floats("w", {2}, {1, 2}))
                              .output("x")
                              .output("w"));
  ASSERT_EQ(g.outputs.size(), 2u);
  EXPECT_EQ(g.outputs[0], g.inputs[0]);
  EXPECT_TRUE(g.is_constant(g.outputs[1]));
}

TEST(Import, ErrorsOfTheFrameNameWhatIsWrong) {
  const auto relu = [](const char* in, const char* out) {
    return ModelWriter().input("x", {"2"}).node("Relu", {in}, {out}, {}, "r").output("y");
  };
  EXPECT_THAT(import_error(relu("ghost", "y")).message, HasSubstr("'ghost'"));
  EXPECT_THAT(import_error(relu("x", "z")).message, HasSubstr("'y'"));
  EXPECT_THAT(import_error(relu("y", "y")).message, HasSubstr("cycle"));
  EXPECT_THAT(import_error(relu("x", "y").node("Neg", {"x"}, {"y"})).message, HasSubstr("twice"));
  EXPECT_THAT(import_error(relu("x", "x")).message, HasSubstr("twice"));
  EXPECT_THAT(import_error(relu("x", "y").no_opset()).message, HasSubstr("opset"));
  EXPECT_THAT(
      import_error(ModelWriter(9999).input("x", {"2"}).node("Relu", {"x"}, {"y"}).output("y"))
          .message,
      HasSubstr("9999"));
  EXPECT_EQ(
      import_error(ModelWriter(5).input("x", {"2"}).node("Relu", {"x"}, {"y"}).output("y")).code,
      Code::unsupported);
}

TEST(Import, WrongAttributeKindsAndAxesAreErrors) {
  const auto model = [](Message a) {
    return ModelWriter()
        .input("x", {"2", "3"})
        .node("Concat", {"x", "x"}, {"y"}, {std::move(a)}, "join")
        .output("y");
  };
  EXPECT_THAT(import_error(model(attribute("axis", 1.5f))).message, HasSubstr("'axis'"));
  EXPECT_THAT(import_error(model(attribute("axis", 2))).message, HasSubstr("axis 2"));
  EXPECT_THAT(import_error(model(attribute("axis", -3))).message, HasSubstr("'join'"));
}

TEST(Import, UnreadAttributesAreNoted) {
  const auto r = import_bytes(ModelWriter()
                                  .input("x", {"2"})
                                  .node("Relu", {"x"}, {"y"}, {attribute("flavour", 3)}, "r")
                                  .output("y")
                                  .bytes(),
                              "");
  ASSERT_TRUE(r.ok());
  ASSERT_EQ(r->notes.size(), 1u);
  EXPECT_THAT(r->notes[0].message, HasSubstr("flavour"));
}

TEST(Import, DropoutIsIdentityUnlessItTrains) {
  EXPECT_THAT(operators(imported(
                  ModelWriter().input("x", {"2"}).node("Dropout", {"x"}, {"y"}).output("y"))),
              ElementsAre("identity"));
  const auto training = ModelWriter()
                            .input("x", {"2"})
                            .initializer(floats("r", {}, {0.5f}))
                            .initializer(tensor<std::uint8_t>("t", kBool, {}, {1}))
                            .node("Dropout", {"x", "r", "t"}, {"y"}, {}, "drop")
                            .output("y");
  EXPECT_EQ(import_error(training).code, Code::unsupported);
}

TEST(Import, IdentityOfAConstantIsAConstant) {
  const auto g = imported(ModelWriter()
                              .input("x", {"2"})
                              .initializer(floats("w", {2}, {1, 2}))
                              .node("Identity", {"w"}, {"v"})
                              .node("Add", {"x", "v"}, {"y"})
                              .output("y"));
  EXPECT_THAT(operators(g), ElementsAre("add"));
  EXPECT_TRUE(value_named(g, "v").is_constant());
}

}  // namespace
}  // namespace fold8::onnx_io
