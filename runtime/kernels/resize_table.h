// Where each output position of ONNX Resize reads along one axis, and with which weights: computed
// once per shape, in double, weights rounded to f32 once.
//   x = position in the input by coordinate_transformation_mode
//   nearest: index[o] = round(x) by nearest_mode, clamped to the input
//   linear:  taps floor(x), floor(x)+1 clamped to the input, weights 1-f and f, f = x - floor(x) (x
//   clamped first) cubic:   taps floor(x)-1 .. floor(x)+2 clamped to the input, Keys' kernel with
//   coefficient a; exclude_outside sets the
//            weights of taps outside to 0 and divides by the sum of the others
//   tf_crop_and_resize: x outside [0, in-1] gives index -1: the output is extrapolation_value
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/core/result.h"

namespace fold8::kernels {

enum class ResizeMode : std::uint8_t { nearest, linear, cubic };
enum class CoordinateMode : std::uint8_t {
  half_pixel,            // (o + 0.5) / scale - 0.5
  half_pixel_symmetric,  // half_pixel, centred when out != scale * in
  pytorch_half_pixel,    // out > 1 ? (o + 0.5) / scale - 0.5 : 0
  align_corners,         // out > 1 ? o * (in - 1) / (out - 1) : 0
  asymmetric,            // o / scale
  tf_crop_and_resize,    // out > 1 ? start*(in-1) + o*(end-start)*(in-1)/(out-1) :
                         // 0.5*(start+end)*(in-1)
};
enum class NearestMode : std::uint8_t { round_prefer_floor, round_prefer_ceil, floor, ceil };

struct ResizeAxisSpec {
  std::size_t in = 1, out = 1;
  double scale = 1;  // the operator's own scale where it has one; out / in otherwise
  ResizeMode mode = ResizeMode::nearest;
  CoordinateMode coordinates = CoordinateMode::half_pixel;
  NearestMode nearest = NearestMode::round_prefer_floor;
  double cubic_coeff_a = -0.75;
  bool exclude_outside = false;
  double roi_start = 0, roi_end = 1;
};

// index, weight: [out][taps]; nearest: taps = 1, weight empty. All indices are in [0, in), or the
// first of a row is -1.
struct ResizeTable {
  std::size_t taps = 0;
  std::vector<std::int32_t> index;
  std::vector<float> weight;
};
Result<ResizeTable> make_resize_table(const ResizeAxisSpec& spec);

}  // namespace fold8::kernels
