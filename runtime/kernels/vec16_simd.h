// Loads, stores, conversions and folds of V16, and loops in steps of 16. Include only from
// *_simd.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/kernels/lanes16_simd.h"

namespace fold8::kernels {

// Memory: load and store 16 elements, or the first n < 16 (the rest is read as 0 and not written).
// Nothing outside is touched.
template <class Arch>
struct Memory16;

template <Width256 Arch>
struct Memory16<Arch> {
  using V = V16<Arch>;
  using I = I16<Arch>;
  static __m256i mask(int n) {  // lanes below n
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  FOLD8_INLINE static V load(const float* p) {
    return V::make([&](int i)
                       FOLD8_INLINE_LAMBDA { return Avx2::f32(_mm256_loadu_ps(p + 8 * i)); });
  }
  FOLD8_INLINE static V load(const float* p, int n) {
    return V::make([&](int i) FOLD8_INLINE_LAMBDA {
      return Avx2::f32(_mm256_maskload_ps(p + 8 * i, mask(n - 8 * i)));
    });
  }
  FOLD8_INLINE static void store(float* p, V v) {
    for_parts<2>([&](int i) FOLD8_INLINE_LAMBDA { _mm256_storeu_ps(p + 8 * i, v.part[i]); });
  }
  FOLD8_INLINE static void store(float* p, int n, V v) {
    for_parts<2>([&](int i) FOLD8_INLINE_LAMBDA {
      _mm256_maskstore_ps(p + 8 * i, mask(n - 8 * i), v.part[i]);
    });
  }
  FOLD8_INLINE static I load(const std::int32_t* p) {
    return I::make([&](int i) FOLD8_INLINE_LAMBDA {
      return Avx2::s32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8 * i)));
    });
  }
  FOLD8_INLINE static I load(const std::int32_t* p, int n) {
    return I::make([&](int i) FOLD8_INLINE_LAMBDA {
      return Avx2::s32(_mm256_maskload_epi32(p + 8 * i, mask(n - 8 * i)));
    });
  }
  FOLD8_INLINE static __m128i load_bytes(const void* p) {
    return _mm_loadu_si128(static_cast<const __m128i*>(p));
  }
  // Up to 8 bytes as one number, by two loads that may overlap; and back.
  static std::uint64_t load_few(const std::uint8_t* p, int n) {
    if (n >= 8) return load_word<std::uint64_t>(p);
    if (n >= 4)
      return load_word<std::uint32_t>(p) | std::uint64_t{load_word<std::uint32_t>(p + n - 4)}
                                               << (8 * n - 32);
    if (n >= 2)
      return load_word<std::uint16_t>(p) | std::uint64_t{load_word<std::uint16_t>(p + n - 2)}
                                               << (8 * n - 16);
    return n == 1 ? *p : 0;
  }
  static void store_few(std::uint8_t* p, int n, std::uint64_t v) {
    if (n >= 8) return store_word<std::uint64_t>(p, v);
    if (n >= 4) {
      store_word<std::uint32_t>(p, v);
      store_word<std::uint32_t>(p + n - 4, v >> (8 * n - 32));
    } else if (n >= 2) {
      store_word<std::uint16_t>(p, v);
      store_word<std::uint16_t>(p + n - 2, v >> (8 * n - 16));
    } else if (n == 1) {
      *p = static_cast<std::uint8_t>(v);
    }
  }
  template <class T>
  static T load_word(const std::uint8_t* p) {
    T v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
  template <class T>
  static void store_word(std::uint8_t* p, std::uint64_t v) {
    const T t = static_cast<T>(v);
    __builtin_memcpy(p, &t, sizeof t);
  }
  static __m128i load_bytes(const void* p, int n) {
    const auto* b = static_cast<const std::uint8_t*>(p);
    const auto low = static_cast<std::int64_t>(load_few(b, n));
    return _mm_set_epi64x(n > 8 ? static_cast<std::int64_t>(load_few(b + 8, n - 8)) : 0, low);
  }
  FOLD8_INLINE static void store_bytes(void* p, __m128i v) {
    _mm_storeu_si128(static_cast<__m128i*>(p), v);
  }
  static void store_bytes(void* p, int n, __m128i v) {
    auto* b = static_cast<std::uint8_t*>(p);
    store_few(b, n, static_cast<std::uint64_t>(_mm_cvtsi128_si64(v)));
    if (n > 8) store_few(b + 8, n - 8, static_cast<std::uint64_t>(_mm_extract_epi64(v, 1)));
  }
  FOLD8_INLINE static I from_u8(__m128i b) {
    return I::make([&](int i) FOLD8_INLINE_LAMBDA {
      return Avx2::s32(_mm256_cvtepu8_epi32(i == 0 ? b : _mm_srli_si128(b, 8)));
    });
  }
  FOLD8_INLINE static I from_s8(__m128i b) {
    return I::make([&](int i) FOLD8_INLINE_LAMBDA {
      return Avx2::s32(_mm256_cvtepi8_epi32(i == 0 ? b : _mm_srli_si128(b, 8)));
    });
  }
  // Values already in range: the low byte of each.
  FOLD8_INLINE static __m128i to_bytes(I v) {
    const __m256i low = _mm256_set1_epi32(255);
    const __m256i a = _mm256_and_si256(v.part[0], low), b = _mm256_and_si256(v.part[1], low);
    const __m256i w = _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8);
    return _mm_packus_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1));
  }
  // The nearest of 0 .. 255.
  FOLD8_INLINE static __m128i to_bytes_saturated(I v) {
    const __m256i w = _mm256_permute4x64_epi64(_mm256_packs_epi32(v.part[0], v.part[1]), 0xd8);
    return _mm_packus_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1));
  }
  FOLD8_INLINE static I max(I a, I b) {
    return I::make([&](int i) FOLD8_INLINE_LAMBDA {
      return Avx2::s32(_mm256_max_epi32(a.part[i], b.part[i]));
    });
  }
  FOLD8_INLINE static I min(I a, I b) {
    return I::make([&](int i) FOLD8_INLINE_LAMBDA {
      return Avx2::s32(_mm256_min_epi32(a.part[i], b.part[i]));
    });
  }
  // Rounded half to even; the lowest integer for what is none.
  FOLD8_INLINE static I nearest(V v) {
    return I::make([&](int i)
                       FOLD8_INLINE_LAMBDA { return Avx2::s32(_mm256_cvtps_epi32(v.part[i])); });
  }
  FOLD8_INLINE static bool any_zero(I v) {
    const __m256i zero = _mm256_setzero_si256();
    return _mm256_movemask_epi8(_mm256_or_si256(_mm256_cmpeq_epi32(v.part[0], zero),
                                                _mm256_cmpeq_epi32(v.part[1], zero))) != 0;
  }
  FOLD8_INLINE static unsigned any_mask(M16<Arch> m) {  // bit i: lane i is set
    return static_cast<unsigned>(_mm256_movemask_ps(m.part[0])) |
           static_cast<unsigned>(_mm256_movemask_ps(m.part[1])) << 8;
  }
  // The largest lane; none is NaN.
  FOLD8_INLINE static float fold_max(V v) {
    const __m256 e = _mm256_max_ps(v.part[0], v.part[1]);
    const __m128 q = _mm_max_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
    const __m128 d = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(d, _mm_shuffle_ps(d, d, 1)));
  }
  FOLD8_INLINE static std::int32_t fold_max(I v) {
    const __m256i e = _mm256_max_epi32(v.part[0], v.part[1]);
    const __m128i q = _mm_max_epi32(_mm256_castsi256_si128(e), _mm256_extracti128_si256(e, 1));
    const __m128i d = _mm_max_epi32(q, _mm_unpackhi_epi64(q, q));
    return _mm_cvtsi128_si32(_mm_max_epi32(d, _mm_shuffle_epi32(d, 1)));
  }
  FOLD8_INLINE static std::int32_t fold_sum(I v) {
    const __m256i e = _mm256_add_epi32(v.part[0], v.part[1]);
    const __m128i q = _mm_add_epi32(_mm256_castsi256_si128(e), _mm256_extracti128_si256(e, 1));
    const __m128i d = _mm_add_epi32(q, _mm_unpackhi_epi64(q, q));
    return _mm_cvtsi128_si32(_mm_add_epi32(d, _mm_shuffle_epi32(d, 1)));
  }
  // The halving order of row_sum.h: 8, 4, 2, 1.
  FOLD8_INLINE static float fold_sum(V v) {
    const __m256 e = _mm256_add_ps(v.part[0], v.part[1]);
    const __m128 q = _mm_add_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
    const __m128 d = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(d, _mm_shuffle_ps(d, d, 1)));
  }
};

#ifdef __AVX512F__
template <Width512 Arch>
struct Memory16<Arch> {
  using V = V16<Arch>;
  using I = I16<Arch>;
  FOLD8_INLINE static V wrap(__m512 v) {
    return V::make([&](int) FOLD8_INLINE_LAMBDA { return Avx512::f32(v); });
  }
  FOLD8_INLINE static I wrap(__m512i v) {
    return I::make([&](int) FOLD8_INLINE_LAMBDA { return Avx512::s32(v); });
  }
  static __mmask16 mask(int n) { return static_cast<__mmask16>((1u << n) - 1u); }
  FOLD8_INLINE static V load(const float* p) { return wrap(_mm512_loadu_ps(p)); }
  FOLD8_INLINE static V load(const float* p, int n) {
    return wrap(_mm512_maskz_loadu_ps(mask(n), p));
  }
  FOLD8_INLINE static void store(float* p, V v) { _mm512_storeu_ps(p, v.part[0]); }
  FOLD8_INLINE static void store(float* p, int n, V v) {
    _mm512_mask_storeu_ps(p, mask(n), v.part[0]);
  }
  FOLD8_INLINE static I load(const std::int32_t* p) { return wrap(_mm512_loadu_si512(p)); }
  FOLD8_INLINE static I load(const std::int32_t* p, int n) {
    return wrap(_mm512_maskz_loadu_epi32(mask(n), p));
  }
  FOLD8_INLINE static __m128i load_bytes(const void* p) {
    return _mm_loadu_si128(static_cast<const __m128i*>(p));
  }
  FOLD8_INLINE static __m128i load_bytes(const void* p, int n) {
    return _mm_maskz_loadu_epi8(mask(n), p);
  }
  FOLD8_INLINE static void store_bytes(void* p, __m128i v) {
    _mm_storeu_si128(static_cast<__m128i*>(p), v);
  }
  FOLD8_INLINE static void store_bytes(void* p, int n, __m128i v) {
    _mm_mask_storeu_epi8(p, mask(n), v);
  }
  FOLD8_INLINE static I from_u8(__m128i b) { return wrap(_mm512_cvtepu8_epi32(b)); }
  FOLD8_INLINE static I from_s8(__m128i b) { return wrap(_mm512_cvtepi8_epi32(b)); }
  FOLD8_INLINE static __m128i to_bytes(I v) { return _mm512_cvtepi32_epi8(v.part[0]); }
  FOLD8_INLINE static __m128i to_bytes_saturated(I v) {
    return _mm512_cvtusepi32_epi8(_mm512_max_epi32(v.part[0], _mm512_setzero_si512()));
  }
  FOLD8_INLINE static I max(I a, I b) { return wrap(_mm512_max_epi32(a.part[0], b.part[0])); }
  FOLD8_INLINE static I min(I a, I b) { return wrap(_mm512_min_epi32(a.part[0], b.part[0])); }
  FOLD8_INLINE static I nearest(V v) { return wrap(_mm512_cvtps_epi32(v.part[0])); }
  FOLD8_INLINE static bool any_zero(I v) {
    return _mm512_testn_epi32_mask(v.part[0], v.part[0]) != 0;
  }
  FOLD8_INLINE static unsigned any_mask(M16<Arch> m) {
    return static_cast<__mmask16>(m.part[0].data);
  }
  FOLD8_INLINE static float fold_max(V v) {
    const __m512 a = v.part[0];
    const __m256 e = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    const __m128 q = _mm_max_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
    const __m128 d = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(d, _mm_shuffle_ps(d, d, 1)));
  }
  FOLD8_INLINE static std::int32_t fold_max(I v) {
    const __m512i a = v.part[0];
    const __m256i e = _mm256_max_epi32(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1));
    const __m128i q = _mm_max_epi32(_mm256_castsi256_si128(e), _mm256_extracti128_si256(e, 1));
    const __m128i d = _mm_max_epi32(q, _mm_unpackhi_epi64(q, q));
    return _mm_cvtsi128_si32(_mm_max_epi32(d, _mm_shuffle_epi32(d, 1)));
  }
  FOLD8_INLINE static std::int32_t fold_sum(I v) {
    const __m512i a = v.part[0];
    const __m256i e = _mm256_add_epi32(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1));
    const __m128i q = _mm_add_epi32(_mm256_castsi256_si128(e), _mm256_extracti128_si256(e, 1));
    const __m128i d = _mm_add_epi32(q, _mm_unpackhi_epi64(q, q));
    return _mm_cvtsi128_si32(_mm_add_epi32(d, _mm_shuffle_epi32(d, 1)));
  }
  FOLD8_INLINE static float fold_sum(V v) {
    const __m512 a = v.part[0];
    const __m256 e = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    const __m128 q = _mm_add_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
    const __m128 d = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(d, _mm_shuffle_ps(d, d, 1)));
  }
};
#endif

// A run of n elements in steps of 16: f(offset, Full) for whole steps, f(offset, count) with an int
// for the tail. Body code writes load(p + j, n): with Full the unmasked form is chosen at compile
// time.
struct Full {};

template <class Arch>
FOLD8_INLINE V16<Arch> load(const float* p, Full) {
  return Memory16<Arch>::load(p);
}
template <class Arch>
FOLD8_INLINE V16<Arch> load(const float* p, int n) {
  return Memory16<Arch>::load(p, n);
}
template <class Arch>
FOLD8_INLINE I16<Arch> load(const std::int32_t* p, Full) {
  return Memory16<Arch>::load(p);
}
template <class Arch>
FOLD8_INLINE I16<Arch> load(const std::int32_t* p, int n) {
  return Memory16<Arch>::load(p, n);
}
template <class Arch>
FOLD8_INLINE void store(float* p, Full, V16<Arch> v) {
  Memory16<Arch>::store(p, v);
}
template <class Arch>
FOLD8_INLINE void store(float* p, int n, V16<Arch> v) {
  Memory16<Arch>::store(p, n, v);
}
template <class Arch>
FOLD8_INLINE I16<Arch> load_u8(const void* p, Full) {
  return Memory16<Arch>::from_u8(Memory16<Arch>::load_bytes(p));
}
template <class Arch>
FOLD8_INLINE I16<Arch> load_u8(const void* p, int n) {
  return Memory16<Arch>::from_u8(Memory16<Arch>::load_bytes(p, n));
}
template <class Arch>
FOLD8_INLINE I16<Arch> load_s8(const void* p, Full) {
  return Memory16<Arch>::from_s8(Memory16<Arch>::load_bytes(p));
}
template <class Arch>
FOLD8_INLINE I16<Arch> load_s8(const void* p, int n) {
  return Memory16<Arch>::from_s8(Memory16<Arch>::load_bytes(p, n));
}
template <class Arch>
FOLD8_INLINE void store_u8(void* p, Full, I16<Arch> v) {
  Memory16<Arch>::store_bytes(p, Memory16<Arch>::to_bytes(v));
}
template <class Arch>
FOLD8_INLINE void store_u8(void* p, int n, I16<Arch> v) {
  Memory16<Arch>::store_bytes(p, n, Memory16<Arch>::to_bytes(v));
}

// Values outside 0 .. 255 become the nearest of them.
template <class Arch>
FOLD8_INLINE void store_u8_saturated(void* p, Full, I16<Arch> v) {
  Memory16<Arch>::store_bytes(p, Memory16<Arch>::to_bytes_saturated(v));
}
template <class Arch>
FOLD8_INLINE void store_u8_saturated(void* p, int n, I16<Arch> v) {
  Memory16<Arch>::store_bytes(p, n, Memory16<Arch>::to_bytes_saturated(v));
}

template <class Arch, class Function>
FOLD8_INLINE void for_steps(std::size_t n, Function&& f) {
  std::size_t j = 0;
  for (; j + 16 <= n; j += 16) f(j, Full{});
  if (j < n) f(j, static_cast<int>(n - j));
}

// v in the lanes below n, `other` in the rest: keeps the lanes of a tail out of sums (+0) and
// maxima (-inf).
template <class Arch>
FOLD8_INLINE V16<Arch> keep(V16<Arch> v, Full, float) {
  return v;
}
template <class Arch>
FOLD8_INLINE V16<Arch> keep(V16<Arch> v, int n, float other) {
  alignas(64) constexpr float kLane[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const V16<Arch> lane = Memory16<Arch>::load(kLane);
  return Lanes<V16<Arch>>::select(lane < V16<Arch>(static_cast<float>(n)), v, V16<Arch>(other));
}

template <class Arch>
FOLD8_INLINE float fold_sum(V16<Arch> v) {
  return Memory16<Arch>::fold_sum(v);
}

// round_clamped of quantize_ref.h: r already divided; the codes, zero point added.
template <class Arch>
struct RoundClamped {
  using V = V16<Arch>;
  using L = Lanes<V>;
  V lo, hi, z;
  RoundClamped(std::int32_t zero_point, std::int32_t lowest, std::int32_t highest)
      : lo(static_cast<float>(lowest - zero_point)),
        hi(static_cast<float>(highest - zero_point)),
        z(static_cast<float>(zero_point)) {}
  FOLD8_INLINE I16<Arch> operator()(V r) const {
    const V c = L::min(hi, L::max(lo, L::select(L::is_nan(r), V(0.0f), r)));
    return L::to_int(L::round(c) + z);
  }
};

}  // namespace fold8::kernels
