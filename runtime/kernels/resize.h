// Resize along up to three adjacent axes of [outer, A0, A1, A2, inner]; tables come from
// resize_table.h. channels-last: inner = C; plain: inner = 1, outer = N*C. Fewer axes: leave the
// leading ones at their defaults.
//
// resize_f32 (linear, cubic; A2 is the innermost of ONNX's logical axes and goes first):
//   t2[a0,a1,o2] = chain over the taps of o2:  fma(w2[tap], x[a0,a1,index2[tap]], t),   from +0,
//   taps ascending t1[a0,o1,o2] = the same over t2 with the taps of o1;  y[o0,o1,o2] = the same
//   over t1 with the taps of o0 An axis with taps = 0 is not resized (in = out) and has no chain.
//   Where any axis has index -1: y = extrapolation.
// resize_nearest: y[o0,o1,o2] = x[index0[o0], index1[o1], index2[o2]], inner_bytes at a time; a
// null index table is the
//   identity. Index -1: inner_bytes / element_size copies of the element at `extrapolation`.
//
// Output lines: line = (outer*O0 + o0)*O1 + o1; only lines [line_begin, line_end) are computed. x
// and y are dense and do not overlap. scratch (resize_f32): resize_f32_scratch_bytes(args) bytes,
// 64-byte aligned, one per thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fold8::kernels {

struct ResizeAxisF32 {
  std::size_t in = 1, out = 1;
  std::size_t taps = 0;                 // 0, 2 or 4; at most kMaxResizeTaps
  const std::int32_t* index = nullptr;  // [out][taps]
  const float* weight = nullptr;        // [out][taps]
};
inline constexpr std::size_t kMaxResizeTaps = 4;

struct ResizeF32Args {
  std::size_t outer = 1, inner = 1;
  ResizeAxisF32 axis[3];
  float extrapolation = 0;
  const float* x = nullptr;
  float* y = nullptr;
  std::size_t line_begin = 0, line_end = 0;
  void* scratch = nullptr;
};
using resize_f32_fn = void(const ResizeF32Args& args);
std::size_t resize_f32_scratch_bytes(const ResizeF32Args& args);  // bytes

struct ResizeAxisNearest {
  std::size_t in = 1, out = 1;
  const std::int32_t* index = nullptr;  // [out], or null
};
struct ResizeNearestArgs {
  std::size_t outer = 1;
  std::size_t inner_bytes = 0, element_size = 1;
  ResizeAxisNearest axis[3];
  const void* extrapolation = nullptr;  // one element; needed only if an index is -1
  const void* x = nullptr;
  void* y = nullptr;
  std::size_t line_begin = 0, line_end = 0;
};
using resize_nearest_fn = void(const ResizeNearestArgs& args);

namespace reference {
resize_f32_fn resize_f32;
resize_nearest_fn resize_nearest;
}  // namespace reference

}  // namespace fold8::kernels
