// Vector body of transpose.h. Include only from targets/*.cc.
#pragma once

#include <cstring>

#include "runtime/kernels/transpose.h"
#include "runtime/kernels/transpose_narrow_simd.h"
#include "runtime/kernels/transpose_tile_simd.h"

namespace fold8::kernels::simd {

// y[q, l] = x[q + l * x_stride] for q < rows, l < cols; rows of y are y_stride apart. All in
// elements.
struct Transpose2d {
  const std::byte* x = nullptr;
  std::byte* y = nullptr;
  std::size_t rows = 0, cols = 0, x_stride = 0, y_stride = 0;
};

// Few channels: rows (to planes) or cols (to pixels) is their number. Returns what is done of the
// other.
template <class Arch, class T, std::size_t kChannels>
std::size_t transpose_narrow(const Transpose2d& t) {
  using Narrow = NarrowTranspose<Arch, T, kChannels>;
  if constexpr (Narrow::kHas) {
    const T* const x = reinterpret_cast<const T*>(t.x);
    T* const y = reinterpret_cast<T*>(t.y);
    if (t.cols == kChannels && t.y_stride == kChannels)
      return Narrow::to_pixels(x, t.x_stride, t.rows, y);
    if (t.rows == kChannels && t.x_stride == kChannels)
      return Narrow::to_planes(x, t.cols, y, t.y_stride);
  }
  return 0;
}

// What tiles do not cover.
template <class Arch, class T>
void transpose_rest(const Transpose2d& t, std::size_t row, std::size_t col) {
  constexpr std::size_t kTile = TransposeTile<Arch, T>::kSide;
  const T* const x = reinterpret_cast<const T*>(t.x);
  T* const y = reinterpret_cast<T*>(t.y);
  const std::size_t rows = t.rows - row, cols = t.cols - col;
  if constexpr (sizeof(T) <= 2) {
    if (rows * cols > 8) {
      for (std::size_t q = 0; q < rows; q += kTile)
        for (std::size_t l = 0; l < cols; l += kTile)
          TransposeTile<Arch, T>::run_part(x + row + q + (col + l) * t.x_stride, t.x_stride,
                                           y + (row + q) * t.y_stride + col + l, t.y_stride,
                                           rows - q < kTile ? rows - q : kTile,
                                           cols - l < kTile ? cols - l : kTile);
      return;
    }
  }
  for (std::size_t q = row; q < t.rows; ++q)
    for (std::size_t l = col; l < t.cols; ++l) y[q * t.y_stride + l] = x[q + l * t.x_stride];
}

template <class Arch, class T>
void transpose_2d(const Transpose2d& t) {
  constexpr std::size_t kTile = TransposeTile<Arch, T>::kSide;
  constexpr std::size_t kBlock =
      kTile > 64 / sizeof(T) ? kTile : 64 / sizeof(T);  // whole cache lines of both
  const T* const x = reinterpret_cast<const T*>(t.x);
  T* const y = reinterpret_cast<T*>(t.y);
  const std::size_t few = t.rows < t.cols ? t.rows : t.cols;
  if (few >= 2 && few <= 4 && t.rows + t.cols > 8) {
    const std::size_t done = few == 2   ? transpose_narrow<Arch, T, 2>(t)
                             : few == 3 ? transpose_narrow<Arch, T, 3>(t)
                                        : transpose_narrow<Arch, T, 4>(t);
    if (done > 0)
      return t.cols == few ? transpose_rest<Arch, T>(t, done, 0)
                           : transpose_rest<Arch, T>(t, 0, done);
  }
  const std::size_t whole_rows = t.rows / kTile * kTile, whole_cols = t.cols / kTile * kTile;
  for (std::size_t q0 = 0; q0 < whole_rows; q0 += kBlock)
    for (std::size_t l0 = 0; l0 < whole_cols; l0 += kTile)
      for (std::size_t q = q0; q < q0 + kBlock && q < whole_rows; q += kTile)
        TransposeTile<Arch, T>::run(x + q + l0 * t.x_stride, t.x_stride, y + q * t.y_stride + l0,
                                    t.y_stride);
  if (whole_cols < t.cols) {
    Transpose2d above = t;
    above.rows = whole_rows;
    transpose_rest<Arch, T>(above, 0, whole_cols);
  }
  if (whole_rows < t.rows) transpose_rest<Arch, T>(t, whole_rows, 0);
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
