// Vector body of gemm_f32s8.h: one row goes straight through the bytes, at the speed of memory;
// more rows share weights that are widened once. Include only from targets/*.cc.
#pragma once

#include "runtime/kernels/finish_f32_simd.h"
#include "runtime/kernels/gemm_f32_simd.h"
#include "runtime/kernels/gemm_f32s8.h"
#include "runtime/kernels/pack_s8.h"
#include "runtime/kernels/vec16_simd.h"

namespace fold8::kernels::simd {

// f(i, weights of the i-th of four neighbouring k) for one group of a panel.
template <class Arch, class Function>
FOLD8_INLINE void each_of_four(const std::int8_t* group, Function&& f) {
  using L = Lanes<V16<Arch>>;
  const I16<Arch> v = L::bits(load<Arch>(reinterpret_cast<const float*>(group), Full{}));
  f(0, L::to_float((v << 24) >> 24));
  f(1, L::to_float((v << 16) >> 24));
  f(2, L::to_float((v << 8) >> 24));
  f(3, L::to_float(v >> 24));
}

// sum[p] = fma(chain of `depth` products, scale, sum[p]) of one row and kPanels panels.
template <class Arch, int kPanels>
[[gnu::noinline]] void row_f32s8(const float* x, std::size_t depth, const std::int8_t* w,
                                 const float* scale, std::size_t columns, float* sum) {
  using V = V16<Arch>;
  using L = Lanes<V>;
  V chain[kPanels];
  for (V& c : chain) c = V(0.0f);
  const std::size_t panel = s8_panel_bytes(depth);
  const auto multiply = [&](std::size_t count) FOLD8_INLINE_LAMBDA {
    for_parts<kPanels>([&](int p) FOLD8_INLINE_LAMBDA {
      each_of_four<Arch>(w + static_cast<std::size_t>(p) * panel,
                         [&](std::size_t i, V weight) FOLD8_INLINE_LAMBDA {
                           if (i < count) chain[p] = L::fma(V(x[i]), weight, chain[p]);
                         });
    });
    x += kGroupDepth;
    w += kPanelColumns * kGroupDepth;
  };
  for (std::size_t g = depth / kGroupDepth; g > 0; --g) multiply(kGroupDepth);
  if (depth % kGroupDepth != 0) multiply(depth % kGroupDepth);
  for_parts<kPanels>([&](int p) FOLD8_INLINE_LAMBDA {
    const std::size_t at = 16 * static_cast<std::size_t>(p);
    const V s = columns >= at + 16 ? load<Arch>(scale + at, Full{})
                                   : load<Arch>(scale + at, static_cast<int>(columns - at));
    store<Arch>(sum + at, Full{}, L::fma(chain[p], s, load<Arch>(sum + at, Full{})));
  });
}

template <class Arch>
class GemmF32S8 {
 public:
  explicit GemmF32S8(const GemmF32S8Args& a)
      : a_(a),
        wide_(static_cast<float*>(a.scratch)),
        chains_(wide_ + kDepthStepF32 * kBlockPanelsF32 * kPanelF32),
        sums_(chains_ + kBlockFloatsF32) {}

  void run() {
    for (std::size_t m = a_.row_begin; m < a_.row_end;) {
      const std::size_t rows = block_rows_f32(a_.row_end - m, a_.k, kBlockRowsF32);
      for (std::size_t p = a_.panel_begin; p < a_.panel_end;) {
        const std::size_t panels =
            balanced_part(a_.panel_end - p, rows == 1 ? 4 : TileShapes<Arch>::panels_for(rows));
        block(m, rows, p, panels);
        p += panels;
      }
      m += rows;
    }
  }

 private:
  void block(std::size_t m, std::size_t rows, std::size_t p, std::size_t panels) {
    const std::size_t width = panels * kPanelF32, n = p * kPanelF32,
                      columns = a_.n - n < width ? a_.n - n : width;
    for (std::size_t i = 0; i < rows * width; ++i) sums_[i] = 0.0f;
    const std::int8_t* w = a_.w;
    for (std::size_t g = 0, first = 0; first < a_.k; ++g, first += a_.group) {
      const std::size_t depth = a_.k - first < a_.group ? a_.k - first : a_.group;
      const std::int8_t* from = w + p * s8_panel_bytes(depth);
      const float* scale = a_.scale + g * a_.n + n;
      const float* x = a_.x + m * a_.x_stride + first;
      if (rows == 1)
        row(x, depth, from, scale, columns, panels);
      else
        group(x, rows, depth, from, scale, columns, panels);
      w += packed_s8_bytes(a_.n, depth);
    }
    finish_f32<Arch>(a_.epilogue, {m, nullptr, rows, n, columns, sums_, width});
  }

  void row(const float* x, std::size_t depth, const std::int8_t* w, const float* scale,
           std::size_t columns, std::size_t panels) {
    switch (panels) {
      case 4:
        return row_f32s8<Arch, 4>(x, depth, w, scale, columns, sums_);
      case 3:
        return row_f32s8<Arch, 3>(x, depth, w, scale, columns, sums_);
      case 2:
        return row_f32s8<Arch, 2>(x, depth, w, scale, columns, sums_);
      default:
        return row_f32s8<Arch, 1>(x, depth, w, scale, columns, sums_);
    }
  }

  // The chains go on over steps of the depth; each step's weights are widened for all rows.
  void group(const float* x, std::size_t rows, std::size_t depth, const std::int8_t* w,
             const float* scale, std::size_t columns, std::size_t panels) {
    const std::size_t width = panels * kPanelF32;
    GemmBlockF32 b;
    b.x_stride = a_.x_stride;
    b.rows = rows;
    b.panels = panels;
    b.w = wide_;
    b.acc = chains_;
    for (std::size_t k = 0; k < depth; k += kDepthStepF32) {
      b.k = depth - k < kDepthStepF32 ? depth - k : kDepthStepF32;
      b.x = x + k;
      b.panel_stride = b.k * kPanelF32;
      b.goes_on = k > 0;
      for (std::size_t p = 0; p < panels; ++p)
        widen(w + p * s8_panel_bytes(depth) + k / kGroupDepth * kPanelColumns * kGroupDepth, b.k,
              wide_ + p * b.panel_stride);
      gemm_block_f32<Arch>(b);
    }
    for (std::size_t r = 0; r < rows; ++r)
      for_steps<Arch>(columns, [&](std::size_t j, auto n) {
        const std::size_t at = r * width + j;
        store<Arch>(sums_ + at, n,
                    Lanes<V16<Arch>>::fma(load<Arch>(chains_ + at, n), load<Arch>(scale + j, n),
                                          load<Arch>(sums_ + at, n)));
      });
  }

  static void widen(const std::int8_t* w, std::size_t depth, float* to) {
    for (std::size_t k = 0; k < depth; k += kGroupDepth, w += kPanelColumns * kGroupDepth)
      each_of_four<Arch>(w, [&](std::size_t i, V16<Arch> weight) FOLD8_INLINE_LAMBDA {
        if (k + i < depth) store<Arch>(to + (k + i) * kPanelF32, Full{}, weight);
      });
  }

  const GemmF32S8Args& a_;
  float *wide_, *chains_, *sums_;
};

template <class Arch>
void gemm_f32s8(const GemmF32S8Args& a) {
  GemmF32S8<Arch>(a).run();
}

}  // namespace fold8::kernels::simd
