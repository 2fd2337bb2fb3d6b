// The AVX-512 VNNI engine of depthwise_u8s8: 64 byte lanes are 64 channels of one position or, with few channels, all
// channels of several neighbouring outputs. Include only from depthwise_u8s8_simd.h.
//
// Four inputs of a lane are interleaved to one dword (an "entry": 4 vectors); vpdpbusd then multiplies them with four
// weights. Interleaving within 128-bit lanes puts byte lane 16 L + 4 i + r into dword 4 L + r of vector i; weights and
// parameters are laid out the same way, and packing the results to bytes undoes it.
#pragma once

#include "runtime/kernels/depthwise_block.h"

#ifdef __AVX512VNNI__
namespace fold8::kernels::simd {

template <class Arch>
struct DepthwiseVnni {
  static constexpr std::size_t kLanes = 64, kEntryBytes = 256;
  static constexpr bool kPacksOutputs = true;

  static std::size_t slot(std::size_t lane) {  // where a lane's dword lies, in dwords
    return lane / 4 % 4 * 16 + lane / 16 * 4 + lane % 4;
  }
  // The four weights of one lane at one step.
  static void set_weights(std::uint8_t* step, std::size_t lane, const std::int8_t* four) {
    std::memcpy(step + 4 * slot(lane), four, 4);
  }

  static __mmask64 lanes(std::size_t count) { return count == 0 ? 0 : ~__mmask64{0} >> (64 - count); }

  static __mmask64 piece(const DepthwiseBlock& b, std::size_t i) { return lanes(b.width) << (i * b.width); }

  // Bytes of one source: block.outputs pieces of block.width channels, `stride` positions apart, from position x on.
  [[gnu::always_inline]] static __m512i load(const DepthwiseBlock& b, const DepthwiseLine& line, std::int64_t x) {
    const std::int64_t channels = line.channels;
    if (line.x == nullptr) return _mm512_set1_epi8(static_cast<char>(line.fill));
    const std::uint8_t* from = line.x + x * channels + b.first_channel;
    const std::int64_t last = x + (b.outputs - 1) * line.stride;
    const bool dense = line.stride == 1 && static_cast<std::int64_t>(b.width) == channels;
    if (x >= 0 && last < line.in && (b.outputs == 1 || dense))
      return _mm512_maskz_loadu_epi8(lanes(static_cast<std::size_t>(b.outputs) * b.width), from);
    __m512i v = _mm512_set1_epi8(static_cast<char>(line.fill));
    for (std::int64_t i = 0; i < b.outputs; ++i) {
      const std::int64_t at = x + i * line.stride;
      if (at >= 0 && at < line.in)
        v = _mm512_mask_loadu_epi8(v, piece(b, static_cast<std::size_t>(i)),
                                   from + i * (line.stride * channels - static_cast<std::int64_t>(b.width)));
    }
    return v;
  }

  [[gnu::always_inline]] static void entry(const DepthwiseBlock& b, const DepthwiseLine* lines, const std::int64_t* x,
                                           std::uint8_t* to) {
    const __m512i v0 = load(b, lines[0], x[0]), v1 = load(b, lines[1], x[1]);
    const __m512i v2 = load(b, lines[2], x[2]), v3 = load(b, lines[3], x[3]);
    const __m512i low01 = _mm512_unpacklo_epi8(v0, v1), high01 = _mm512_unpackhi_epi8(v0, v1);
    const __m512i low23 = _mm512_unpacklo_epi8(v2, v3), high23 = _mm512_unpackhi_epi8(v2, v3);
    _mm512_store_si512(to, _mm512_unpacklo_epi16(low01, low23));
    _mm512_store_si512(to + 64, _mm512_unpackhi_epi16(low01, low23));
    _mm512_store_si512(to + 128, _mm512_unpacklo_epi16(high01, high23));
    _mm512_store_si512(to + 192, _mm512_unpackhi_epi16(high01, high23));
  }

  template <int kGroups>
  struct Sums {
    __m512i v[kGroups][4];
  };

  template <int kGroups>
  [[gnu::always_inline]] static Sums<kGroups> sums(const DepthwiseChunk& c, const std::uint8_t* weights,
                                                   const std::int32_t* init, std::size_t first) {
    Sums<kGroups> acc;
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) acc.v[g][i] = _mm512_load_si512(init + 16 * i);
    const std::uint8_t* row = c.entries + first * c.group_step * kEntryBytes;
    for (std::size_t p = 0; p < c.rows; ++p, row += c.row_entries * kEntryBytes) {
      const std::uint8_t* at = row;
      for (std::size_t t = 0; t < c.reach; ++t, at += c.reach_step * kEntryBytes, weights += 256) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          const __m512i w = _mm512_load_si512(weights + 64 * i);
#pragma GCC unroll 4
          for (int g = 0; g < kGroups; ++g)
            acc.v[g][i] = _mm512_dpbusd_epi32(
                acc.v[g][i], _mm512_load_si512(at + static_cast<std::size_t>(g) * c.group_step * kEntryBytes + 64 * i), w);
        }
      }
    }
    return acc;
  }

  // Sums in the order of lanes.
  [[gnu::always_inline]] static void store(const __m512i (&v)[4], std::int32_t* acc) {
    for (int i = 0; i < 4; ++i) {
      alignas(64) std::int32_t dwords[16];
      _mm512_store_si512(dwords, v[i]);
      for (int lane = 0; lane < 4; ++lane) std::memcpy(acc + 16 * lane + 4 * i, dwords + 4 * lane, 16);
    }
  }

  // `count` outputs, rows m and on of e, from one vector of sums; the short epilogue.
  [[gnu::always_inline]] static void finish(const EpilogueU8& e, const DepthwiseBlock& b, std::size_t m, std::size_t count,
                                            const __m512i (&v)[4]) {
    const __mmask64 all = lanes(count * b.width);
    const bool dense_y = e.y_stride == b.width || count == 1;
    __m512i residual = _mm512_setzero_si512();
    if (e.residual) {
      const std::uint8_t* from = e.residual + m * e.residual_stride + b.first_channel;
      for (std::size_t i = 0; i < count; ++i)
        residual = _mm512_mask_loadu_epi8(residual, piece(b, i), from + i * e.residual_stride - i * b.width);
    }
    __m512i rounded[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      __m512 r = _mm512_fmadd_ps(_mm512_cvtepi32_ps(v[i]), _mm512_load_ps(b.multiplier + 16 * i),
                                 _mm512_load_ps(b.offset + 16 * i));
      if (e.residual) {
        const __m512i zero = _mm512_setzero_si512();
        const __m512i words = i < 2 ? _mm512_unpacklo_epi8(residual, zero) : _mm512_unpackhi_epi8(residual, zero);
        const __m512i q = i % 2 == 0 ? _mm512_unpacklo_epi16(words, zero) : _mm512_unpackhi_epi16(words, zero);
        const __m512i centred = _mm512_sub_epi32(q, _mm512_set1_epi32(e.residual_zero_point));
        r = _mm512_fmadd_ps(_mm512_cvtepi32_ps(centred), _mm512_set1_ps(e.residual_scale), r);
      }
      rounded[i] = _mm512_cvtps_epi32(_mm512_min_ps(r, _mm512_set1_ps(e.hi)));
    }
    const __m512i z = _mm512_set1_epi16(e.zero_point);
    const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(rounded[0], rounded[1]), z);
    const __m512i high = _mm512_adds_epi16(_mm512_packs_epi32(rounded[2], rounded[3]), z);
    const __m512i q = _mm512_max_epu8(_mm512_packus_epi16(low, high), _mm512_set1_epi8(static_cast<char>(e.lo)));
    std::uint8_t* y = e.y + m * e.y_stride + b.first_channel;
    if (dense_y) {
      if (all == ~__mmask64{0}) _mm512_storeu_si512(y, q);
      else _mm512_mask_storeu_epi8(y, all, q);
      return;
    }
    for (std::size_t i = 0; i < count; ++i)
      _mm512_mask_storeu_epi8(y + i * e.y_stride - i * b.width, piece(b, i), q);
  }
};

}  // namespace fold8::kernels::simd
#endif
