// [pixels][channels] from planes and back for 2, 3 and 4 channels of 1 or 4 bytes, in AVX2
// instructions on every vector target. Include only from *_simd.h.
//   to_pixels:   y[q * C + l] = x[q + l * x_stride]       q < n, l < C
//   to_planes:   y[q + l * y_stride] = x[q * C + l]
// Both return how many of the n pixels they have done; the rest is the caller's.
#pragma once

#include <immintrin.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/kernels/arch.h"

namespace fold8::kernels::simd {

namespace narrow {

using Bytes = std::array<std::uint8_t, 16>;

// Byte k of `count` vectors of pixels is channel k % 3 of pixel k / 3: the shuffle that brings the
// bytes of `channel` from its plane to vector `vector` ...
constexpr Bytes to_vector(int vector, int channel) {
  Bytes m{};
  for (int i = 0; i < 16; ++i) {
    const int k = 16 * vector + i;
    m[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(k % 3 == channel ? k / 3 : 0x80);
  }
  return m;
}
// ... and the one that takes them from there.
constexpr Bytes from_vector(int vector, int channel) {
  Bytes m{};
  for (int i = 0; i < 16; ++i) {
    const int k = 3 * i + channel;
    m[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(k / 16 == vector ? k % 16 : 0x80);
  }
  return m;
}
struct Masks {
  alignas(16) Bytes of[3][3];
};
constexpr Masks masks(Bytes make(int, int)) {
  Masks m{};
  for (int v = 0; v < 3; ++v)
    for (int c = 0; c < 3; ++c) m.of[v][c] = make(v, c);
  return m;
}
inline constexpr Masks kToVector = masks(to_vector), kFromVector = masks(from_vector);

}  // namespace narrow

template <class Arch, class T, std::size_t kChannels>
struct NarrowTranspose {
  static constexpr bool kHas = false;
};

template <class Arch>
struct NarrowBytes {
  static constexpr bool kHas = true;
  static __m128i load(const std::uint8_t* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  }
  static void store(std::uint8_t* p, __m128i v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), v);
  }
};

template <class Arch>
struct NarrowTranspose<Arch, std::uint8_t, 2> : NarrowBytes<Arch> {
  using B = NarrowBytes<Arch>;
  static std::size_t to_pixels(const std::uint8_t* x, std::size_t x_stride, std::size_t n,
                               std::uint8_t* y) {
    std::size_t q = 0;
    for (; q + 16 <= n; q += 16, y += 32) {
      const __m128i a = B::load(x + q), b = B::load(x + x_stride + q);
      B::store(y, _mm_unpacklo_epi8(a, b));
      B::store(y + 16, _mm_unpackhi_epi8(a, b));
    }
    return q;
  }
  static std::size_t to_planes(const std::uint8_t* x, std::size_t n, std::uint8_t* y,
                               std::size_t y_stride) {
    const __m128i low = _mm_set1_epi16(255);
    std::size_t q = 0;
    for (; q + 16 <= n; q += 16, x += 32) {
      const __m128i a = B::load(x), b = B::load(x + 16);
      B::store(y + q, _mm_packus_epi16(_mm_and_si128(a, low), _mm_and_si128(b, low)));
      B::store(y + y_stride + q, _mm_packus_epi16(_mm_srli_epi16(a, 8), _mm_srli_epi16(b, 8)));
    }
    return q;
  }
};

template <class Arch>
struct NarrowTranspose<Arch, std::uint8_t, 3> : NarrowBytes<Arch> {
  using B = NarrowBytes<Arch>;
  static __m128i mix(const __m128i (&from)[3], const narrow::Bytes* masks, std::size_t step) {
    __m128i v = _mm_setzero_si128();
#pragma GCC unroll 3
    for (std::size_t i = 0; i < 3; ++i)
      v = _mm_or_si128(v, _mm_shuffle_epi8(from[i], B::load(masks[i * step].data())));
    return v;
  }
  static std::size_t to_pixels(const std::uint8_t* x, std::size_t x_stride, std::size_t n,
                               std::uint8_t* y) {
    std::size_t q = 0;
    for (; q + 16 <= n; q += 16, y += 48) {
      const __m128i from[3] = {B::load(x + q), B::load(x + x_stride + q),
                               B::load(x + 2 * x_stride + q)};
#pragma GCC unroll 3
      for (int v = 0; v < 3; ++v) B::store(y + 16 * v, mix(from, narrow::kToVector.of[v], 1));
    }
    return q;
  }
  static std::size_t to_planes(const std::uint8_t* x, std::size_t n, std::uint8_t* y,
                               std::size_t y_stride) {
    std::size_t q = 0;
    for (; q + 16 <= n; q += 16, x += 48) {
      const __m128i from[3] = {B::load(x), B::load(x + 16), B::load(x + 32)};
#pragma GCC unroll 3
      for (std::size_t c = 0; c < 3; ++c)
        B::store(y + c * y_stride + q, mix(from, &narrow::kFromVector.of[0][c], 3));
    }
    return q;
  }
};

template <class Arch>
struct NarrowTranspose<Arch, std::uint8_t, 4> : NarrowBytes<Arch> {
  using B = NarrowBytes<Arch>;
  static std::size_t to_pixels(const std::uint8_t* x, std::size_t x_stride, std::size_t n,
                               std::uint8_t* y) {
    std::size_t q = 0;
    for (; q + 16 <= n; q += 16, y += 64) {
      const __m128i a = B::load(x + q), b = B::load(x + x_stride + q),
                    c = B::load(x + 2 * x_stride + q), d = B::load(x + 3 * x_stride + q);
      const __m128i ab = _mm_unpacklo_epi8(a, b), cd = _mm_unpacklo_epi8(c, d);
      const __m128i ab2 = _mm_unpackhi_epi8(a, b), cd2 = _mm_unpackhi_epi8(c, d);
      B::store(y, _mm_unpacklo_epi16(ab, cd));
      B::store(y + 16, _mm_unpackhi_epi16(ab, cd));
      B::store(y + 32, _mm_unpacklo_epi16(ab2, cd2));
      B::store(y + 48, _mm_unpackhi_epi16(ab2, cd2));
    }
    return q;
  }
  static std::size_t to_planes(const std::uint8_t* x, std::size_t n, std::uint8_t* y,
                               std::size_t y_stride) {
    const __m128i by_channel = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    std::size_t q = 0;
    for (; q + 16 <= n; q += 16, x += 64) {
      __m128i v[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) v[i] = _mm_shuffle_epi8(B::load(x + 16 * i), by_channel);
      const __m128i a = _mm_unpacklo_epi32(v[0], v[1]), b = _mm_unpackhi_epi32(v[0], v[1]);
      const __m128i c = _mm_unpacklo_epi32(v[2], v[3]), d = _mm_unpackhi_epi32(v[2], v[3]);
      B::store(y + q, _mm_unpacklo_epi64(a, c));
      B::store(y + y_stride + q, _mm_unpackhi_epi64(a, c));
      B::store(y + 2 * y_stride + q, _mm_unpacklo_epi64(b, d));
      B::store(y + 3 * y_stride + q, _mm_unpackhi_epi64(b, d));
    }
    return q;
  }
};

// Four pixels of 2 to 4 floats (or anything as large).
template <class Arch, std::size_t kChannels>
struct NarrowWords {
  static constexpr bool kHas = true;
  static __m128 load(const std::uint32_t* p) {
    return _mm_loadu_ps(reinterpret_cast<const float*>(p));
  }
  static void store(std::uint32_t* p, __m128 v) { _mm_storeu_ps(reinterpret_cast<float*>(p), v); }

  static std::size_t to_pixels(const std::uint32_t* x, std::size_t x_stride, std::size_t n,
                               std::uint32_t* y) {
    // Stores of 3 channels write a fourth, the next pixel's first: that one must come later.
    constexpr std::size_t kNeeds = kChannels == 3 ? 5 : 4;
    std::size_t q = 0;
    for (; q + kNeeds <= n; q += 4, y += 4 * kChannels) {
      const __m128 a = load(x + q), b = load(x + x_stride + q);
      const __m128 low = _mm_unpacklo_ps(a, b), high = _mm_unpackhi_ps(a, b);
      if constexpr (kChannels == 2) {
        store(y, low);
        store(y + 4, high);
      } else {
        const __m128 c = load(x + 2 * x_stride + q), d = load(x + (kChannels - 1) * x_stride + q);
        const __m128 low2 = _mm_unpacklo_ps(c, d), high2 = _mm_unpackhi_ps(c, d);
        store(y, _mm_movelh_ps(low, low2));
        store(y + kChannels, _mm_movehl_ps(low2, low));
        store(y + 2 * kChannels, _mm_movelh_ps(high, high2));
        store(y + 3 * kChannels, _mm_movehl_ps(high2, high));
      }
    }
    return q;
  }

  static std::size_t to_planes(const std::uint32_t* x, std::size_t n, std::uint32_t* y,
                               std::size_t y_stride) {
    std::size_t q = 0;
    for (; q + 4 <= n; q += 4, x += 4 * kChannels) {
      if constexpr (kChannels == 2) {
        const __m128 a = load(x), b = load(x + 4);
        store(y + q, _mm_shuffle_ps(a, b, 0x88));
        store(y + y_stride + q, _mm_shuffle_ps(a, b, 0xdd));
      } else {
        // The last pixel of 3 channels is read from one float before it.
        const __m128 p3 =
            kChannels == 3 ? _mm_shuffle_ps(load(x + 8), load(x + 8), 0x39) : load(x + 12);
        const __m128 p0 = load(x), p1 = load(x + kChannels), p2 = load(x + 2 * kChannels);
        const __m128 low = _mm_unpacklo_ps(p0, p1), high = _mm_unpackhi_ps(p0, p1);
        const __m128 low2 = _mm_unpacklo_ps(p2, p3), high2 = _mm_unpackhi_ps(p2, p3);
        store(y + q, _mm_movelh_ps(low, low2));
        store(y + y_stride + q, _mm_movehl_ps(low2, low));
        store(y + 2 * y_stride + q, _mm_movelh_ps(high, high2));
        if constexpr (kChannels == 4) store(y + 3 * y_stride + q, _mm_movehl_ps(high2, high));
      }
    }
    return q;
  }
};
template <class Arch>
struct NarrowTranspose<Arch, std::uint32_t, 2> : NarrowWords<Arch, 2> {};
template <class Arch>
struct NarrowTranspose<Arch, std::uint32_t, 3> : NarrowWords<Arch, 3> {};
template <class Arch>
struct NarrowTranspose<Arch, std::uint32_t, 4> : NarrowWords<Arch, 4> {};

}  // namespace fold8::kernels::simd
