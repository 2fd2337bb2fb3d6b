// The f32 register tile of grouped convolutions with few channels: the outputs of several groups
// side by side in one vector of 16, one FMA chain each. Include only from *_simd.h.
#pragma once

#include <cstddef>

#include "runtime/kernels/lanes_simd.h"
#include "runtime/kernels/pack_f32.h"
#include "runtime/kernels/store_f32_simd.h"
#include "runtime/kernels/tile_f32_simd.h"

namespace fold8::kernels::simd {

inline constexpr std::size_t kGroupTileRows = 12;
inline constexpr std::size_t kGroupTileDepth = 512;  // taps * channels of a group, at most

// Whether groups of so many input and output channels share a vector.
template <class Arch>
constexpr bool groups_share_f32(std::size_t in, std::size_t out) {
  return Width512<Arch> && in == out && (in == 4 || in == 8);
}

// How 16 / channels groups are computed at once. Their inputs are 16 neighbouring floats of a pixel
// too; product k of every lane's chain takes the input of its own group.
template <class Arch>
struct GroupTileF32 {
  std::size_t channels;                   // of a group: 4 or 8
  const float* w;                         // [tap][k][16], 64-byte aligned
  alignas(64) std::int32_t input[8][16];  // [k]: the input that each lane takes

  // The weights, from the first group's panel, `depth` products deep; the others' follow.
  GroupTileF32(std::size_t c, const float* panels, std::size_t depth, float* weights)
      : channels(c), w(weights) {
    for (std::size_t k = 0; k < c; ++k)
      for (std::size_t lane = 0; lane < 16; ++lane)
        input[k][lane] = static_cast<std::int32_t>(lane / c * c + k);
    for (std::size_t k = 0; k < depth; ++k, weights += kPanelF32, panels += kPanelF32)
      for (std::size_t lane = 0; lane < 16; lane += 4)
        _mm_store_ps(weights + lane,
                     _mm_loadu_ps(panels + lane / c * depth * kPanelF32 + lane % c));
  }
};

// t as for tile_f32, whose depth is of one group and w the weights above.
template <Width512 Arch, int R>
void tile_groups_f32(const TileF32& t, const GroupTileF32<Arch>& g) {
  using batch = typename Arch::f32;
  batch c[R][1];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) c[r][0] = batch(0.0f);
  const std::size_t depth = g.channels;
  for (std::size_t tap = 0; tap < t.taps; ++tap) {
    const float* w = g.w + t.w_offsets[tap];
    batch x[R];
    const float* row = t.rows[t.even ? tap : tap * R] + t.offset;
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      if (!t.even) row = t.rows[tap * R + static_cast<std::size_t>(r)] + t.offset;
      x[r] = batch::load_unaligned(row);
      row += t.row_step;
    }
    for (std::size_t k = 0; k < depth; ++k, w += kPanelF32) {
      const batch b = batch::load_aligned(w);
      const auto input = Arch::s32::load_aligned(g.input[k]);
#pragma GCC unroll 12
      for (int r = 0; r < R; ++r)
        c[r][0] = Lanes<batch>::fma(Lanes<batch>::permute(x[r], input), b, c[r][0]);
    }
  }
  if (store_tile_f32<Arch, R, 1>(*t.store, c)) return;
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r)
    c[r][0].store_aligned(t.acc + static_cast<std::size_t>(r) * t.acc_stride);
  store_memory_f32<Arch>(*t.store, t.acc, t.acc_stride, R);
}

template <class Arch>
using tile_groups_f32_fn = void(const TileF32& t, const GroupTileF32<Arch>& g);
template <Width512 Arch>
tile_groups_f32_fn<Arch>* pick_group_tile(std::size_t rows) {
  static constexpr tile_groups_f32_fn<Arch>* kTiles[kGroupTileRows] = {
      &tile_groups_f32<Arch, 1>,  &tile_groups_f32<Arch, 2>,  &tile_groups_f32<Arch, 3>,
      &tile_groups_f32<Arch, 4>,  &tile_groups_f32<Arch, 5>,  &tile_groups_f32<Arch, 6>,
      &tile_groups_f32<Arch, 7>,  &tile_groups_f32<Arch, 8>,  &tile_groups_f32<Arch, 9>,
      &tile_groups_f32<Arch, 10>, &tile_groups_f32<Arch, 11>, &tile_groups_f32<Arch, 12>};
  return kTiles[rows - 1];
}

}  // namespace fold8::kernels::simd
