#include "runtime/kernels/attention.h"

#include <algorithm>
#include <cstring>

#include "runtime/core/aligned.h"
#include "tests/kernels/elementwise_support.h"

namespace fold8::kernels {
namespace {

using namespace testing;

enum class MaskKind { none, full, one_per_key, one_per_query, visible };

struct Shape {
  std::size_t queries, keys, heads, depth, value_depth;
};

std::string name_of(const Shape& s) {
  return std::to_string(s.queries) + "x" + std::to_string(s.keys) + " heads " +
         std::to_string(s.heads) + " depth " + std::to_string(s.depth) + "/" +
         std::to_string(s.value_depth);
}

// Operands in guarded memory, rows packed.
struct Problem {
  Shape shape;
  GuardedBuffer<float> q, k, v, mask, y;
  GuardedBuffer<std::uint8_t> visible;
  AlignedBytes scratch;
  AttentionArgs args;

  Problem(const Shape& s, SeededRng& rng, MaskKind kind, bool causal)
      : shape(s),
        q(s.queries * s.heads * s.depth),
        k(s.keys * s.depth),
        v(s.keys * s.value_depth),
        mask(s.queries * s.heads * s.keys),
        y(s.queries * s.heads * s.value_depth),
        visible(s.queries * s.heads * s.keys),
        scratch(allocate_aligned(attention_scratch_bytes(s.keys, s.depth, s.value_depth))) {
    rng.fill_normal(q.span());
    rng.fill_normal(k.span(), 0.2f, 1.5f);
    rng.fill_normal(v.span(), -0.3f, 2);
    for (std::size_t i = 0; i < mask.size(); ++i) {
      mask[i] = i % 5 == 3 ? -__builtin_inff() : i % 7 == 2 ? -3.4028235e38f : rng.normal();
      visible[i] = i % 3 != 1;
    }
    args.queries = s.queries;
    args.keys = s.keys;
    args.heads = s.heads;
    args.depth = s.depth;
    args.value_depth = s.value_depth;
    args.q = q.data();
    args.q_stride = s.heads * s.depth;
    args.q_head_stride = s.depth;
    args.k = k.data();
    args.k_stride = s.depth;
    args.v = v.data();
    args.v_stride = s.value_depth;
    args.scale = 0.37f;
    args.causal = causal;
    args.first_position = s.keys > s.queries ? s.keys - s.queries : 0;
    args.y = y.data();
    args.y_stride = s.heads * s.value_depth;
    args.y_head_stride = s.value_depth;
    args.row_end = s.queries * s.heads;
    args.scratch = scratch.get();
    set_mask(kind);
  }

  void set_mask(MaskKind kind) {
    args.mask = kind == MaskKind::none || kind == MaskKind::visible ? nullptr : mask.data();
    args.visible = kind == MaskKind::visible ? visible.data() : nullptr;
    args.mask_head_stride = kind == MaskKind::one_per_key ? 0 : shape.keys;
    args.mask_stride = kind == MaskKind::one_per_key ? 0 : shape.keys * shape.heads;
    args.mask_step = kind == MaskKind::one_per_query ? 0 : 1;
  }

  std::vector<float> run(attention_f32_fn* kernel) {
    kernel(args);
    return {y.data(), y.data() + y.size()};
  }
};

const Shape kShapes[] = {{1, 1, 1, 1, 1},      {1, 65, 3, 64, 64},    {2, 63, 1, 15, 15},
                         {17, 64, 2, 16, 32},  {48, 128, 1, 64, 64},  {49, 129, 1, 33, 17},
                         {50, 200, 3, 32, 80}, {130, 130, 1, 64, 64}, {3, 7, 1, 5, 100},
                         {64, 64, 1, 128, 64}, {5, 300, 9, 8, 8},     {16, 40, 2, 300, 3}};

void expect_reference_bits(const Problem& p, const std::vector<float>& want,
                           const std::vector<float>& got) {
  EXPECT_TRUE(same_bits(got.data(), want.data(), want.size())) << name_of(p.shape);
}

void compare_targets(Problem& p) {
  const auto f32 = p.run(reference_table().attention_f32),
             q8 = p.run(reference_table().attention_q8);
  for_each_vector_target([&](const KernelTable& table) {
    expect_reference_bits(p, f32, p.run(table.attention_f32));
    expect_reference_bits(p, q8, p.run(table.attention_q8));
  });
}

TEST(Attention, EveryTargetGivesTheReferencesBits) {
  SeededRng rng;
  for (const Shape& s : kShapes)
    for (MaskKind kind : {MaskKind::none, MaskKind::full, MaskKind::one_per_key,
                          MaskKind::one_per_query, MaskKind::visible})
      for (bool causal : {false, true}) {
        Problem p(s, rng, kind, causal);
        compare_targets(p);
      }
}

TEST(Attention, SoftcapGivesTheReferencesBits) {
  SeededRng rng;
  Problem p({33, 70, 2, 24, 24}, rng, MaskKind::full, false);
  p.args.softcap = 1.5f;
  compare_targets(p);
}

TEST(Attention, ValuesThatAreNotFiniteGiveTheReferencesBits) {
  SeededRng rng;
  const float nan = __builtin_nanf(""), inf = __builtin_inff();
  for (float special : {nan, inf, -inf, 3e38f})
    for (int operand = 0; operand < 3; ++operand)
      for (bool causal : {false, true}) {
        Problem p({20, 150, 2, 16, 20}, rng, MaskKind::none, causal);
        GuardedBuffer<float>& at = operand == 0 ? p.q : operand == 1 ? p.k : p.v;
        at[at.size() / 2 + 3] = special;
        compare_targets(p);
      }
}

// A block whose scores are all NaN is not one without keys.
TEST(Attention, ScoresThatAreNaNMakeTheRowNaN) {
  SeededRng rng;
  for (std::size_t block : {0u, 1u}) {
    Problem p({6, 150, 1, 8, 8}, rng, MaskKind::none, false);
    for (std::size_t i = block * 64 * 8; i < (block + 1) * 64 * 8; ++i) p.k[i] = __builtin_nanf("");
    compare_targets(p);
    for (auto* kernel : {reference_table().attention_f32, reference_table().attention_q8})
      for (const float y : p.run(kernel)) EXPECT_TRUE(std::isnan(y));
  }
}

TEST(Attention, RowsThatSeeNothingAreNaN) {
  SeededRng rng;
  Problem p({4, 100, 1, 8, 8}, rng, MaskKind::visible, false);
  for (std::size_t j = 0; j < 100; ++j) p.visible[2 * 100 + j] = 0;
  compare_targets(p);
  for (auto* kernel : {reference_table().attention_f32, reference_table().attention_q8}) {
    const auto y = p.run(kernel);
    for (std::size_t e = 0; e < 8; ++e) {
      EXPECT_TRUE(std::isnan(y[2 * 8 + e]));
      EXPECT_FALSE(std::isnan(y[8 + e]));
    }
  }
}

// softmax(scale * q k^T + mask) v in double.
std::vector<double> oracle(const Problem& p) {
  const AttentionArgs& a = p.args;
  std::vector<double> y;
  for (std::size_t r = 0; r < a.queries * a.heads; ++r) {
    const std::size_t query = r / a.heads, head = r % a.heads, limit = a.limit(query);
    std::vector<double> x(limit);
    double top = -INFINITY, length = 0;
    for (std::size_t j = 0; j < limit; ++j) {
      for (std::size_t d = 0; d < a.depth; ++d)
        x[j] += double{a.q[query * a.q_stride + head * a.q_head_stride + d]} *
                double{a.k[j * a.k_stride + d]};
      x[j] *= double{a.scale};
      const std::size_t at = query * a.mask_stride + head * a.mask_head_stride + j * a.mask_step;
      if (a.mask) x[j] += double{a.mask[at]};
      if (a.visible && a.visible[at] == 0) x[j] = -INFINITY;
      top = std::max(top, x[j]);
    }
    for (double& v : x) length += v = std::exp(v - top);
    for (std::size_t e = 0; e < a.value_depth; ++e) {
      double sum = 0;
      for (std::size_t j = 0; j < limit; ++j) sum += x[j] * double{a.v[j * a.v_stride + e]};
      y.push_back(sum / length);
    }
  }
  return y;
}

double sqnr_db(const std::vector<double>& want, const std::vector<float>& got) {
  double signal = 0, noise = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    signal += want[i] * want[i];
    noise += (want[i] - double{got[i]}) * (want[i] - double{got[i]});
  }
  return 10 * std::log10(signal / noise);
}

TEST(Attention, AgreesWithAttentionInDouble) {
  SeededRng rng;
  for (const Shape& s : {Shape{33, 200, 2, 64, 64}, Shape{128, 128, 1, 32, 32}})
    for (bool causal : {false, true}) {
      Problem p(s, rng, MaskKind::full, causal);
      p.args.scale = 0.15f;
      const auto want = oracle(p);
      EXPECT_GT(sqnr_db(want, p.run(reference_table().attention_f32)), 110);
      EXPECT_GT(sqnr_db(want, p.run(reference_table().attention_q8)), 36);
    }
}

// Many far keys of small weight must not vanish, though each is below 1 / 255 of the largest.
TEST(Attention, SmallWeightsOfFarKeysKeepTheirSum) {
  SeededRng rng;
  Problem p({1, 1000, 1, 16, 16}, rng, MaskKind::full, false);
  for (std::size_t j = 0; j < 1000; ++j) p.mask[j] = j == 0 ? 0.0f : -7.0f;
  p.args.scale = 0.02f;
  EXPECT_GT(sqnr_db(oracle(p), p.run(reference_table().attention_q8)), 30);
}

TEST(Attention, ARowDependsOnNothingButItselfAndWhatItSees) {
  SeededRng rng;
  for (const bool q8 : {false, true}) {
    Problem whole({150, 150, 2, 32, 32}, rng, MaskKind::none, true);
    const auto kernel = [&](const KernelTable& t) { return q8 ? t.attention_q8 : t.attention_f32; };
    const auto want = whole.run(kernel(reference_table()));
    for_each_vector_target([&](const KernelTable& table) {
      // The prompt in three parts, each with the keys so far; and rows in uneven parts.
      std::size_t first = 0;
      for (std::size_t end : {1u, 70u, 150u}) {
        AttentionArgs part = whole.args;
        part.queries = end - first;
        part.keys = end;
        part.first_position = first;
        part.q += first * part.q_stride;
        part.y += first * part.y_stride;
        part.row_end = part.queries * 2;
        AttentionArgs rows = part;
        rows.row_end = part.row_end / 3;
        kernel(table)(rows);
        rows.row_begin = rows.row_end;
        rows.row_end = part.row_end;
        kernel(table)(rows);
        first = end;
      }
      expect_reference_bits(whole, want, {whole.y.data(), whole.y.data() + whole.y.size()});
    });
  }
}

// Blocks of keys that are packed as keys come. `end` keys are right, up to 20 behind them are NaN.
class KeptKeys {
 public:
  KeptKeys(const Problem& p, bool q8)
      : p_(p),
        q8_(q8),
        blocks_((p.shape.keys + kAttentionKeys - 1) / kAttentionKeys),
        key_bytes_(blocks_ * attention_key_block_bytes(p.shape.depth, q8)),
        value_bytes_(blocks_ * attention_value_block_bytes(p.shape.value_depth, q8)),
        keys_(allocate_aligned(key_bytes_)),
        values_(allocate_aligned(value_bytes_)),
        wrong_(p.shape.keys * std::max(p.shape.depth, p.shape.value_depth), __builtin_nanf("")) {
    std::memset(keys_.get(), 0xff, key_bytes_);
    std::memset(values_.get(), 0xff, value_bytes_);
  }

  void grow(const KernelTable& table, std::size_t end) {
    pack(table, std::min(end + 20, p_.shape.keys), wrong_.data(), wrong_.data());
    pack(table, end, p_.k.data(), p_.v.data());
    end_ = end;
  }

  std::vector<float> run(Problem& p, attention_f32_fn* kernel) const {
    p.args.packed_keys = keys_.get();
    p.args.packed_values = values_.get();
    auto y = p.run(kernel);
    p.args.packed_keys = p.args.packed_values = nullptr;
    return y;
  }

 private:
  void pack(const KernelTable& table, std::size_t end, const float* k, const float* v) {
    AttentionPackArgs a;
    a.depth = p_.shape.depth;
    a.value_depth = p_.shape.value_depth;
    a.k = k;
    a.k_stride = a.depth;
    a.v = v;
    a.v_stride = a.value_depth;
    a.begin = end_;
    a.end = end;
    a.keys = keys_.get();
    a.values = values_.get();
    a.scratch = p_.scratch.get();
    (q8_ ? table.attention_pack_q8 : table.attention_pack_f32)(a);
  }

  const Problem& p_;
  bool q8_;
  std::size_t blocks_, key_bytes_, value_bytes_, end_ = 0;
  AlignedBytes keys_, values_;
  std::vector<float> wrong_;
};

TEST(Attention, KeptKeysGiveTheReferencesBits) {
  SeededRng rng;
  for (const Shape& s : kShapes)
    for (const bool q8 : {false, true}) {
      Problem p(s, rng, MaskKind::full, true);
      const auto kernel = [&](const KernelTable& t) {
        return q8 ? t.attention_q8 : t.attention_f32;
      };
      std::vector<std::size_t> ends;
      std::vector<std::vector<float>> want;
      for (const std::size_t end : {1u, 3u, 18u, 19u, 22u, 82u, 82u, 83u, 153u, 300u}) {
        ends.push_back(p.args.keys = std::min<std::size_t>(end, s.keys));
        want.push_back(p.run(kernel(reference_table())));
      }
      for_each_vector_target([&](const KernelTable& table) {
        KeptKeys kept(p, q8);
        for (std::size_t i = 0; i < ends.size(); ++i) {
          kept.grow(table, p.args.keys = ends[i]);
          expect_reference_bits(p, want[i], kept.run(p, kernel(table)));
        }
      });
    }
}

TEST(Attention, HiddenKeysOnTheRightChangeNothing) {
  SeededRng rng;
  for (const bool q8 : {false, true}) {
    Problem longer({10, 140, 1, 16, 16}, rng, MaskKind::one_per_key, false);
    for (std::size_t j = 0; j < 140; ++j) longer.mask[j] = j < 90 ? 0.0f : -3.4028235e38f;
    auto* const kernel = q8 ? reference_table().attention_q8 : reference_table().attention_f32;
    const auto want = longer.run(kernel);
    longer.args.keys = 90;
    const auto got = longer.run(kernel);
    expect_reference_bits(longer, want, got);
  }
}

}  // namespace
}  // namespace fold8::kernels
