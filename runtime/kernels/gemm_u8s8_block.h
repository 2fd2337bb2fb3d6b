// A block of rows times a range of panels: the middle layer between the tiles and the kernels that
// bring rows (gemm_u8s8, conv_u8s8). Include only from *_simd.h.
#pragma once

#include <type_traits>

#include "runtime/kernels/epilogue_simd.h"
#include "runtime/kernels/gemm_u8s8.h"
#include "runtime/kernels/gemm_u8s8_avx2.h"
#include "runtime/kernels/gemm_u8s8_vnni.h"

namespace fold8::kernels::simd {

inline constexpr std::size_t kMostBlockRows = 96;  // u8s8_block_rows never says more
inline constexpr std::size_t kSegmentDepth =
    32768;  // of sums too long for int32: 255 * 128 * 32768 < 2^31
inline constexpr std::size_t kMostTileSums = 12 * 32;  // 12 x 2, 8 x 3 and 6 x 4 panels

struct BlockU8S8 {
  const std::uint8_t* x = nullptr;  // [rows, k]
  std::size_t x_stride = 0;
  std::size_t rows = 0;  // at most u8s8_block_rows(k)
  std::size_t k = 0;
  std::int32_t x_zero_point = 0;
  const std::int8_t* w = nullptr;  // the whole packed matrix n x k
  std::size_t n = 0;
  std::size_t panel_begin = 0, panel_end = 0;
  const std::int32_t* w_zero_points = nullptr;
  const Epilogue* epilogue = nullptr;
  const EpilogueU8* fast = nullptr;  // null: the general epilogue
  std::size_t m = 0;                 // row of `epilogue` that is row 0 here
  std::uint8_t* scratch = nullptr;   // u8s8_block_scratch_bytes(k)
};

template <class Arch>
struct EngineOf {
  using type = EngineAvx2<Arch>;
};
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
    epilogue_rows<Arch, Sum>(*b.epilogue, t.m, t.n, {acc, width, rows, t.columns});
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
  const std::int32_t* sums = t.sums;
  t.sums = nullptr;
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

// All row tiles of the block against `panels` neighbouring panels.
template <class Arch>
void block_panels(const BlockU8S8& b, const std::uint8_t* x, std::size_t x_stride,
                  std::size_t panel, std::size_t panels, std::int8_t* expand_to,
                  const std::int64_t* row_sums) {
  using Engine = typename EngineOf<Arch>::type;
  alignas(64) std::int32_t acc[kMostTileSums];
  const std::size_t width = panels * kPanelColumns, n = panel * kPanelColumns;
  const bool is_long = b.k > gemm_u8s8_int32_depth(b.w_zero_points != nullptr);
  TileU8S8 t;
  t.k = b.k;
  t.x_stride = x_stride;
  t.panel_bytes = s8_panel_bytes(b.k);
  t.w = b.w + panel * t.panel_bytes;
  t.sums = packed_s8_sums(b.w, b.n, b.k) + n;
  t.x_zero_point = b.x_zero_point;
  t.n = n;
  t.columns = b.n - n < width ? b.n - n : width;
  t.fast = b.fast;
  t.acc = acc;
  bool expanded = false;
  if constexpr (Engine::kWidened) {
    expanded = b.rows >= Engine::kExpandFrom;
    if (expanded) {
      avx2_engine::expand_panel<Arch>(t.w, s8_groups(b.k), expand_to);
      t.w = expand_to;
    }
  }
  // Tiles of nearly equal height: 7 rows are 4 + 3, not 6 + 1.
  const std::size_t most = Engine::max_rows(panels), tiles = (b.rows + most - 1) / most;
  for (std::size_t i = 0, r = 0; i < tiles; ++i) {
    const std::size_t rows = b.rows / tiles + (i < b.rows % tiles ? 1 : 0);
    t.x = x + r * x_stride;
    t.m = b.m + r;
    TileU8S8Fn* tile;
    if constexpr (Engine::kWidened) {
      tile = Engine::tile(rows, expanded);
    } else {
      tile = Engine::tile(rows, panels);
    }
    if (is_long) {
      long_tile<Arch>(b, t, r, rows, width, tile, Engine::kWidened ? 2 : 1, expanded ? 128 : 64,
                      row_sums);
    } else {
      tile(t);
      if (t.fast == nullptr) finish_tile<Arch>(b, t, r, rows, width, acc, row_sums);
    }
    r += rows;
  }
}

template <class Arch>
void gemm_u8s8_block(const BlockU8S8& b) {
  using Engine = typename EngineOf<Arch>::type;
  std::int64_t row_sums[kMostBlockRows];
  if (b.w_zero_points != nullptr) centred_row_sums<Arch>(b, row_sums);
  const std::uint8_t* x = b.x;
  std::size_t x_stride = b.x_stride;
  std::int8_t* expand_to = nullptr;
  if constexpr (Engine::kWidened) {
    x_stride = s8_groups(b.k) * 8;
    for (std::size_t r = 0; r < b.rows; ++r)
      avx2_engine::widen_row<Arch>(b.x + r * b.x_stride, b.k, b.scratch + r * x_stride);
    x = b.scratch;
    expand_to = reinterpret_cast<std::int8_t*>(b.scratch + (b.rows * x_stride + 63) / 64 * 64);
  }
  // Neighbouring panels go together in groups of nearly equal width: 5 are 3 + 2, not 4 + 1.
  const std::size_t count = b.panel_end - b.panel_begin,
                    turns = (count + Engine::kMaxPanels - 1) / Engine::kMaxPanels;
  for (std::size_t i = 0, panel = b.panel_begin; i < turns; ++i) {
    const std::size_t panels = count / turns + (i < count % turns ? 1 : 0);
    block_panels<Arch>(b, x, x_stride, panel, panels, expand_to, row_sums);
    panel += panels;
  }
}

// The short epilogue, where it can be had: fills `fast` and returns it, else null. Columns [begin,
// end).
template <class Arch>
const EpilogueU8* fast_epilogue(const Epilogue& e, const std::int32_t* w_zero_points, std::size_t k,
                                std::size_t begin, std::size_t end, EpilogueU8& fast) {
  if (w_zero_points != nullptr || k > gemm_u8s8_int32_depth(false)) return nullptr;
  return epilogue_u8<Arch>(e, begin, end, fast) ? &fast : nullptr;
}

}  // namespace fold8::kernels::simd
