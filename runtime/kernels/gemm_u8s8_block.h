// A block of rows times a range of panels: the middle layer between the tiles and the kernels that
// bring rows (gemm_u8s8, conv_u8s8). Include only from *_simd.h.
#pragma once

#include <type_traits>

#include "runtime/kernels/epilogue_sums_simd.h"
#include "runtime/kernels/gemm_u8s8.h"
#include "runtime/kernels/gemm_u8s8_avx2.h"
#include "runtime/kernels/gemm_u8s8_avx512.h"
#include "runtime/kernels/gemm_u8s8_avx_vnni.h"
#include "runtime/kernels/gemm_u8s8_vnni.h"

namespace fold8::kernels::simd {

inline constexpr std::size_t kMostBlockRows = 384;  // u8s8_block_rows never says more
inline constexpr std::size_t kSegmentDepth =
    32768;  // of sums too long for int32: 255 * 128 * 32768 < 2^31
inline constexpr std::size_t kMostTileSums = 12 * 32;  // 12 x 2, 8 x 3 and 6 x 4 panels

// `lines` times `rows` rows of x against panels of w. A row is one run of k bytes, or, where
// `prepared`, `runs` runs of run_depth (k in all) in the form that the engine reads.
struct BlockU8S8 {
  const std::uint8_t* x = nullptr;
  std::size_t x_stride = 0;               // bytes from row to row
  std::size_t rows = 0;                   // at most u8s8_block_rows(k), unless prepared
  std::size_t lines = 1, line_bytes = 0;  // prepared: bytes of x from line to line
  std::size_t k = 0;
  bool prepared = false;
  std::size_t runs = 1, run_depth = 0;
  const std::ptrdiff_t* run_offsets = kOneRun;
  std::int32_t x_zero_point = 0;
  const std::int8_t* w = nullptr;  // the whole packed matrix n x k
  std::size_t n = 0;
  std::size_t panel_begin = 0, panel_end = 0;
  const std::int32_t* w_zero_points = nullptr;  // null if prepared
  const Epilogue* epilogue = nullptr;
  const EpilogueU8* fast = nullptr;  // null: sums go through memory
  EpilogueSumsFn* finish = nullptr;  // epilogue_sums_of(*epilogue), or null: the general epilogue
  std::size_t m = 0;                 // row of `epilogue` that is row 0 here
  std::uint8_t* scratch = nullptr;   // u8s8_block_scratch_bytes(k)
};

template <class Arch>
struct EngineOf {
  using type = EngineAvx2<Arch>;
};
#ifdef __AVXVNNI__
template <>
struct EngineOf<AvxVnni> {
  using type = EngineAvxVnni<AvxVnni>;
};
#endif
#ifdef __AVX512F__
template <>
struct EngineOf<Avx512> {
  using type = EngineAvx512<Avx512>;
};
#endif
#ifdef __AVX512VNNI__
template <>
struct EngineOf<Avx512Vnni> {
  using type = EngineVnni<Avx512Vnni>;
};
#endif

// sums[r] = sum_k (x[r, k] - x_zero_point)
template <class Arch>
void centred_row_sums(const BlockU8S8& b, std::int64_t* sums) {
  for (std::size_t r = 0; r < b.rows; ++r) {
    const std::uint8_t* x = b.x + r * b.x_stride;
    std::int64_t sum = 0;
    for (std::size_t k0 = 0; k0 < b.k; k0 += kSegmentDepth) {
      const std::size_t k1 = b.k - k0 < kSegmentDepth ? b.k : k0 + kSegmentDepth;
      std::uint32_t part = 0;
      for (std::size_t k = k0; k < k1; ++k) part += x[k];
      sum += part;
    }
    sums[r] = sum - static_cast<std::int64_t>(b.k) * b.x_zero_point;
  }
}

// The rows of a tile whose sums lie in memory: weight zero points, then the general epilogue.
template <class Arch, class Sum>
void finish_tile(const BlockU8S8& b, const TileU8S8& t, std::size_t first_row, std::size_t rows,
                 std::size_t width, Sum* acc, const std::int64_t* row_sums) {
  for (std::size_t r = 0; b.w_zero_points != nullptr && r < rows; ++r) {
    const Sum row_sum = static_cast<Sum>(row_sums[first_row + r]);
    for (std::size_t j = 0; j < t.columns; ++j)
      acc[r * width + j] -= static_cast<Sum>(b.w_zero_points[t.n + j]) * row_sum;
  }
  if constexpr (std::is_same_v<Sum, std::int32_t>) {
    const EpilogueTile<std::int32_t> tile{acc, width, rows, t.columns};
    if (b.finish != nullptr)
      b.finish(*b.epilogue, t.m, t.n, tile);
    else
      epilogue_rows<Arch, Sum>(*b.epilogue, t.m, t.n, tile);
  } else {
    for (std::size_t r = 0; r < rows; ++r)
      epilogue_row_s64<Arch>(*b.epilogue, t.m + r, t.n, acc + r * width, t.columns);
  }
}

// A tile whose sums may need 64 bits: exact int32 sums of segments of k, added up.
template <class Arch>
[[gnu::noinline]] void long_tile(const BlockU8S8& b, TileU8S8 t, std::size_t first_row,
                                 std::size_t rows, std::size_t width, TileU8S8Fn* tile,
                                 std::size_t x_bytes, std::size_t w_bytes,
                                 const std::int64_t* row_sums) {
  std::int64_t wide[kMostTileSums] = {};
  alignas(64) static constexpr std::int32_t kZeros[64] = {};
  const std::int32_t* sums = packed_s8_sums(b.w, b.n, b.k) + t.n;
  t.init = kZeros;
  t.fast = nullptr;
  for (std::size_t k0 = 0; k0 < b.k; k0 += kSegmentDepth) {
    t.k = b.k - k0 < kSegmentDepth ? b.k - k0 : kSegmentDepth;
    tile(t);
    for (std::size_t i = 0; i < rows * width; ++i) wide[i] += t.acc[i];
    t.x += kSegmentDepth * x_bytes;
    t.w += kSegmentDepth / kGroupDepth * w_bytes;
  }
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t j = 0; j < t.columns; ++j)
      wide[r * width + j] -= std::int64_t{b.x_zero_point} * sums[j];
  finish_tile<Arch>(b, t, first_row, rows, width, wide, row_sums);
}

// The rows of a block as its engine reads them.
struct PreparedX {
  const std::uint8_t* x;
  std::size_t stride;
  std::int8_t* expand_to;  // null: panels are used as they lie
  const std::int64_t* row_sums;
};

// All row tiles of one line against the panels of t.
template <class Arch>
void block_line(const BlockU8S8& b, const PreparedX& p, TileU8S8 t, const std::uint8_t* x,
                std::size_t panels) {
  using Engine = typename EngineOf<Arch>::type;
  const std::size_t width = panels * kPanelColumns, first_m = t.m;
  const bool is_long = b.k > gemm_u8s8_int32_depth(b.w_zero_points != nullptr);
  std::size_t r = 0;
  if constexpr (requires { Engine::column(1, 1); }) {
    if (panels == 1 && t.fast != nullptr && t.fast->residual == nullptr &&
        b.rows >= Engine::kColumnRows)
      if (const auto column = Engine::column(t.runs, t.k)) {
        t.x = x;
        column(t, b.rows);
        r = b.rows / Engine::kColumnRows * Engine::kColumnRows;
      }
  }
  // Tiles of nearly equal height: 7 rows are 4 + 3, not 6 + 1. In whole steps but for the rest.
  const std::size_t step = Engine::row_step(panels), steps = (b.rows - r + step - 1) / step,
                    most = Engine::max_rows(panels) / step, tiles = (steps + most - 1) / most;
  for (std::size_t i = 0; r < b.rows; ++i) {
    const std::size_t even = step * (steps / tiles + (i < steps % tiles ? 1 : 0)),
                      left = b.rows - r, rows = Engine::height(even < left ? even : left, panels);
    t.x = x + r * p.stride;
    t.m = first_m + r;
    TileU8S8Fn* tile;
    if constexpr (Engine::kWidened) {
      tile = Engine::tile(rows, p.expand_to != nullptr);
      if constexpr (requires { Engine::half_tile(rows); })
        if (p.expand_to != nullptr && t.columns <= 8) tile = Engine::half_tile(rows);
    } else {
      tile = Engine::tile(rows, panels);
      if constexpr (requires { Engine::half_tile(rows); })
        if (panels == 2 && t.columns <= 24) tile = Engine::half_tile(rows);
    }
    if (is_long) {
      long_tile<Arch>(b, t, r, rows, width, tile, Engine::kWidened ? 2 : 1, p.expand_to ? 128 : 64,
                      p.row_sums);
    } else {
      tile(t);
      if (t.fast == nullptr) finish_tile<Arch>(b, t, r, rows, width, t.acc, p.row_sums);
    }
    r += rows;
  }
}

// All rows of the block against `panels` neighbouring panels.
template <class Arch>
void block_panels(const BlockU8S8& b, const PreparedX& p, std::size_t panel, std::size_t panels) {
  using Engine = typename EngineOf<Arch>::type;
  alignas(64) std::int32_t acc[kMostTileSums], init[4 * kPanelColumns];
  const std::size_t width = panels * kPanelColumns, n = panel * kPanelColumns;
  const std::int32_t* sums = packed_s8_sums(b.w, b.n, b.k) + n;
  for (std::size_t j = 0; j < width; ++j)
    init[j] = static_cast<std::int32_t>(static_cast<std::uint32_t>(-b.x_zero_point) *
                                        static_cast<std::uint32_t>(sums[j]));
  TileU8S8 t;
  t.k = b.prepared ? b.run_depth : b.k;
  t.runs = b.runs;
  t.run_offsets = b.run_offsets;
  t.x_stride = p.stride;
  t.panel_bytes = s8_panel_bytes(b.k);
  t.w = b.w + panel * t.panel_bytes;
  t.init = init;
  t.n = n;
  t.columns = b.n - n < width ? b.n - n : width;
  t.fast = b.fast;
  t.acc = acc;
  if constexpr (Engine::kWidened) {
    if (p.expand_to != nullptr) {
      avx2_engine::expand_in_order<Arch>(t.w, s8_groups(b.k), p.expand_to);
      t.w = p.expand_to;
    }
  }
  for (std::size_t line = 0; line < b.lines; ++line) {
    t.m = b.m + line * b.rows;
    block_line<Arch>(b, p, t, p.x + line * b.line_bytes, panels);
  }
}

// Widens the rows of a block into its scratch, unless it is prepared.
template <class Arch>
PreparedX widen_block(const BlockU8S8& b) {
  if (b.prepared) return {b.x, b.x_stride, reinterpret_cast<std::int8_t*>(b.scratch), nullptr};
  const std::size_t stride = s8_groups(b.k) * 8;
  PreparedX p{b.scratch, stride, nullptr, nullptr};
  if (b.rows < EngineOf<Arch>::type::kExpandFrom) {
    for (std::size_t r = 0; r < b.rows; ++r)
      avx2_engine::widen_pairs<Arch>(b.x + r * b.x_stride, b.k, b.scratch + r * stride);
    return p;
  }
  p.expand_to = reinterpret_cast<std::int8_t*>(b.scratch + (b.rows * stride + 63) / 64 * 64);
  if (b.x_stride == b.k) {
    p.stride = 2 * b.k;
    avx2_engine::widen<Arch>(b.x, b.rows * b.k, b.scratch);
  } else {
    for (std::size_t r = 0; r < b.rows; ++r)
      avx2_engine::widen<Arch>(b.x + r * b.x_stride, b.k, b.scratch + r * stride);
  }
  return p;
}

// How many panels go together: fewer where that leaves one tile of rows instead of two.
template <class Engine>
std::size_t max_panels(const BlockU8S8& b) {
  std::size_t panels = Engine::kMaxPanels;
  if (panels > 1 && b.lines == 1 && b.rows > Engine::max_rows(panels) &&
      b.rows <= Engine::max_rows(panels - 1))
    --panels;
  return panels;
}

template <class Arch>
void gemm_u8s8_block(const BlockU8S8& b) {
  using Engine = typename EngineOf<Arch>::type;
  std::int64_t row_sums[kMostBlockRows];
  if (b.w_zero_points != nullptr) centred_row_sums<Arch>(b, row_sums);
  PreparedX p{b.x, b.x_stride, nullptr, nullptr};
  if constexpr (Engine::kWidened) p = widen_block<Arch>(b);
  p.row_sums = row_sums;
  // Neighbouring panels go together in groups of nearly equal width: 5 are 3 + 2, not 4 + 1.
  const std::size_t count = b.panel_end - b.panel_begin, most = max_panels<Engine>(b),
                    turns = (count + most - 1) / most;
  for (std::size_t i = 0, panel = b.panel_begin; i < turns; ++i) {
    const std::size_t panels = count / turns + (i < count % turns ? 1 : 0);
    block_panels<Arch>(b, p, panel, panels);
    panel += panels;
  }
}

// The short epilogue, where it can be had: fills `fast` and returns it, else null. Columns [begin,
// end).
template <class Arch>
const EpilogueU8* fast_epilogue(const Epilogue& e, const std::int32_t* w_zero_points, std::size_t k,
                                std::size_t begin, std::size_t end, EpilogueU8& fast) {
  if (w_zero_points != nullptr || k > gemm_u8s8_int32_depth(false)) return nullptr;
  return epilogue_u8_tiles<Arch>(e, begin, end, fast) ? &fast : nullptr;
}

}  // namespace fold8::kernels::simd
