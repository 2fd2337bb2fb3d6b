// Operators that move elements without changing them, and where a channel ends up behind them.
#pragma once

#include <optional>
#include <vector>

#include "runtime/graph/graph.h"

namespace fold8::fusion {

// Transpose, Reshape, Flatten, Squeeze, Unsqueeze (and Identity): what a per-channel scale can be
// carried through.
bool is_movement(const graph::Op& op);
// The same without Transpose: the elements keep their row-major order, only the shape changes.
bool is_view(const graph::Op& op);

// One scale and one shift per index of an axis: y = x * scale[c] + shift[c]. One element: the same
// everywhere, and `axis` means nothing.
struct ChannelAffine {
  int axis = 0;
  std::vector<double> scale, shift;

  bool uniform() const { return scale.size() == 1; }
};

// The affine that, applied to `from` in front of the movement, has the effect `affine` has on `to`
// behind it (or the other way round with forward = true: `affine` is on `from`, the result on
// `to`). For views element i of an axis of extent E, with Q elements behind the axis, belongs to
// channel (i*Q/P) mod C if the channel axis has extent C and P elements behind it; that is one
// channel only if Q divides P and C*P divides E*Q. nullopt: no axis fits.
std::optional<ChannelAffine> carry(const graph::Op& op, const Shape& from, const Shape& to,
                                   const ChannelAffine& affine, bool forward);

}  // namespace fold8::fusion
