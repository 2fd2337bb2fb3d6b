#include "runtime/kernels/pack_s8.h"

#include <cstring>

namespace fold8::kernels {

namespace {

// Where w[n, k] lies.
std::size_t packed_at(std::size_t n, std::size_t k, std::size_t depth) {
  return (n / kPanelColumns) * s8_panel_bytes(depth) +
         ((k / kGroupDepth) * kPanelColumns + n % kPanelColumns) * kGroupDepth + k % kGroupDepth;
}

}  // namespace

void pack_s8(const std::int8_t* w, std::size_t w_stride, std::size_t n, std::size_t k,
             std::int8_t* packed) {
  std::memset(packed, 0, packed_s8_bytes(n, k));
  std::int8_t* sums = packed + s8_panels(n) * s8_panel_bytes(k);
  for (std::size_t o = 0; o < n; ++o) {
    std::int32_t sum = 0;
    for (std::size_t i = 0; i < k; ++i) {
      packed[packed_at(o, i, k)] = w[o * w_stride + i];
      sum += w[o * w_stride + i];
    }
    std::memcpy(sums + o * sizeof(sum), &sum, sizeof(sum));
  }
}

void unpack_s8(const std::int8_t* packed, std::size_t n, std::size_t k, std::int8_t* w) {
  for (std::size_t o = 0; o < n; ++o)
    for (std::size_t i = 0; i < k; ++i) w[o * k + i] = packed[packed_at(o, i, k)];
}

}  // namespace fold8::kernels
