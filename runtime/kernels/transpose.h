// Transpose of a dense tensor of any element size 1, 2, 4 or 8 (bits are moved, never looked at).
//   y[i_perm[0], ..., i_perm[r-1]] = x[i_0, ..., i_(r-1)]          (ONNX Transpose)
// A plan is made once per shape: unit axes dropped, axes that stay together merged, short
// contiguous runs made elements. NCHW -> NHWC is perm {0, 2, 3, 1} (any rank), NHWC -> NCHW {0, 3,
// 1, 2}; both become [N][pixels][C] transposes. Work is split by [begin, end) of plan.extent[0]. x
// and y do not overlap. No scratch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace fold8::kernels {

inline constexpr int kMaxTransposeRank = 8;

struct TransposePlan {
  int rank = 1;                                 // >= 1
  std::size_t element_size = 1;                 // 1, 2, 4 or 8
  std::size_t extent[kMaxTransposeRank] = {1};  // of y, outermost first
  std::size_t stride[kMaxTransposeRank] = {1};  // of x along y's axes, in elements
};
// extents: of x. perm: a permutation of 0 .. rank-1 (the caller has checked it), rank <=
// kMaxTransposeRank.
TransposePlan make_transpose_plan(std::span<const std::int64_t> extents, std::span<const int> perm,
                                  std::size_t element_size);
// x: [batch, channels, pixels] to y: [batch, pixels, channels], and back.
TransposePlan to_channels_last(std::size_t batch, std::size_t channels, std::size_t pixels,
                               std::size_t element_size);
TransposePlan to_channels_first(std::size_t batch, std::size_t channels, std::size_t pixels,
                                std::size_t element_size);

struct TransposeArgs {
  TransposePlan plan;
  const void* x = nullptr;
  void* y = nullptr;
  std::size_t begin = 0, end = 0;
};
using transpose_fn = void(const TransposeArgs& args);

namespace reference {
transpose_fn transpose;
}

}  // namespace fold8::kernels
