// RMSNorm beside LayerNorm, alone and with what is fused into them, one thread: 128 rows of D
// elements. What is compared runs in turns in one process; printed are best times and ratios.
// FOLD8_TARGET chooses the target.
//   norm_bench [ROUNDS]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "bench/need.h"
#include "bench/race.h"
#include "runtime/core/aligned.h"
#include "runtime/kernels/kernel_table.h"

namespace fold8::bench {
namespace {

using kernels::NormKind;
using kernels::NormQuant;

constexpr std::size_t kRows = 128, kScratchRows = 4;

template <class T>
struct Array {
  AlignedBytes bytes;
  T* data;
  explicit Array(std::size_t n, T value = 0) : bytes(allocate_aligned(n * sizeof(T) + 64)) {
    data = reinterpret_cast<T*>(bytes.get());
    std::fill(data, data + n, value);
  }
};

struct Data {
  explicit Data(std::size_t cols)
      : n(kRows * cols),
        cols(cols),
        x(n),
        residual(n, 0.25f),
        sum(n),
        y(n),
        gamma(cols, 1.5f),
        beta(cols, 0.1f),
        multiplier(cols, 1e-3f),
        scratch(cols * kScratchRows),
        scales(kRows),
        acc(n),
        codes(n),
        q(n) {
    for (std::size_t i = 0; i < n; ++i) {
      x.data[i] = static_cast<float>(i * 37 % 101) * 0.02f - 1;
      acc.data[i] = static_cast<std::int32_t>(i * 7919 % 20011) - 10000;
      codes.data[i] = static_cast<std::uint8_t>(i * 37 % 251);
    }
  }
  std::size_t n, cols;
  Array<float> x, residual, sum, y, gamma, beta, multiplier, scratch, scales;
  Array<std::int32_t> acc;
  Array<std::uint8_t> codes, q;
};

enum class Reads { f32, sums, codes };
struct Variant {
  const char* name;
  Reads reads;
  bool residual;
  NormQuant quant;
  bool y;
};
constexpr Variant kVariants[] = {
    {"f32 -> f32", Reads::f32, false, NormQuant::none, true},
    {"f32 + residual -> f32, sum", Reads::f32, true, NormQuant::none, true},
    {"f32 -> u8 static", Reads::f32, false, NormQuant::fixed, false},
    {"f32 -> u8 per token", Reads::f32, false, NormQuant::per_row, false},
    {"f32 -> f32, u8 per token", Reads::f32, false, NormQuant::per_row, true},
    {"f32 + residual -> u8 per token, sum", Reads::f32, true, NormQuant::per_row, false},
    {"INT32 sums -> u8 per token", Reads::sums, false, NormQuant::per_row, false},
    {"INT32 sums + residual -> u8 per token, sum", Reads::sums, true, NormQuant::per_row, false},
    {"u8 -> u8 static", Reads::codes, false, NormQuant::fixed, false},
};

kernels::NormOutput output_of(const Variant& v, Data& d) {
  kernels::NormOutput out;
  if (v.y) out.y = d.y.data;
  out.quant = v.quant;
  if (v.quant != NormQuant::none) out.q = d.q.data;
  out.q_scale = 0.03f;
  out.q_zero_point = 128;
  if (v.quant == NormQuant::per_row) out.q_row_scale = d.scales.data;
  return out;
}

std::function<void()> norm(const kernels::KernelTable& k, NormKind kind, const Variant& v,
                           Data& d) {
  const float* beta = kind == NormKind::layer ? d.beta.data : nullptr;
  if (v.reads == Reads::codes) {
    kernels::NormRowsQ8Args a;
    a.kind = kind, a.rows = kRows, a.cols = d.cols;
    a.x = d.codes.data, a.scale = 0.02f, a.zero_point = 120;
    a.gamma = d.gamma.data, a.beta = beta, a.epsilon = 1e-5f;
    a.out = output_of(v, d);
    return [a, kernel = k.norm_rows_q8] { kernel(a); };
  }
  kernels::NormRowsArgs a;
  a.kind = kind, a.rows = kRows, a.cols = d.cols;
  if (v.reads == Reads::f32)
    a.x = d.x.data;
  else
    a.acc = d.acc.data, a.multiplier = d.multiplier.data;
  if (v.residual) a.residual = d.residual.data, a.sum_out = d.sum.data;
  a.gamma = d.gamma.data, a.beta = beta, a.epsilon = 1e-5f;
  a.scratch = d.scratch.data, a.scratch_rows = kScratchRows;
  a.out = output_of(v, d);
  return [a, kernel = k.norm_rows] { kernel(a); };
}

// The norm as f32, what is fused into it in passes of their own around it.
std::function<void()> in_passes(const kernels::KernelTable& k, const Variant& v, Data& d) {
  kernels::BinaryArgs add;
  add.kind = kernels::BinaryKind::add;
  add.rank = 1, add.shape[0] = d.n;
  add.a.stride[0] = add.b.stride[0] = 1;
  add.a.f32 = d.x.data, add.b.f32 = d.residual.data, add.y = d.sum.data, add.end = d.n;
  kernels::NormRowsArgs a;
  a.rows = kRows, a.cols = d.cols;
  a.x = v.residual ? d.sum.data : d.x.data;
  a.gamma = d.gamma.data, a.beta = d.beta.data, a.epsilon = 1e-5f;
  a.out.y = d.y.data;
  kernels::QuantizeRowsArgs rows;
  rows.rows = kRows, rows.cols = d.cols, rows.x = d.y.data, rows.q = d.q.data;
  rows.scales = d.scales.data;
  static constexpr float kScale = 0.03f;
  static constexpr std::int32_t kZeroPoint = 128;
  kernels::QuantizeArgs fixed;
  fixed.inner = d.n, fixed.x = d.y.data, fixed.q = d.q.data;
  fixed.scales = &kScale, fixed.zero_points = &kZeroPoint;
  return [=, &k] {
    if (v.residual) k.binary(add);
    k.norm_rows(a);
    if (v.quant == NormQuant::fixed) k.quantize(fixed);
    if (v.quant == NormQuant::per_row) k.quantize_rows(rows);
  };
}

void compare(const kernels::KernelTable& k, std::size_t cols, int rounds) {
  Data d(cols);
  std::printf("\nD = %zu\n%-44s %9s %9s %11s %22s\n", cols, "", "layer us", "rms us", "rms / layer",
              "layer / separate passes");
  for (const Variant& v : kVariants) {
    const bool fused = v.reads == Reads::f32 && (v.residual || v.quant != NormQuant::none);
    std::vector<Entry> entries{{"layer", norm(k, NormKind::layer, v, d)},
                               {"rms", norm(k, NormKind::rms, v, d)}};
    if (fused) entries.push_back({"in passes", in_passes(k, v, d)});
    race(entries, rounds);
    std::printf("%-44s %9.1f %9.1f %11.2f", v.name, entries[0].best * 1e6, entries[1].best * 1e6,
                entries[1].best / entries[0].best);
    if (fused) std::printf(" %22.2f", entries[0].best / entries[2].best);
    std::printf("\n");
  }
}

}  // namespace
}  // namespace fold8::bench

int main(int argc, char** argv) {
  const auto* target = fold8::bench::need(fold8::kernels::select_target());
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 100;
  std::printf("target %s, %zu rows\n", std::string(target->name).c_str(), fold8::bench::kRows);
  for (std::size_t cols : {384u, 768u, 4096u})
    fold8::bench::compare(*target->kernels, cols, rounds);
}
