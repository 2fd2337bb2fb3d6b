// Attention and Rotary against the operators they stand for, in every layout of heads.
#include <cmath>

#include "tests/ops/matrix_values.h"

namespace fold8::ops {
namespace {

using ::testing::HasSubstr;

constexpr float kTolerance = 2e-6f;  // another order of the same sums

void expect_near(const std::vector<float>& got, const std::vector<float>& want,
                 const std::string& what, float tolerance = kTolerance) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], tolerance * (1 + std::fabs(want[i]))) << what << " [" << i << "]";
}

// 2 samples, 5 queries, 7 keys, heads of 6 and 4.
const char* const kSpelledOut =
    "q: f32[2,4,5,6]\n k: f32[2,4,7,6]\n v: f32[2,4,7,4]\n m: f32[2,1,5,7]\n"
    " s = matmul(q, k) alpha=0.4 transpose_b=true\n x = binary(s, m)\n p = softmax(x) axis=3\n"
    " y = matmul(p, v)\n return y";

struct Operands {
  Evaluated q = random_f32({2, 4, 5, 6}, 1), k = random_f32({2, 4, 7, 6}, 2),
            v = random_f32({2, 4, 7, 4}, 3), m = random_f32({2, 1, 5, 7}, 4);
  std::vector<float> want = run_one(kSpelledOut, {q, k, v, m}).as<float>();
};

TEST(Attention, IsSoftmaxOfScoresTimesValues) {
  const Operands o;
  const std::string text =
      "q: f32[2,4,5,6]\n k: f32[2,4,7,6]\n v: f32[2,4,7,4]\n m: f32[2,1,5,7]\n"
      " y = attention(q, k, v, m) heads=4 kv_heads=4 depth=6 value_depth=4 scale=0.4";
  for (const kernels::Target* t : runnable_targets())
    for (int threads : {1, 3}) {
      expect_near(
          run_one(text + "\n return y", {o.q, o.k, o.v, o.m}, {t->kernels, threads}).as<float>(),
          o.want, "f32");
      expect_near(
          run_one(text + " int8=true\n return y", {o.q, o.k, o.v, o.m}, {t->kernels, threads})
              .as<float>(),
          o.want, "int8", 0.03f);
    }
}

TEST(Attention, HeadsMayBePartsOfRows) {
  const Operands o;
  const std::string rows =
      "q: f32[2,4,5,6]\n k: f32[2,4,7,6]\n v: f32[2,4,7,4]\n m: f32[2,1,5,7]\n"
      " qt = transpose(q) perm=[0,2,1,3]\n qr = reshape(qt, s64{0,0,24})\n"
      " kt = transpose(k) perm=[0,2,1,3]\n kr = reshape(kt, s64{0,0,24})\n"
      " vt = transpose(v) perm=[0,2,1,3]\n vr = reshape(vt, s64{0,0,16})\n"
      " kv = concat(vr, kr) axis=2\n"
      " yr = attention(qr, kv, kv, m) heads=4 kv_heads=4 depth=6 value_depth=4 scale=0.4 "
      "q_rows=true k_rows=true v_rows=true y_rows=true k_offset=16\n"
      " yh = reshape(yr, s64{0,0,4,4})\n y = transpose(yh) perm=[0,2,1,3]\n return y";
  expect_near(run_one(rows, {o.q, o.k, o.v, o.m}).as<float>(), o.want, rows);
}

TEST(Attention, BooleanMasksHide) {
  const Operands o;
  std::vector<int> seen(7, 1);
  std::vector<float> added(7, 0);
  for (std::size_t j : {2, 5}) seen[j] = 0, added[j] = -INFINITY;
  const std::string head = "q: f32[2,4,5,6]\n k: f32[2,4,7,6]\n v: f32[2,4,7,4]\n m: ";
  const std::string tail =
      "[7]\n y = attention(q, k, v, m) heads=4 kv_heads=4 depth=6 value_depth=4 scale=0.4\n"
      " return y";
  EXPECT_EQ(run_one(head + "bool" + tail, {o.q, o.k, o.v, booleans({7}, seen)}).as<float>(),
            run_one(head + "f32" + tail, {o.q, o.k, o.v, value<float>({7}, added)}).as<float>());
}

TEST(Attention, GroupsOfQueriesShareKeys) {
  const Evaluated q = random_f32({1, 6, 5, 8}, 1), k = random_f32({1, 2, 5, 8}, 2),
                  v = random_f32({1, 2, 5, 8}, 3);
  const auto want =
      run_one(
          "q: f32[1,6,5,8]\n k: f32[1,2,5,8]\n v: f32[1,2,5,8]\n"
          " ku = unsqueeze(k) axes=[2]\n ke = expand(ku, s64{1,2,3,5,8})\n"
          " kw = reshape(ke, s64{1,6,5,8})\n"
          " vu = unsqueeze(v) axes=[2]\n ve = expand(vu, s64{1,2,3,5,8})\n"
          " vw = reshape(ve, s64{1,6,5,8})\n"
          " y = attention(q, kw, vw) heads=6 kv_heads=6 depth=8 value_depth=8 scale=0.3 causal=true"
          "\n return y",
          {q, k, v})
          .as<float>();
  EXPECT_EQ(run_one("q: f32[1,6,5,8]\n k: f32[1,2,5,8]\n v: f32[1,2,5,8]\n"
                    " y = attention(q, k, v) heads=6 kv_heads=2 depth=8 value_depth=8 scale=0.3 "
                    "causal=true\n return y",
                    {q, k, v}, {nullptr, 2})
                .as<float>(),
            want);
}

// Tokens after a past, in one go and one by one: the same bits, and the past grows.
TEST(Attention, ThePastStandsInFront) {
  const Evaluated q = random_f32({2, 4, 9, 8}, 1), k = random_f32({2, 2, 9, 8}, 2),
                  v = random_f32({2, 2, 9, 6}, 3);
  const std::string op = " heads=4 kv_heads=2 depth=8 value_depth=6 scale=0.3 causal=true";
  const std::string at_once =
      "q: f32[2,4,9,8]\n k: f32[2,2,9,8]\n v: f32[2,2,9,6]\n"
      " y = attention(q, k, v)" +
      op;
  for (const char* products : {"", " int8=true"}) {
    const auto want = run_one(at_once + products + "\n return y", {q, k, v}).as<float>();
    Evaluated past_k = value<float>({2, 2, 0, 8}, {}), past_v = value<float>({2, 2, 0, 6}, {});
    for (std::int64_t t = 0; t < 9; ++t) {
      const std::string p = std::to_string(t), at = std::to_string(t + 1);
      const std::string text =
          "q: f32[2,4,9,8]\n k: f32[2,2,9,8]\n v: f32[2,2,9,6]\n pk: f32[2,2," + p +
          ",8]\n pv: f32[2,2," + p + ",6]\n qt = slice(q, s64{" + p + "}, s64{" + at +
          "}, s64{2})\n kt = slice(k, s64{" + p + "}, s64{" + at + "}, s64{2})\n" +
          " vt = slice(v, s64{" + p + "}, s64{" + at + "}, s64{2})\n" +
          " y, nk, nv = attention(qt, kt, vt, _, pk, pv)" + op + products + "\n return y, nk, nv";
      auto got = run_text(text, {q, k, v, past_k, past_v});
      ASSERT_TRUE(got.ok()) << got.error().message;
      const auto y = got->at(0).as<float>();
      for (std::size_t h = 0; h < 8; ++h)
        for (std::size_t e = 0; e < 6; ++e)
          ASSERT_EQ(y[h * 6 + e], want[(h * 9 + static_cast<std::size_t>(t)) * 6 + e]) << t;
      past_k = got->at(1);
      past_v = got->at(2);
    }
    EXPECT_EQ(past_k.as<float>(), k.as<float>());
    EXPECT_EQ(past_v.as<float>(), v.as<float>());
  }
}

TEST(Attention, NoKeysGiveSumsOfNothing) {
  EXPECT_EQ(run_one("q: f32[1,1,2,4]\n k: f32[1,1,0,4]\n v: f32[1,1,0,3]\n"
                    " y = attention(q, k, v) heads=1 kv_heads=1 depth=4 value_depth=3\n return y",
                    {random_f32({1, 1, 2, 4}, 1), value<float>({1, 1, 0, 4}, {}),
                     value<float>({1, 1, 0, 3}, {})})
                .as<float>(),
            std::vector<float>(6, 0.0f));
}

TEST(Attention, RefusalsSayWhat) {
  const auto why = [](const std::string& shapes, const std::string& op) {
    const auto g = graph::parse(shapes + "\n y = attention" + op + "\n return y");
    if (!g.ok()) return g.error().message;
    return failure(
        shapes + "\n y = attention" + op + "\n return y",
        {random_f32(g->type(g->inputs[0]).shape, 1), random_f32(g->type(g->inputs[1]).shape, 2),
         random_f32(g->type(g->inputs[2]).shape, 3)});
  };
  EXPECT_THAT(why("q: f32[1,4,5,6]\n k: f32[1,4,7,6]\n v: f32[1,4,8,6]",
                  "(q, k, v) heads=4 kv_heads=4 depth=6 value_depth=6"),
              HasSubstr("as many values as keys"));
  EXPECT_THAT(why("q: f32[1,4,5,6]\n k: f32[1,3,7,6]\n v: f32[1,3,7,6]",
                  "(q, k, v) heads=4 kv_heads=3 depth=6 value_depth=6"),
              HasSubstr("4 heads of queries over 3"));
  EXPECT_THAT(why("q: f32[1,5,24]\n k: f32[1,5,24]\n v: f32[1,5,24]",
                  "(q, k, v) heads=4 kv_heads=4 depth=6 value_depth=6 q_rows=true k_rows=true "
                  "v_rows=true v_offset=1"),
              HasSubstr("[batch, tokens, 25 or more]"));
  EXPECT_THAT(why("q: f32[1,4,5,6]\n k: f32[2,4,7,6]\n v: f32[2,4,7,6]",
                  "(q, k, v) heads=4 kv_heads=4 depth=6 value_depth=6"),
              HasSubstr("the batch of input 0"));
  EXPECT_THAT(why("q: f32[1,4,5,6]\n k: f32[1,4,7,6]\n v: f32[1,4,7,6]",
                  "(q, k, v, random:f32[5,6]) heads=4 kv_heads=4 depth=6 value_depth=6"),
              HasSubstr("a mask that broadcasts"));
  EXPECT_THAT(why("q: f32[1,4,5,6]\n k: f32[1,4,7,6]\n v: f32[1,4,7,6]",
                  "(q, k, v) heads=4 kv_heads=4 depth=0 value_depth=6"),
              HasSubstr("heads of 0 and 6 elements"));
  EXPECT_THAT(why("q: f32[1,4,5,6]\n k: f32[1,4,7,6]\n v: f32[1,4,7,6]",
                  "(q, k, v) heads=4611686018427387904 kv_heads=4611686018427387904 depth=6 "
                  "value_depth=6"),
              HasSubstr("4611686018427387904 heads"));
}

TEST(Rotary, IsTheFormulaOfItsExporters) {
  const Evaluated x = random_f32({2, 3, 5, 8}, 1), cos = random_f32({2, 1, 5, 8}, 2),
                  sin = random_f32({5, 8}, 3);
  const std::string in = "x: f32[2,3,5,8]\n c: f32[2,1,5,8]\n s: f32[5,8]\n";
  const auto want =
      run_one(in + " u = slice(x, s64{4}, s64{8}, s64{3})\n l = slice(x, s64{0}, s64{4}, "
                   "s64{3})\n n = unary(u) kind=neg\n r = concat(n, l) axis=3\n"
                   " a = binary(x, c) kind=mul\n b = binary(r, s) kind=mul\n y = binary(a, b)\n"
                   " return y",
              {x, cos, sin})
          .as<float>();
  for (const kernels::Target* t : runnable_targets()) {
    EXPECT_EQ(run_one(in + " y = rotary(x, c, s) heads=3 depth=8 dims=8\n return y", {x, cos, sin},
                      {t->kernels, 2})
                  .as<float>(),
              want)
        << t->name;
    EXPECT_EQ(run_one(in + " t = transpose(x) perm=[0,2,1,3]\n r = reshape(t, s64{0,0,24})\n"
                           " z = rotary(r, c, s) heads=3 depth=8 dims=8 rows=true\n"
                           " h = reshape(z, s64{0,0,3,8})\n y = transpose(h) perm=[0,2,1,3]\n"
                           " return y",
                      {x, cos, sin}, {t->kernels, 2})
                  .as<float>(),
              want)
        << t->name;
  }
}

TEST(Rotary, HalfTablesPairsAndTheRestOfAHead) {
  // One token, a head of 5: pairs (0, 1), (2, 3) turn by 90 and by 180 degrees, the last stays.
  const Evaluated x = value<float>({1, 1, 1, 5}, {1, 2, 3, 4, 5});
  const Evaluated cos = value<float>({1, 2}, {0, -1}), sin = value<float>({1, 2}, {1, 0});
  const std::string in = "x: f32[1,1,1,5]\n c: f32[1,2]\n s: f32[1,2]\n y = rotary(x, c, s) ";
  for (const kernels::Target* t : runnable_targets()) {
    EXPECT_EQ(run_one(in + "heads=1 depth=5 dims=4 interleaved=true\n return y", {x, cos, sin},
                      {t->kernels, 1})
                  .as<float>(),
              (std::vector<float>{-2, 1, -3, -4, 5}));
    EXPECT_EQ(run_one(in + "heads=1 depth=5 dims=4\n return y", {x, cos, sin}, {t->kernels, 1})
                  .as<float>(),
              (std::vector<float>{-3, -2, 1, -4, 5}));
  }
  EXPECT_THAT(failure(in + "heads=1 depth=5 dims=3\n return y", {x, cos, sin}),
              HasSubstr("rotary embedding of 3 of 5"));
  EXPECT_THAT(failure(in + "heads=1 depth=4611686018427387904 dims=4\n return y", {x, cos, sin}),
              HasSubstr("1 heads of 4611686018427387904 elements"));
}

}  // namespace
}  // namespace fold8::ops
