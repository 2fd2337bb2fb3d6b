#include "fusion/passes/movement.h"

#include <algorithm>

namespace fold8::fusion {

bool is_view(const graph::Op& op) {
  return std::holds_alternative<graph::Reshape>(op) || std::holds_alternative<graph::Flatten>(op) ||
         std::holds_alternative<graph::Squeeze>(op) ||
         std::holds_alternative<graph::Unsqueeze>(op) ||
         std::holds_alternative<graph::Identity>(op);
}
bool is_movement(const graph::Op& op) {
  return is_view(op) || std::holds_alternative<graph::Transpose>(op);
}

namespace {

// The number of elements behind an axis: a known factor and the symbols it is multiplied with.
struct Behind {
  std::int64_t known = 1;
  std::vector<std::int32_t> symbols;
};

std::optional<Behind> behind(const Shape& shape, int axis) {
  Behind result;
  for (int i = axis + 1; i < shape.rank(); ++i) {
    const Dim d = shape[i];
    if (d.known()) {
      if (d.value() <= 0 || __builtin_mul_overflow(result.known, d.value(), &result.known))
        return std::nullopt;
    } else if (d.is_symbol()) {
      result.symbols.push_back(d.symbol_id());
    } else {
      return std::nullopt;
    }
  }
  std::sort(result.symbols.begin(), result.symbols.end());
  return result;
}

std::optional<ChannelAffine> carry_view(const Shape& on, const Shape& to,
                                        const ChannelAffine& affine) {
  const auto channels = static_cast<std::int64_t>(affine.scale.size());
  const auto p = behind(on, affine.axis);
  if (!p) return std::nullopt;
  for (int axis = to.rank() - 1; axis >= 0; --axis) {
    const auto q = behind(to, axis);
    if (!q) return std::nullopt;
    if (!to[axis].known() || q->symbols != p->symbols) continue;
    const std::int64_t extent = to.extent(axis);
    if (extent < channels || p->known % q->known != 0) continue;
    const std::int64_t repeat = p->known / q->known;  // neighbours of one channel along this axis
    if (extent % repeat != 0 || (extent / repeat) % channels != 0) continue;
    ChannelAffine result;
    result.axis = axis;
    for (std::int64_t i = 0; i < extent; ++i) {
      const auto c = static_cast<std::size_t>((i / repeat) % channels);
      result.scale.push_back(affine.scale[c]);
      result.shift.push_back(affine.shift[c]);
    }
    return result;
  }
  return std::nullopt;
}

}  // namespace

std::optional<ChannelAffine> carry(const graph::Op& op, const Shape& from, const Shape& to,
                                   const ChannelAffine& affine, bool forward) {
  if (affine.uniform()) return affine;
  if (const auto* t = std::get_if<graph::Transpose>(&op)) {
    ChannelAffine result = affine;
    const auto rank = static_cast<int>(from.rank());
    for (int i = 0; i < rank; ++i) {  // to's axis i is from's axis source
      const int source =
          t->perm.empty() ? rank - 1 - i : static_cast<int>(t->perm[static_cast<std::size_t>(i)]);
      if (!forward && i == affine.axis) result.axis = source;
      if (forward && source == affine.axis) result.axis = i;
    }
    return result;
  }
  if (!is_view(op)) return std::nullopt;
  return forward ? carry_view(from, to, affine) : carry_view(to, from, affine);
}

}  // namespace fold8::fusion
