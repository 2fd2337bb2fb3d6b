// Vector body of transpose.h. Include only from targets/*.cc.
#pragma once

#include <cstring>

#include "runtime/kernels/transpose.h"
#include "runtime/kernels/transpose_tile_simd.h"

namespace fold8::kernels::simd {

// y[q, l] = x[q + l * x_stride] for q < rows, l < cols; rows of y are y_stride apart. All in
// elements.
struct Transpose2d {
  const std::byte* x = nullptr;
  std::byte* y = nullptr;
  std::size_t rows = 0, cols = 0, x_stride = 0, y_stride = 0;
};

template <class Arch, class T>
void transpose_2d(const Transpose2d& t) {
  constexpr std::size_t kTile = TransposeTile<Arch, T>::kSide;
  constexpr std::size_t kBlock =
      kTile > 64 / sizeof(T) ? kTile : 64 / sizeof(T);  // whole cache lines of both
  const T* const x = reinterpret_cast<const T*>(t.x);
  T* const y = reinterpret_cast<T*>(t.y);
  const std::size_t whole_rows = t.rows / kTile * kTile, whole_cols = t.cols / kTile * kTile;
  for (std::size_t q0 = 0; q0 < whole_rows; q0 += kBlock)
    for (std::size_t l0 = 0; l0 < whole_cols; l0 += kTile)
      for (std::size_t q = q0; q < q0 + kBlock && q < whole_rows; q += kTile)
        TransposeTile<Arch, T>::run(x + q + l0 * t.x_stride, t.x_stride, y + q * t.y_stride + l0,
                                    t.y_stride);
  for (std::size_t q = 0; q < t.rows; ++q)
    for (std::size_t l = q < whole_rows ? whole_cols : 0; l < t.cols; ++l)
      y[q * t.y_stride + l] = x[q + l * t.x_stride];
}

template <class Arch>
struct TransposeWalk {
  const TransposePlan& plan;
  std::size_t y_stride[kMaxTransposeRank];
  int contiguous;  // the axis of y along which x is contiguous

  // All axes but the last and the contiguous one are loops; those two are one copy or 2-d
  // transpose.
  void run(int axis, std::size_t begin, std::size_t end, const std::byte* x, std::byte* y) const {
    const int last = plan.rank - 1;
    const std::size_t size = plan.element_size;
    x += begin * plan.stride[axis] * size;
    y += begin * y_stride[axis] * size;
    if (axis == last && contiguous == last) {
      std::memcpy(y, x, (end - begin) * size);
    } else if (axis == contiguous) {
      inner(end - begin, x, y, axis);
    } else {
      for (std::size_t i = begin; i < end; ++i) {
        run(axis + 1, 0, plan.extent[axis + 1], x, y);
        x += plan.stride[axis] * size;
        y += y_stride[axis] * size;
      }
    }
  }

 private:
  // Below the contiguous axis: the axes between it and the last are loops around the 2-d transpose.
  void inner(std::size_t rows, const std::byte* x, std::byte* y, int axis) const {
    const int last = plan.rank - 1;
    if (axis + 1 == last)
      return two_d({x, y, rows, plan.extent[last], plan.stride[last], y_stride[contiguous]});
    for (std::size_t i = 0; i < plan.extent[axis + 1]; ++i)
      inner(rows, x + i * plan.stride[axis + 1] * plan.element_size,
            y + i * y_stride[axis + 1] * plan.element_size, axis + 1);
  }
  void two_d(const Transpose2d& t) const {
    switch (plan.element_size) {
      case 1:
        return transpose_2d<Arch, std::uint8_t>(t);
      case 2:
        return transpose_2d<Arch, std::uint16_t>(t);
      case 4:
        return transpose_2d<Arch, std::uint32_t>(t);
      default:
        return transpose_2d<Arch, std::uint64_t>(t);
    }
  }
};

template <class Arch>
void transpose(const TransposeArgs& args) {
  const TransposePlan& plan = args.plan;
  TransposeWalk<Arch> walk{plan, {}, plan.rank - 1};
  std::size_t elements = 1;
  for (int i = plan.rank - 1; i >= 0; --i) {
    walk.y_stride[i] = elements;
    elements *= plan.extent[i];
    if (plan.stride[i] == 1) walk.contiguous = i;
  }
  if (elements == 0 || args.begin >= args.end) return;
  walk.run(0, args.begin, args.end, static_cast<const std::byte*>(args.x),
           static_cast<std::byte*>(args.y));
}

}  // namespace fold8::kernels::simd
