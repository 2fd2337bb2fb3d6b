// A quantized channels-last map times one f32 value a channel, to codes: the gate of a
// squeeze-excitation block. Include only from binary_simd.h.
#pragma once

#include "runtime/kernels/binary.h"
#include "runtime/kernels/binary_repeat_simd.h"
#include "runtime/kernels/quantize_quotient_simd.h"

namespace fold8::kernels::simd {

// The code is the upper half of g = round(fma(f32(x - z_x), G, (z + 1/2) * 2^16 + 6)), with
// G = gate * (s_x / s * 2^16). Where it does not saturate anyhow, g is off from 2^16 * (the
// quotient
// + z + 1/2) + 6 by less than 5 (three roundings of the definition, two of G) + 1 (the fma's and
// the conversion's). So only where the lower half is below 12 can the quotient lie on a half or on
// its other side; there true quotients decide. So they do for NaN and where g overflows: its lower
// half is 0 then.
inline constexpr int kGateClose = 12;
inline constexpr std::size_t kMostGates = 4096;  // values, on the stack

// What one step makes codes of; `gate` is G.
template <class Arch>
struct GateStep;

template <Width256 Arch>
struct GateStep<Arch> {
  static constexpr std::size_t kSize = 32;
  __m256i zero;
  __m256 shift;

  GateStep(std::int32_t x_zero_point, float all)
      : zero(_mm256_set1_epi32(x_zero_point)), shift(_mm256_set1_ps(all)) {}

  // False: true quotients must decide, and nothing is stored (y may be x).
  FOLD8_INLINE bool run(const std::uint8_t* x, const float* gate, std::uint8_t* y) const {
    __m256i g[4], least = _mm256_set1_epi32(-1);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const __m256i q =
          _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(x + 8 * i)));
      g[i] = _mm256_cvtps_epi32(_mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(q, zero)),
                                                _mm256_loadu_ps(gate + 8 * i), shift));
      least = _mm256_min_epu16(least, g[i]);
    }
    const auto words = [&](int i) FOLD8_INLINE_LAMBDA {  // vectors i and i + 1 in turns
      return _mm256_blend_epi16(_mm256_srli_epi32(g[i], 16), g[i + 1], 0xaa);
    };
    // 0 and 8, 1 and 9, 2 and 10, 3 and 11, then 16 and 24, ...; the same from 4 in the high half.
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15));
    const __m256i bytes = _mm256_shuffle_epi8(_mm256_packus_epi16(words(0), words(2)), order);
    const __m256i low = _mm256_blend_epi16(least, _mm256_set1_epi32(-1), 0xaa),
                  close = _mm256_min_epu16(low, _mm256_set1_epi32(kGateClose - 1));
    if (__builtin_expect(_mm256_movemask_epi8(_mm256_cmpeq_epi16(close, low)) != 0, 0))
      return false;
    _mm256_storeu_si256(
        reinterpret_cast<__m256i*>(y),
        _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
    return true;
  }
};

#ifdef __AVX512F__
template <Width512 Arch>
struct GateStep<Arch> {
  static constexpr std::size_t kSize = 64;
  __m512i zero;
  __m512 shift;

  GateStep(std::int32_t x_zero_point, float all)
      : zero(_mm512_set1_epi32(x_zero_point)), shift(_mm512_set1_ps(all)) {}

  FOLD8_INLINE bool run(const std::uint8_t* x, const float* gate, std::uint8_t* y) const {
    __m512i g[4], least = _mm512_set1_epi32(-1);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const __m512i q =
          _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + 16 * i)));
      g[i] = _mm512_cvtps_epi32(_mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(q, zero)),
                                                _mm512_loadu_ps(gate + 16 * i), shift));
      least = _mm512_min_epu16(least, g[i]);
    }
    const auto words = [&](int i) FOLD8_INLINE_LAMBDA {
      return _mm512_packs_epi32(_mm512_srai_epi32(g[i], 16), _mm512_srai_epi32(g[i + 1], 16));
    };
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i low = _mm512_and_si512(least, _mm512_set1_epi32(0xffff));
    if (__builtin_expect(_mm512_cmplt_epu32_mask(low, _mm512_set1_epi32(kGateClose)) != 0, 0))
      return false;
    _mm512_storeu_si512(y,
                        _mm512_permutexvar_epi32(order, _mm512_packus_epi16(words(0), words(2))));
    return true;
  }
};
#endif

// The two tables of a gate: G and the gate itself, repeated to the end of a step that begins in
// the first period.
template <class Arch>
class GateTable {
 public:
  using Step = GateStep<Arch>;

  GateTable(const BinaryArgs& args, const float* gate, std::size_t period)
      : period_(period), move_(Step::kSize % period) {
    const auto factor = static_cast<float>(0x1p16 * double{args.a.scale} / double{args.q_scale});
    for (std::size_t i = 0; i < period; ++i) gate_[i] = gate[i], fixed_[i] = gate[i] * factor;
    for (std::size_t i = 0; i < Step::kSize; ++i)
      gate_[period + i] = gate_[i], fixed_[period + i] = fixed_[i];
  }
  void start(std::size_t at) { at_ = at; }
  FOLD8_INLINE void next() {
    at_ += move_;
    if (at_ >= period_) at_ -= period_;
  }
  const float* fixed() const { return fixed_ + at_; }
  const float* gate() const { return gate_ + at_; }

 private:
  std::size_t period_, move_, at_ = 0;
  float fixed_[kMostGates + Step::kSize], gate_[kMostGates + Step::kSize];
};

// One step as binary.h says it.
template <class Arch>
[[gnu::noinline]] void gate_quotients(const BinaryArgs& args, const std::uint8_t* x,
                                      const float* gate, std::uint8_t* y) {
  const RoundClamped<Arch> round(args.q_zero_point, 0, 255);
  const I16<Arch> zero(args.a.zero_point);
  const V16<Arch> scale(args.a.scale), divisor(args.q_scale);
  for (std::size_t i = 0; i < GateStep<Arch>::kSize; i += 16) {
    const V16<Arch> p = Lanes<V16<Arch>>::to_float(load_u8<Arch>(x + i, Full{}) - zero) * scale;
    store_u8<Arch>(y + i, Full{}, round(p * load<Arch>(gate + i, Full{}) / divisor));
  }
}

// Whether `plan` is such a product; `merged`: a's axes as one, along which b stands still.
template <class Arch>
bool is_gate(const BinaryArgs& args, const Broadcast& plan, Broadcast& merged) {
  const auto moderate = [](float s) { return s > 0x1p-40f && s < 0x1p40f; };
  return args.a.u8 != nullptr && args.b.f32 != nullptr && args.y == nullptr &&
         args.activation == Activation::none && moderate(args.a.scale) && moderate(args.q_scale) &&
         may_merge<Arch>(plan, merged, kMostGates);
}

// n codes from element `at` of a sample on.
template <class Arch>
void gate_run(const BinaryArgs& args, GateTable<Arch>& table, const std::uint8_t* x,
              std::uint8_t* y, std::size_t n) {
  using Step = GateStep<Arch>;
  const Step step(args.a.zero_point,
                  static_cast<float>(args.q_zero_point * 65536 + 32768 + kGateClose / 2));
  for (; n >= Step::kSize; n -= Step::kSize, x += Step::kSize, y += Step::kSize, table.next())
    if (__builtin_expect(!step.run(x, table.fixed(), y), 0))
      gate_quotients<Arch>(args, x, table.gate(), y);
  if (n == 0) return;
  alignas(64) std::uint8_t in[Step::kSize] = {}, out[Step::kSize];
  std::memcpy(in, x, n);
  if (!step.run(in, table.fixed(), out)) gate_quotients<Arch>(args, in, table.gate(), out);
  std::memcpy(y, out, n);
}

}  // namespace fold8::kernels::simd
