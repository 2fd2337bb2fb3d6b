// The AVX-512 VNNI engine of depthwise_u8s8: 64 byte lanes are 64 channels of one position or, with
// few channels, all channels of several neighbouring outputs. Include only from
// depthwise_u8s8_simd.h.
//
// Four inputs of a lane are interleaved to one dword (an "entry": 4 vectors); vpdpbusd then
// multiplies them with four weights. Interleaving within 128-bit lanes puts byte lane 16 L + 4 i +
// r into dword 4 L + r of vector i; weights and parameters are laid out the same way, and packing
// the results to bytes undoes it.
#pragma once

#include "runtime/kernels/depthwise_block.h"

#ifdef __AVX512VNNI__
namespace fold8::kernels::simd {

template <class Arch>
struct DepthwiseVnni {
  static constexpr std::size_t kLanes = 64, kEntryBytes = 256;
  static constexpr bool kPacksOutputs = true, kShortEpilogue = true;

  static std::size_t lane_of(std::size_t slot) {  // whose dword lies at this place
    return slot / 4 % 4 * 16 + slot / 16 * 4 + slot % 4;
  }
  // Dwords of all lanes' channels, `offset(channel)` bytes behind `from`, in their places. Lanes
  // without a channel get some channel's.
  struct Places {
    __m512i offset[4];
  };
  template <class Offset>
  static Places places(const DepthwiseBlock& b, Offset&& offset) {
    alignas(64) std::int32_t at[64];
    for (std::size_t i = 0; i < 64; ++i)
      at[i] = static_cast<std::int32_t>(offset(lane_of(i) % b.width));
    return {{_mm512_load_si512(at), _mm512_load_si512(at + 16), _mm512_load_si512(at + 32),
             _mm512_load_si512(at + 48)}};
  }
  static void place(const Places& p, const void* from, void* to) {
    for (int i = 0; i < 4; ++i)
      _mm512_store_si512(static_cast<std::uint8_t*>(to) + 64 * i,
                         _mm512_i32gather_epi32(p.offset[i], from, 1));
  }
  // The weights of one step; group: those of the block's first channel's panel, at that step.
  static void set_weights(const Places& p, const std::int8_t* group, std::uint8_t* to) {
    place(p, group, to);
  }

  static __mmask64 lanes(std::size_t count) {
    return count == 0 ? 0 : ~__mmask64{0} >> (64 - count);
  }

  static __mmask64 piece(const DepthwiseBlock& b, std::size_t i) {
    return lanes(b.width) << (i * b.width);
  }

  // block.outputs pieces of block.width channels, `step` bytes apart.
  [[gnu::always_inline]] static __m512i load_pieces(const DepthwiseBlock& b,
                                                    const std::uint8_t* from, std::int64_t step) {
    __m512i v = _mm512_setzero_si512();
    for (std::int64_t i = 0; i < b.outputs; ++i)
      v = _mm512_mask_loadu_epi8(v, piece(b, static_cast<std::size_t>(i)),
                                 from + i * (step - static_cast<std::int64_t>(b.width)));
    return v;
  }

  // The same where some pieces may lie in the padding.
  static __m512i load_edge(const DepthwiseBlock& b, const DepthwiseSources& s, int r,
                           std::int64_t at) {
    __m512i v = _mm512_set1_epi8(static_cast<char>(s.fill));
    if (s.inside[r] == 0) return v;
    for (std::int64_t i = 0; i < b.outputs; ++i) {
      const std::int64_t p = at + i * s.stride + r * s.apart;
      if (p >= 0 && p < s.in)
        v = _mm512_mask_loadu_epi8(
            v, piece(b, static_cast<std::size_t>(i)),
            s.from[r] + (at + i * s.stride) * s.channels - i * static_cast<std::int64_t>(b.width));
    }
    return v;
  }

  [[gnu::always_inline]] static void interleave(__m512i v0, __m512i v1, __m512i v2, __m512i v3,
                                                std::uint8_t* to) {
    const __m512i low01 = _mm512_unpacklo_epi8(v0, v1), high01 = _mm512_unpackhi_epi8(v0, v1);
    const __m512i low23 = _mm512_unpacklo_epi8(v2, v3), high23 = _mm512_unpackhi_epi8(v2, v3);
    _mm512_store_si512(to, _mm512_unpacklo_epi16(low01, low23));
    _mm512_store_si512(to + 64, _mm512_unpackhi_epi16(low01, low23));
    _mm512_store_si512(to + 128, _mm512_unpacklo_epi16(high01, high23));
    _mm512_store_si512(to + 192, _mm512_unpackhi_epi16(high01, high23));
  }
  // `count` entries `distance` positions apart from `at` on, whose sources all lie inside the line.
  template <bool kOneLoad>
  [[gnu::noinline]] static void inner_run(const DepthwiseBlock& block, const DepthwiseSources& s,
                                          std::int64_t at, std::int64_t distance,
                                          std::int64_t count, std::uint8_t* to) {
    const DepthwiseBlock b = block;  // a copy that stores through `to` cannot touch
    const std::uint8_t* from[4];
    std::int64_t step[4], piece_step[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      from[r] = s.from[r] + ((at * s.channels) & s.inside[r]);
      step[r] = (distance * s.channels) & s.inside[r];
      piece_step[r] = (s.stride * s.channels) & s.inside[r];
    }
    const __m512i padding = _mm512_set1_epi8(static_cast<char>(s.fill));
    for (; count > 0; --count, to += kEntryBytes) {
      __m512i v[4];
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) {
        if (step[r] == 0)
          v[r] = padding;
        else if constexpr (kOneLoad)
          v[r] = _mm512_maskz_loadu_epi8(b.mask, from[r]);
        else
          v[r] = load_pieces(b, from[r], piece_step[r]);
        from[r] += step[r];
      }
      interleave(v[0], v[1], v[2], v[3], to);
    }
  }
  static void inner_entries(const DepthwiseBlock& b, const DepthwiseSources& s, std::int64_t at,
                            std::int64_t distance, std::int64_t count, std::uint8_t* to) {
    if (b.one_load)
      inner_run<true>(b, s, at, distance, count, to);
    else
      inner_run<false>(b, s, at, distance, count, to);
  }
  // One entry that may reach into the padding.
  [[gnu::noinline]] static void edge_entry(const DepthwiseBlock& b, const DepthwiseSources& s,
                                           std::int64_t at, std::uint8_t* to) {
    if (b.outputs == 1 && s.apart == 0) {  // nothing but padding
      std::memset(to, s.fill, kEntryBytes);
      return;
    }
    interleave(load_edge(b, s, 0, at), load_edge(b, s, 1, at), load_edge(b, s, 2, at),
               load_edge(b, s, 3, at), to);
  }

  using Vectors = __m512i[4];

  template <int kGroups>
  [[gnu::always_inline]] static void sums(const DepthwiseChunk& c, const std::uint8_t* weights,
                                          const std::int32_t* init, std::size_t first,
                                          Vectors (&acc)[kGroups]) {
    const std::size_t group = c.group_step * kEntryBytes, reach = c.reach_step * kEntryBytes;
    const std::uint8_t* start = c.entries + first * group;
    // Two of the four vectors at a time: 8 sums in flight, and registers left for what they are
    // multiplied with.
#pragma GCC unroll 2
    for (int half = 0; half < 4; half += 2) {
      __m512i s[kGroups][2];
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) {
        s[g][0] = _mm512_load_si512(init + 16 * half);
        s[g][1] = _mm512_load_si512(init + 16 * half + 16);
      }
      const std::uint8_t *row = start + 64 * half, *w = weights + 64 * half;
      for (std::size_t p = 0; p < c.rows; ++p, row += c.row_entries * kEntryBytes) {
        const std::uint8_t* at = row;
        for (std::size_t t = 0; t < c.reach; ++t, at += reach, w += 256) {
          const __m512i w0 = _mm512_load_si512(w), w1 = _mm512_load_si512(w + 64);
#pragma GCC unroll 4
          for (int g = 0; g < kGroups; ++g) {
            const std::uint8_t* x = at + static_cast<std::size_t>(g) * group;
            s[g][0] = _mm512_dpbusd_epi32(s[g][0], _mm512_load_si512(x), w0);
            s[g][1] = _mm512_dpbusd_epi32(s[g][1], _mm512_load_si512(x + 64), w1);
          }
        }
      }
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) acc[g][half] = s[g][0], acc[g][half + 1] = s[g][1];
    }
  }

  // Sums in the order of lanes.
  [[gnu::always_inline]] static void store(const Vectors& v, std::int32_t* acc) {
    const __m512i low01 = _mm512_shuffle_i32x4(v[0], v[1], 0x44),
                  low23 = _mm512_shuffle_i32x4(v[2], v[3], 0x44);
    const __m512i high01 = _mm512_shuffle_i32x4(v[0], v[1], 0xee),
                  high23 = _mm512_shuffle_i32x4(v[2], v[3], 0xee);
    _mm512_store_si512(acc, _mm512_shuffle_i32x4(low01, low23, 0x88));
    _mm512_store_si512(acc + 16, _mm512_shuffle_i32x4(low01, low23, 0xdd));
    _mm512_store_si512(acc + 32, _mm512_shuffle_i32x4(high01, high23, 0x88));
    _mm512_store_si512(acc + 48, _mm512_shuffle_i32x4(high01, high23, 0xdd));
  }

  // `count` outputs, rows m and on of e, from one vector of sums; the short epilogue.
  [[gnu::always_inline]] static void finish(const EpilogueU8& e, const DepthwiseBlock& b,
                                            std::size_t m, std::size_t count, const Vectors& v) {
    const __mmask64 all = lanes(count * b.width);
    const bool dense_y = e.y_stride == b.width || count == 1;
    __m512i residual = _mm512_setzero_si512();
    if (e.residual) {
      const std::uint8_t* from = e.residual + m * e.residual_stride + b.first_channel;
      for (std::size_t i = 0; i < count; ++i)
        residual = _mm512_mask_loadu_epi8(residual, piece(b, i),
                                          from + i * e.residual_stride - i * b.width);
    }
    __m512i rounded[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      __m512 r = _mm512_fmadd_ps(_mm512_cvtepi32_ps(v[i]), _mm512_load_ps(b.multiplier + 16 * i),
                                 _mm512_load_ps(b.offset + 16 * i));
      if (e.residual) {
        const __m512i zero = _mm512_setzero_si512();
        const __m512i words =
            i < 2 ? _mm512_unpacklo_epi8(residual, zero) : _mm512_unpackhi_epi8(residual, zero);
        const __m512i q =
            i % 2 == 0 ? _mm512_unpacklo_epi16(words, zero) : _mm512_unpackhi_epi16(words, zero);
        const __m512i centred = _mm512_sub_epi32(q, _mm512_set1_epi32(e.residual_zero_point));
        r = _mm512_fmadd_ps(_mm512_cvtepi32_ps(centred), _mm512_set1_ps(e.residual_scale), r);
      }
      rounded[i] = _mm512_cvtps_epi32(_mm512_min_ps(r, _mm512_set1_ps(e.hi)));
    }
    const __m512i z = _mm512_set1_epi16(e.zero_point);
    const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(rounded[0], rounded[1]), z);
    const __m512i high = _mm512_adds_epi16(_mm512_packs_epi32(rounded[2], rounded[3]), z);
    const __m512i q =
        _mm512_max_epu8(_mm512_packus_epi16(low, high), _mm512_set1_epi8(static_cast<char>(e.lo)));
    std::uint8_t* y = e.y + m * e.y_stride + b.first_channel;
    if (dense_y) {
      if (all == ~__mmask64{0})
        _mm512_storeu_si512(y, q);
      else
        _mm512_mask_storeu_epi8(y, all, q);
      return;
    }
    for (std::size_t i = 0; i < count; ++i)
      _mm512_mask_storeu_epi8(y + i * e.y_stride - i * b.width, piece(b, i), q);
  }
};

}  // namespace fold8::kernels::simd
#endif
