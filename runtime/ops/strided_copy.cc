#include "runtime/ops/strided_copy.h"

#include <cstdlib>

namespace fold8::ops {
namespace {

template <class T>
void copy_line(std::int64_t n, const T* src, std::int64_t s, T* dst, std::int64_t d) {
  if (d == 1 && s == 0) {
    std::fill_n(dst, n, *src);
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) dst[i * d] = src[i * s];
}

void copy_line_bytes(std::int64_t n, const std::byte* src, std::int64_t s, std::byte* dst,
                     std::int64_t d, std::size_t size) {
  if (s == 1 && d == 1) {
    std::memcpy(dst, src, static_cast<std::size_t>(n) * size);
    return;
  }
  const auto as = [&](auto t) {
    using T = decltype(t);
    copy_line(n, reinterpret_cast<const T*>(src), s, reinterpret_cast<T*>(dst), d);
  };
  switch (size) {
    case 1:
      return as(std::uint8_t{});
    case 2:
      return as(std::uint16_t{});
    case 4:
      return as(std::uint32_t{});
    case 8:
      return as(std::uint64_t{});
    default:
      for (std::int64_t i = 0; i < n; ++i)
        std::memcpy(dst + i * d * static_cast<std::int64_t>(size),
                    src + i * s * static_cast<std::int64_t>(size), size);
  }
}

// n rows of `bytes` bytes, kPiece <= bytes <= 2 * kPiece: two moves each, which may overlap.
template <std::size_t kPiece>
void copy_short_rows(std::int64_t n, std::size_t bytes, const std::byte* src, std::int64_t s,
                     std::byte* dst, std::int64_t d) {
  for (; n > 0; --n, src += s, dst += d) {
    std::byte head[kPiece], tail[kPiece];
    std::memcpy(head, src, kPiece);
    std::memcpy(tail, src + bytes - kPiece, kPiece);
    std::memcpy(dst, head, kPiece);
    std::memcpy(dst + bytes - kPiece, tail, kPiece);
  }
}

// Rows of neighbouring elements, distances in bytes. False: not so short.
bool copy_rows(std::int64_t n, std::size_t bytes, const std::byte* src, std::int64_t s,
               std::byte* dst, std::int64_t d) {
  if (bytes < 4 || bytes > 64) return false;
  if (bytes > 32)
    copy_short_rows<32>(n, bytes, src, s, dst, d);
  else if (bytes > 16)
    copy_short_rows<16>(n, bytes, src, s, dst, d);
  else if (bytes > 8)
    copy_short_rows<8>(n, bytes, src, s, dst, d);
  else
    copy_short_rows<4>(n, bytes, src, s, dst, d);
  return true;
}

void copy_axes(const CopyPlan& p, int axis, const std::byte* src, std::byte* dst) {
  const auto size = static_cast<std::int64_t>(p.element);
  const int last = p.rank - 1;
  if (axis + 2 == p.rank && p.src[last] == 1 && p.dst[last] == 1 &&
      copy_rows(p.extent[axis], static_cast<std::size_t>(p.extent[last]) * p.element, src,
                p.src[axis] * size, dst, p.dst[axis] * size))
    return;
  if (axis == p.rank - 1)
    return copy_line_bytes(p.extent[axis], src, p.src[axis], dst, p.dst[axis], p.element);
  for (std::int64_t i = 0; i < p.extent[axis]; ++i)
    copy_axes(p, axis + 1, src + i * p.src[axis] * size, dst + i * p.dst[axis] * size);
}

}  // namespace

CopyPlan make_copy_plan(std::span<const std::int64_t> extents, std::span<const std::int64_t> src,
                        std::span<const std::int64_t> dst, std::size_t element) {
  CopyPlan p;
  p.element = element;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] == 0) p.empty = true;
    if (extents[i] == 1) continue;
    int at = p.rank++;
    for (; at > 0 && std::abs(p.dst[at - 1]) < std::abs(dst[i]); --at) {
      p.extent[at] = p.extent[at - 1];
      p.src[at] = p.src[at - 1];
      p.dst[at] = p.dst[at - 1];
    }
    p.extent[at] = extents[i];
    p.src[at] = src[i];
    p.dst[at] = dst[i];
  }
  int kept = 0;
  for (int i = 0; i < p.rank; ++i) {
    if (kept > 0 && p.src[kept - 1] == p.src[i] * p.extent[i] &&
        p.dst[kept - 1] == p.dst[i] * p.extent[i]) {
      p.extent[kept - 1] *= p.extent[i];
      p.src[kept - 1] = p.src[i];
      p.dst[kept - 1] = p.dst[i];
      continue;
    }
    p.extent[kept] = p.extent[i];
    p.src[kept] = p.src[i];
    p.dst[kept] = p.dst[i];
    ++kept;
  }
  p.rank = kept;
  if (p.rank == 0) {
    p.rank = 1;
    p.extent[0] = 1;
    p.src[0] = p.dst[0] = 1;
  }
  return p;
}

void run_copy(const RunContext& c, const CopyPlan& plan, const void* src, void* dst) {
  if (plan.empty) return;
  std::size_t inner = plan.element;
  for (int i = 1; i < plan.rank; ++i) inner *= static_cast<std::size_t>(plan.extent[i]);
  parallel(c, static_cast<std::size_t>(plan.extent[0]), grain_for(inner / 4),
           [&](std::size_t b, std::size_t e, std::size_t) {
             CopyPlan part = plan;
             part.extent[0] = static_cast<std::int64_t>(e - b);
             const auto at = static_cast<std::int64_t>(b * plan.element);
             copy_axes(part, 0, static_cast<const std::byte*>(src) + at * plan.src[0],
                       static_cast<std::byte*>(dst) + at * plan.dst[0]);
           });
}

Result<StepPtr> prepare_copy(const TensorType& from, const TensorType& to) {
  if (from.dtype != to.dtype || from.shape.count() != to.shape.count())
    return internal_error("cannot copy " + describe(from) + " to " + describe(to));
  const bool flat = same_order(from.shape, from.layout, Layout::plain) &&
                    same_order(to.shape, to.layout, Layout::plain);
  if (flat || (from.shape == to.shape && from.layout == to.layout)) {
    const std::size_t n = bytes(from);
    return make_step([n](const RunContext& r) {
      if (n > 0 && r.outputs[0] != r.inputs[0]) std::memcpy(r.outputs[0], r.inputs[0], n);
      return ok_status();
    });
  }
  // At most one of them is not in row-major order here, or the shapes are equal: walk the shape
  // that is not.
  const bool by_output = !(from.shape == to.shape) && from.layout == Layout::plain;
  if (!(from.shape == to.shape) && from.layout != Layout::plain && to.layout != Layout::plain)
    return internal_error(
        "a reshape between two channels_last tensors needs a plain one between them");
  const Shape& shape = by_output ? to.shape : from.shape;
  const Strides src = strides_of(shape, by_output ? Layout::plain : from.layout);
  const Strides dst = strides_of(
      shape, by_output ? to.layout : (from.shape == to.shape ? to.layout : Layout::plain));
  std::int64_t extents[Shape::kMaxRank];
  for (int i = 0; i < shape.rank(); ++i) extents[i] = shape.extent(i);
  const auto rank = static_cast<std::size_t>(shape.rank());
  const CopyPlan plan =
      make_copy_plan({extents, rank}, {src.data(), rank}, {dst.data(), rank}, size_of(from.dtype));
  return make_step([plan](const RunContext& r) {
    run_copy(r, plan, r.inputs[0], r.outputs[0]);
    return ok_status();
  });
}

}  // namespace fold8::ops
