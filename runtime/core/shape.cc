#include "runtime/core/shape.h"

#include <algorithm>
#include <cassert>

namespace fold8 {

Dim operator+(Dim a, Dim b) {
  if (a.known() && b.known()) {
    std::int64_t r;
    return __builtin_add_overflow(a.value(), b.value(), &r) ? Dim::unknown() : Dim(r);
  }
  if (a.known() && a.value() == 0) return b;
  if (b.known() && b.value() == 0) return a;
  return Dim::unknown();
}

Dim operator-(Dim a, Dim b) {
  if (a.known() && b.known()) {
    std::int64_t r;
    return __builtin_sub_overflow(a.value(), b.value(), &r) ? Dim::unknown() : Dim(r);
  }
  if (b.known() && b.value() == 0) return a;
  if (same(a, b)) return Dim(0);
  return Dim::unknown();
}

Dim operator*(Dim a, Dim b) {
  if (a.known() && b.known()) {
    std::int64_t r;
    return __builtin_mul_overflow(a.value(), b.value(), &r) ? Dim::unknown() : Dim(r);
  }
  if (a.known() && a.value() == 1) return b;
  if (b.known() && b.value() == 1) return a;
  if ((a.known() && a.value() == 0) || (b.known() && b.value() == 0)) return Dim(0);
  return Dim::unknown();
}

Dim floor_div(Dim a, Dim b) {
  if (!b.known() || b.value() == 0) return same(a, b) ? Dim(1) : Dim::unknown();
  if (b.value() == 1) return a;
  if (!a.known()) return Dim::unknown();
  if (b.value() == -1) return Dim(0) - a;
  std::int64_t q = a.value() / b.value();
  if (a.value() % b.value() != 0 && ((a.value() < 0) != (b.value() < 0))) --q;
  return Dim(q);
}

Shape::Shape(std::initializer_list<Dim> dims)
    : Shape(std::span<const Dim>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const Dim> dims) {
  assert(dims.size() <= kMaxRank);
  for (Dim d : dims) push_back(d);
}

Shape::Shape(std::span<const std::int64_t> dims) {
  assert(dims.size() <= kMaxRank);
  for (std::int64_t d : dims) push_back(Dim(d));
}

void Shape::resize(int rank) {
  assert(rank >= 0 && rank <= kMaxRank);
  for (int i = rank_; i < rank; ++i) dims_[static_cast<std::size_t>(i)] = Dim::unknown();
  rank_ = rank;
}

void Shape::insert(int axis, Dim d) {
  push_back(d);
  std::rotate(dims_.begin() + axis, dims_.begin() + rank_ - 1, dims_.begin() + rank_);
}

void Shape::erase(int axis) {
  std::copy(dims_.begin() + axis + 1, dims_.begin() + rank_, dims_.begin() + axis);
  --rank_;
}

std::int64_t Shape::count(int from, int to) const {
  std::int64_t n = 1;
  for (int i = from; i < to; ++i) n *= extent(i);
  return n;
}

std::string to_string(const Shape& shape, std::span<const std::string> symbols) {
  std::string out = "[";
  for (int i = 0; i < shape.rank(); ++i) {
    const Dim d = shape[i];
    if (i > 0) out += ',';
    if (d.known()) {
      out += std::to_string(d.value());
    } else if (!d.is_symbol()) {
      out += '?';
    } else if (static_cast<std::size_t>(d.symbol_id()) < symbols.size()) {
      out += symbols[static_cast<std::size_t>(d.symbol_id())];
    } else {
      out += 's' + std::to_string(d.symbol_id());
    }
  }
  return out + ']';
}

std::optional<int> normalize_axis(std::int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) return std::nullopt;
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Shape out;
  out.resize(rank);
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    const Dim x = ia < 0 ? Dim(1) : a[ia], y = ib < 0 ? Dim(1) : b[ib];
    if (x.known() && x.value() == 1)
      out[i] = y;
    else if (y.known() && y.value() == 1)
      out[i] = x;
    else if (differ(x, y))
      return std::nullopt;
    else if (x.known())
      out[i] = x;  // x > 1: the other one must be it, or 1
    else if (y.known())
      out[i] = y;
    else
      out[i] = same(x, y) ? x : Dim::unknown();
  }
  return out;
}

}  // namespace fold8
