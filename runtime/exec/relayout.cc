#include "runtime/exec/relayout.h"

#include <cstdint>
#include <cstring>

namespace fold8::exec {
namespace {

// [rows, cols] -> [cols, rows], `outer` times.
template <class T>
void transpose(const void* from, void* to, std::size_t outer, std::size_t rows, std::size_t cols) {
  const T* x = static_cast<const T*>(from);
  T* y = static_cast<T*>(to);
  for (std::size_t o = 0; o < outer; ++o, x += rows * cols, y += rows * cols)
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < cols; ++c) y[c * rows + r] = x[r * cols + c];
}

void transpose(std::size_t element, const void* from, void* to, std::size_t outer, std::size_t rows,
               std::size_t cols) {
  switch (element) {
    case 1:
      return transpose<std::uint8_t>(from, to, outer, rows, cols);
    case 2:
      return transpose<std::uint16_t>(from, to, outer, rows, cols);
    case 4:
      return transpose<std::uint32_t>(from, to, outer, rows, cols);
    default:
      return transpose<std::uint64_t>(from, to, outer, rows, cols);
  }
}

// Bits of a NaN: exponent all ones and a fraction that is not 0, i.e. above infinity without its
// sign.
template <class Bits>
void canonicalize(void* data, std::size_t n, Bits infinity, Bits nan) {
  constexpr Bits kMagnitude = static_cast<Bits>(~Bits{0}) >> 1;
  Bits* p = static_cast<Bits*>(data);
  for (std::size_t i = 0; i < n; ++i)
    p[i] = static_cast<Bits>(p[i] & kMagnitude) > infinity ? nan : p[i];
}

}  // namespace

void copy_tensor(const TensorView& from, const TensorView& to) {
  const std::size_t bytes = from.bytes();
  if (bytes == 0) return;
  const int rank = from.shape.rank();
  if (from.layout == to.layout || rank < 3) {
    std::memcpy(to.data, from.data, bytes);
    return;
  }
  const auto batch = static_cast<std::size_t>(from.shape.extent(0)),
             channels = static_cast<std::size_t>(from.shape.extent(1));
  const auto space = static_cast<std::size_t>(from.shape.count(2, rank));
  const bool to_plain = to.layout == Layout::plain;
  transpose(size_of(from.dtype), from.data, to.data, batch, to_plain ? space : channels,
            to_plain ? channels : space);
}

void canonicalize_nans(const TensorView& t) {
  const auto n = static_cast<std::size_t>(t.shape.count());
  switch (t.dtype) {
    case DType::f32:
      return canonicalize<std::uint32_t>(t.data, n, 0x7f800000u, 0x7fc00000u);
    case DType::f64:
      return canonicalize<std::uint64_t>(t.data, n, 0x7ff0000000000000u, 0x7ff8000000000000u);
    case DType::f16:
      return canonicalize<std::uint16_t>(t.data, n, 0x7c00, 0x7e00);
    case DType::bf16:
      return canonicalize<std::uint16_t>(t.data, n, 0x7f80, 0x7fc0);
    default:
      return;
  }
}

}  // namespace fold8::exec
