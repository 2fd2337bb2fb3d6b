// What the transform of core/rotation.h, y = H x with H H^T = 16, makes of the numbers of a linear
// layer that reads y in place of x. In double, in a fixed order, rounded once.
#pragma once

#include <span>
#include <vector>

#include "quant/second_moments.h"

namespace fold8::quant {

// Rows of a multiple of 16 elements.
bool can_rotate(std::size_t width);
// Rows of `width`: H x.
std::vector<float> rotated_rows(std::span<const float> rows, std::size_t width);
// Weights [.., width] of a layer W x: W H^T / 16, so that (W H^T / 16) (H x) = W x.
std::vector<float> rotated_weights(std::span<const float> w, std::size_t width);
// sum x x^T becomes sum y y^T.
void rotate_moments(Moments& moments);

}  // namespace fold8::quant
