// Packed INT8 weights: one layout for every instruction set, made once at convert time and used as
// it lies in the file.
//
// A matrix w [n, k] (row o holds the weights of output column o) is stored as
//   int8  weights[n/16][k/4][16][4]   panel of 16 columns, then groups of 4 along k; n and k
//   rounded up, padding is 0 int32 sums[n/16][16]              sums[o] = sum_k w[o, k], for the
//   zero-point term of the activations
// Both parts are multiples of 64 bytes long; the start must be 64-byte aligned. k < 2^24 (so that
// sums fit).
#pragma once

#include <cstddef>
#include <cstdint>

namespace fold8::kernels {

inline constexpr std::size_t kPanelColumns = 16;  // columns of one panel
inline constexpr std::size_t kGroupDepth = 4;     // neighbouring k of one column

constexpr std::size_t s8_panels(std::size_t n) { return (n + kPanelColumns - 1) / kPanelColumns; }
constexpr std::size_t s8_groups(std::size_t k) { return (k + kGroupDepth - 1) / kGroupDepth; }

// Bytes from one panel to the next.
constexpr std::size_t s8_panel_bytes(std::size_t k) {
  return s8_groups(k) * kPanelColumns * kGroupDepth;
}

// Size of the whole: weights and sums.
constexpr std::size_t packed_s8_bytes(std::size_t n, std::size_t k) {
  return s8_panels(n) * (s8_panel_bytes(k) + kPanelColumns * sizeof(std::int32_t));
}

// w: row-major [n, k], rows w_stride elements apart. packed: packed_s8_bytes(n, k), 64-byte
// aligned.
void pack_s8(const std::int8_t* w, std::size_t w_stride, std::size_t n, std::size_t k,
             std::int8_t* packed);

// The inverse, for inspection and export. w: row-major [n, k], dense.
void unpack_s8(const std::int8_t* packed, std::size_t n, std::size_t k, std::int8_t* w);

// The sums inside a packed matrix: s8_panels(n) * 16 entries, those past n are 0.
inline const std::int32_t* packed_s8_sums(const std::int8_t* packed, std::size_t n, std::size_t k) {
  return reinterpret_cast<const std::int32_t*>(packed + s8_panels(n) * s8_panel_bytes(k));
}

}  // namespace fold8::kernels
