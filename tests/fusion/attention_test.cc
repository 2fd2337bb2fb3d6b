// Attention and rotary embedding as exporters spell them.
#include "fusion/passes/passes.h"
#include "fusion/passes/quantize.h"
#include "runtime/exec/session.h"
#include "tests/fusion/graph_testing.h"

namespace fold8::fusion {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr float kTolerance = 5e-6f;  // another order of the same sums

// Both graphs through the executor, random inputs.
void expect_same_run(const graph::Graph& before, const graph::Graph& after) {
  const auto inputs = testing_support::random_inputs(before, 3, 5);
  std::vector<Tensor> tensors;
  for (graph::ValueId v : before.inputs) {
    const auto& a = inputs.at(before.value(v).name);
    Shape shape;
    for (std::int64_t d : a.shape) shape.push_back(Dim(d));
    Tensor t(before.type(v).dtype, shape);
    for (std::size_t i = 0; i < a.data.size(); ++i)
      if (before.type(v).dtype == DType::boolean)
        t.as<std::uint8_t>()[i] = a.data[i] > -1.5;
      else
        t.as<float>()[i] = static_cast<float>(a.data[i]);
    tensors.push_back(std::move(t));
  }
  std::vector<std::vector<float>> results;
  for (const graph::Graph* g : {&before, &after}) {
    auto model = exec::Model::from_graph(*g);
    ASSERT_TRUE(model.ok()) << model.error().message;
    auto session = exec::Session::create(*model);
    ASSERT_TRUE(session.ok());
    std::vector<TensorView> views;
    for (const Tensor& t : tensors) views.push_back(t.view());
    const Status run = (*session)->run(views);
    ASSERT_TRUE(run.ok()) << run.error().message;
    const TensorView& y = (*session)->outputs()[0];
    const auto* p = static_cast<const float*>(y.data);
    results.emplace_back(p, p + y.shape.count());
  }
  ASSERT_EQ(results[0].size(), results[1].size());
  for (std::size_t i = 0; i < results[0].size(); ++i)
    ASSERT_NEAR(results[0][i], results[1][i], kTolerance * (1 + std::fabs(results[0][i])))
        << i << "\n"
        << graph::to_text(after);
}

Ran recognized(const std::string& text) {
  std::vector<Pass> passes = stage("fuse").passes;
  for (const Pass& p : stage("attention").passes) passes.push_back(p);
  Ran ran = run_passes(passes, text, {}, false);
  expect_same_run(parsed(text), ran.graph);
  return ran;
}

const graph::Attention& attention_in(const graph::Graph& g) {
  static const graph::Attention none;
  for (graph::NodeId n = 0; n < g.node_count(); ++n)
    if (const auto* a = std::get_if<graph::Attention>(&g.node(n).op)) return *a;
  ADD_FAILURE() << "no attention in\n" << graph::to_text(g);
  return none;
}

// BERT: three projections, a mask from outside.
std::string bert(const std::string& scores) {
  return "q: f32[2,?,12]\nk: f32[2,?,12]\nv: f32[2,?,12]\nm: f32[2,1,1,?]\n"
         "q4 = reshape(q, s64{0,0,3,4})\nqt = transpose(q4) perm=[0,2,1,3]\n"
         "k4 = reshape(k, s64{0,0,3,4})\nkt = transpose(k4) perm=[0,2,3,1]\n"
         "v4 = reshape(v, s64{0,0,3,4})\nvt = transpose(v4) perm=[0,2,1,3]\n" +
         scores +
         "p = softmax(x) axis=3\no = matmul(p, vt)\not = transpose(o) perm=[0,2,1,3]\n"
         "y = reshape(ot, s64{0,0,12})\nreturn y";
}

TEST(RecognizeAttention, AsBertHasIt) {
  const Ran ran =
      recognized(bert("s = matmul(qt, kt)\nd = binary(s, f32{2}) kind=div\nx = binary(d, m)\n"));
  EXPECT_THAT(op_names(ran.graph), ElementsAre("attention"));
  const graph::Attention& a = attention_in(ran.graph);
  EXPECT_EQ(a.heads, 3);
  EXPECT_EQ(a.depth, 4);
  EXPECT_EQ(a.scale, 0.5f);
  EXPECT_TRUE(a.q_rows && a.k_rows && a.v_rows && a.y_rows);
}

TEST(RecognizeAttention, ScalesOnEitherSideAndNoMask) {
  const Ran ran =
      recognized(bert("qs = binary(qt, f32{0.5}) kind=mul\nks = binary(kt, f32{0.5}) kind=mul\n"
                      "x = matmul(qs, ks)\n"));
  EXPECT_THAT(op_names(ran.graph), ElementsAre("attention"));
  EXPECT_EQ(attention_in(ran.graph).scale, 0.25f);
}

TEST(RecognizeAttention, TwoMasksAreAddedFirst) {
  const Ran ran =
      recognized(bert("s = matmul(qt, kt)\nd = binary(s, m)\nx = binary(random:f32[3,1,1], d)\n"));
  EXPECT_THAT(op_names(ran.graph), ElementsAre("add", "attention"));
}

TEST(RecognizeAttention, LayersShareTheirMasks) {
  std::string text = "q: f32[1,2,5,4]\nb: bool[1,1,5,5]\nm: f32[1,1,1,5]\n";
  for (const char* n : {"0", "1"}) {
    const std::string i(n), from = i == "0" ? "q" : "y0";
    text += "s" + i + " = matmul(" + from + ", " + from + ") transpose_b=true\nx" + i +
            " = where(b, s" + i + ", f32{-3.4028235e38})\nd" + i + " = add(x" + i + ", m)\np" + i +
            " = softmax(d" + i + ") axis=3\ny" + i + " = matmul(p" + i + ", " + from + ")\n";
  }
  EXPECT_THAT(op_names(recognized(text + "return y1").graph),
              ElementsAre("where", "add", "attention", "attention"));
}

TEST(RecognizeAttention, WhereHidesOrShows) {
  const std::string head =
                        "q: f32[1,2,5,4]\nk: f32[1,2,5,4]\nv: f32[1,2,5,4]\nb: bool[1,1,5,5]\n"
                        "s = matmul(q, k) transpose_b=true\n",
                    tail = "p = softmax(x) axis=3\ny = matmul(p, v)\nreturn y";
  for (const char* where :
       {"x = where(b, s, f32{-3.4028235e38})\n", "x = where(b, f32{-3.4028235e38}, s)\n"})
    EXPECT_THAT(op_names(recognized(head + where + tail).graph), ElementsAre("where", "attention"))
        << where;
  // -inf is what the condition itself says.
  EXPECT_THAT(op_names(recognized(head + "x = where(b, s, f32{-inf})\n" + tail).graph),
              ElementsAre("attention"));
  EXPECT_THAT(op_names(recognized(head + "x = where(b, f32{-inf}, s)\n" + tail).graph),
              ElementsAre("logical_not", "attention"));
  // A milder number would leave something of the hidden scores.
  EXPECT_THAT(op_names(recognized(head + "x = where(b, s, f32{-10})\n" + tail).graph),
              ElementsAre("matmul", "where", "softmax", "matmul"));
}

TEST(RecognizeAttention, RowsOfOneHead) {
  const Ran ran = recognized(
      "q: f32[6,5,4]\nk: f32[6,7,4]\nv: f32[6,7,4]\nm: f32[6,1,7]\n"
      "s = matmul(q, k) transpose_b=true\nx = binary(s, m)\np = softmax(x) axis=2\n"
      "y = matmul(p, v)\nreturn y");
  EXPECT_THAT(op_names(ran.graph), ElementsAre("unsqueeze", "attention"));
  EXPECT_EQ(attention_in(ran.graph).heads, 1);
}

TEST(RecognizeAttention, PartsOfOneProjection) {
  const std::string head =
      "x: f32[2,?,36]\nr = reshape(x, s64{0,0,3,3,4})\nt = transpose(r) perm=[2,0,3,1,4]\n";
  const std::string tail =
      "s = matmul(q, k) alpha=0.5 transpose_b=true\np = softmax(s) axis=3\no = matmul(p, v)\n"
      "ot = transpose(o) perm=[0,2,1,3]\ny = reshape(ot, s64{0,0,12})\nreturn y";
  const std::string by_split =
      "a, b, c = split(t) axis=0 sizes=[1,1,1]\nq = squeeze(a) axes=[0]\nk = squeeze(b) axes=[0]\n"
      "v = squeeze(c) axes=[0]\n";
  const std::string by_gather =
      "q = gather(t, s64[]{0})\nk = gather(t, s64[]{1})\nv = gather(t, s64[]{-1})\n";
  std::string by_slice;
  for (const char* part : {"q 0 1", "k 1 2", "v 2 3"}) {
    const std::string n(1, part[0]), from(1, part[2]), to(1, part[4]);
    by_slice += n + "s = slice(t, s64{" + from + "}, s64{" + to + "}, s64{0})\n" + n +
                " = squeeze(" + n + "s) axes=[0]\n";
  }
  for (const std::string& parts : {by_split, by_gather, by_slice}) {
    const Ran ran = recognized(head + parts + tail);
    EXPECT_THAT(op_names(ran.graph), ElementsAre("attention")) << parts;
    const graph::Attention& a = attention_in(ran.graph);
    EXPECT_EQ(a.q_offset, 0);
    EXPECT_EQ(a.k_offset, 12);
    EXPECT_EQ(a.v_offset, 24);
  }
  const Ran last = recognized(
      "x: f32[2,?,36]\na, b, c = split(x) axis=2 sizes=[12,12,12]\n"
      "ar = reshape(a, s64{0,0,3,4})\nq = transpose(ar) perm=[0,2,1,3]\n"
      "br = reshape(b, s64{0,0,3,4})\nk = transpose(br) perm=[0,2,1,3]\n"
      "cr = reshape(c, s64{0,0,3,4})\nv = transpose(cr) perm=[0,2,1,3]\n" +
      tail);
  EXPECT_THAT(op_names(last.graph), ElementsAre("attention")) << graph::to_text(last.graph);
  EXPECT_EQ(attention_in(last.graph).v_offset, 24);
}

TEST(RecognizeAttention, RotaryAndGroupsOfQueries) {
  std::string text =
      "q: f32[1,5,24]\nk: f32[1,5,8]\nv: f32[1,5,8]\nc: f32[1,1,5,4]\ns: f32[1,1,5,4]\n";
  for (const char* side : {"q 6", "k 2", "v 2"}) {
    const std::string n(1, side[0]), heads(1, side[2]);
    text += n + "4 = reshape(" + n + ", s64{0,0," + heads + ",4})\n" + n + "t = transpose(" + n +
            "4) perm=[0,2,1,3]\n";
  }
  for (const std::string n : {"q", "k"})
    text += n + "u = slice(" + n + "t, s64{2}, s64{2147483647}, s64{3})\n" + n + "l = slice(" + n +
            "t, s64{0}, s64{2}, s64{3})\n" + n + "n = unary(" + n + "u) kind=neg\n" + n +
            "h = concat(" + n + "n, " + n + "l) axis=3\n" + n + "a = binary(" + n +
            "t, c) kind=mul\n" + n + "b = binary(" + n + "h, s) kind=mul\n" + n + "r = binary(" +
            n + "a, " + n + "b)\n";
  for (const std::string n : {"k", "v"}) {
    const std::string from = n == "k" ? "kr" : "vt";
    text += n + "5 = unsqueeze(" + from + ") axes=[2]\n" + n +
            "e = " + (n == "k" ? "tile(k5, s64{1,1,3,1,1})" : "expand(v5, s64{1,2,3,5,4})") + "\n" +
            n + "w = reshape(" + n + "e, s64{1,6,5,4})\n";
  }
  text +=
      "sc = matmul(qr, kw) alpha=0.5 transpose_b=true\np = softmax(sc) axis=3\n"
      "o = matmul(p, vw)\not = transpose(o) perm=[0,2,1,3]\ny = reshape(ot, s64{0,0,24})\n"
      "return y";
  const Ran ran = recognized(text);
  EXPECT_THAT(op_names(ran.graph), ElementsAre("rotary", "rotary", "attention"));
  EXPECT_EQ(attention_in(ran.graph).kv_heads, 2);
  EXPECT_TRUE(attention_in(ran.graph).k_rows);
}

// What looks like heads repeated for groups of queries but repeats or joins something else.
TEST(RecognizeAttention, NotRepeatsOfOtherThings) {
  const std::string head = "q: f32[2,8,8,4]\nk: f32[2,2,4,4]\nv: f32[2,2,4,4]\n";
  const std::string tail =
      "s = matmul(q, kw) alpha=0.5 transpose_b=true\np = softmax(s) axis=3\n"
      "y = matmul(p, vw)\nreturn y";
  std::string text = head;
  for (const std::string n : {"k", "v"})  // twice, and half of the tokens become heads
    text += n + "5 = unsqueeze(" + n + ") axes=[2]\n" + n + "e = expand(" + n +
            "5, s64{1,1,2,1,1})\n" + n + "w = reshape(" + n + "e, s64{0,8,-1,4})\n";
  const Ran split = recognized(text + tail);
  EXPECT_EQ(attention_in(split.graph).kv_heads, 8);
  std::string tiled = "q: f32[2,4,8,4]\nk: f32[2,2,4,4]\nv: f32[2,2,4,4]\n";
  for (const std::string n : {"k", "v"})  // tokens twice as well
    tiled += n + "5 = unsqueeze(" + n + ") axes=[2]\n" + n + "e = tile(" + n +
             "5, s64{1,1,2,2,1})\n" + n + "w = reshape(" + n + "e, s64{2,4,8,4})\n";
  EXPECT_EQ(attention_in(recognized(tiled + tail).graph).kv_heads, 4);
}

// A decoder's layer: keys and values of the past in, of past and present out.
TEST(RecognizeAttention, ThePastInFront) {
  std::string text =
      "q: f32[1,3,24]\nk: f32[1,3,8]\nv: f32[1,3,8]\npk: f32[1,2,4,4]\n"
      "pv: f32[1,2,4,4]\nm: f32[1,1,3,7]\n";
  for (const char* side : {"q 6", "k 2", "v 2"}) {
    const std::string n(1, side[0]), heads(1, side[2]);
    text += n + "4 = reshape(" + n + ", s64{0,0," + heads + ",4})\n" + n + "t = transpose(" + n +
            "4) perm=[0,2,1,3]\n";
  }
  for (const std::string n : {"k", "v"})
    text += "n" + n + " = concat(p" + n + ", " + n + "t) axis=2\n" + n + "5 = unsqueeze(n" + n +
            ") axes=[2]\n" + n + "e = expand(" + n + "5, s64{1,2,3,7,4})\n" + n + "w = reshape(" +
            n + "e, s64{1,6,7,4})\n";
  text +=
      "s = matmul(qt, kw) alpha=0.5 transpose_b=true\nx = binary(s, m)\n"
      "p = softmax(x) axis=3\no = matmul(p, vw)\not = transpose(o) perm=[0,2,1,3]\n"
      "y = reshape(ot, s64{0,0,24})\nreturn y, nk, nv";
  const Ran ran = recognized(text);
  ASSERT_THAT(op_names(ran.graph), ElementsAre("attention"));
  const graph::Node& n = ran.graph.node(0);
  ASSERT_EQ(n.inputs.size(), 6u);
  EXPECT_EQ(ran.graph.value(n.inputs[4]).name, "pk");
  EXPECT_EQ(ran.graph.value(n.outputs[2]).name, "nv");
  EXPECT_TRUE(attention_in(ran.graph).k_rows && attention_in(ran.graph).v_rows);
}

TEST(RecognizeAttention, NotWhatOnlyLooksLikeIt) {
  const std::string head = "q: f32[1,2,5,4]\nk: f32[1,2,5,4]\nv: f32[1,2,5,4]\n";
  const std::string tail = "o = matmul(p, v)\nreturn o";
  for (const char* middle :
       {"s = matmul(q, k) transpose_b=true\np = softmax(s) axis=2\n",           // another axis
        "s = matmul(q, k) transpose_b=true\np = softmax(s) axis=3 log=true\n",  // a logarithm
        "s = matmul(q, k) transpose_b=true\nr = unary(s) kind=relu\np = softmax(r) axis=3\n"}) {
    for (const std::string& name : op_names(recognized(head + middle + tail).graph))
      EXPECT_NE(name, "attention") << middle;
  }
  // Weights that somebody reads stay.
  const Ran read = recognized(head +
                              "s = matmul(q, k) transpose_b=true\np = softmax(s) axis=3\n"
                              "o = matmul(p, v)\nreturn o, p");
  EXPECT_THAT(op_names(read.graph), ElementsAre("matmul", "softmax", "matmul"));
}

TEST(QuantizeAttention, OnTheWayUnlessNamed) {
  const std::string text =
      "q: f32[1,2,5,4]\nk: f32[1,2,5,4]\nv: f32[1,2,5,4]\n"
      "y = attention(q, k, v) heads=2 kv_heads=2 depth=4 value_depth=4\nreturn y";
  for (const char* glob : {"", "y"}) {
    graph::Graph g = parsed(text);
    QuantizeOptions options;
    if (*glob != '\0') options.keep_float = {glob};
    const auto outcome = quantize(g, options);
    ASSERT_TRUE(outcome.ok()) << outcome.error().message;
    EXPECT_EQ(attention_in(g).int8, *glob == '\0');
    EXPECT_TRUE(outcome->warnings.empty());
  }
  graph::Graph g = parsed(text);
  QuantizeOptions options;
  options.attention = AttentionProducts::f32;
  ASSERT_TRUE(quantize(g, options).ok());
  EXPECT_FALSE(attention_in(g).int8);
}

}  // namespace
}  // namespace fold8::fusion
