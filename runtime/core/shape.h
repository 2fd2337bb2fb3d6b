// Shapes with known, symbolic and unknown extents; a plain value without heap memory, rank up to 8.
#pragma once

#include <array>
#include <cassert>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

namespace fold8 {

// One extent, or one element of a shape tensor: a known integer, a named symbol ("batch"), or
// unknown. Symbols are small numbers that index the names of the graph they belong to; two equal
// symbols are equal extents.
class Dim {
 public:
  constexpr Dim() = default;  // unknown
  constexpr Dim(std::int64_t value) : value_(value), kind_(Kind::known) {}
  static constexpr Dim symbol(std::int32_t id) {
    Dim d;
    d.value_ = id;
    d.kind_ = Kind::symbol;
    return d;
  }
  static constexpr Dim unknown() { return Dim(); }

  constexpr bool known() const { return kind_ == Kind::known; }
  constexpr bool is_symbol() const { return kind_ == Kind::symbol; }
  constexpr std::int64_t value() const { return value_; }  // only if known()
  constexpr std::int32_t symbol_id() const {
    return static_cast<std::int32_t>(value_);
  }  // only if is_symbol()

  // Certainly the same extent: equal known values or equal symbols. Two unknowns are not.
  friend constexpr bool same(Dim a, Dim b) {
    return a.kind_ == b.kind_ && a.kind_ != Kind::unknown && a.value_ == b.value_;
  }
  // Certainly not the same extent: known values that are not equal.
  friend constexpr bool differ(Dim a, Dim b) {
    return a.known() && b.known() && a.value_ != b.value_;
  }
  friend constexpr bool operator==(Dim a, Dim b) {
    return a.kind_ == b.kind_ && a.value_ == b.value_;
  }

 private:
  enum class Kind : std::uint8_t { unknown, known, symbol };
  std::int64_t value_ = 0;
  Kind kind_ = Kind::unknown;
};

// Arithmetic on extents: known op known is known; x+0, x*1, x-0, x/1 keep a symbol; all else is
// unknown.
Dim operator+(Dim a, Dim b);
Dim operator-(Dim a, Dim b);
Dim operator*(Dim a, Dim b);
Dim floor_div(Dim a, Dim b);  // b known and not 0, else unknown

class Shape {  // extents, outermost first
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<Dim> dims);
  explicit Shape(std::span<const Dim> dims);
  explicit Shape(std::span<const std::int64_t> dims);

  int rank() const { return rank_; }
  Dim operator[](int axis) const { return dims_[static_cast<std::size_t>(axis)]; }
  Dim& operator[](int axis) { return dims_[static_cast<std::size_t>(axis)]; }
  std::int64_t extent(int axis) const { return dims_[static_cast<std::size_t>(axis)].value(); }
  Dim back() const { return dims_[static_cast<std::size_t>(rank_ - 1)]; }
  std::span<const Dim> dims() const { return {dims_.data(), static_cast<std::size_t>(rank_)}; }

  void push_back(Dim d) {  // rank() < kMaxRank
    assert(rank_ < kMaxRank);
    dims_[static_cast<std::size_t>(rank_++)] = d;
  }
  void resize(int rank);  // new extents are unknown
  void insert(int axis, Dim d);
  void erase(int axis);

  bool known() const {  // every extent is
    for (Dim d : dims())
      if (!d.known()) return false;
    return true;
  }
  // Product of the extents (1 for rank 0); nullopt if one is unknown or the product leaves int64.
  std::optional<std::int64_t> elements() const {
    std::int64_t n = 1;
    bool zero = false, overflow = false;
    for (Dim d : dims()) {
      if (!d.known() || d.value() < 0) return std::nullopt;
      zero |= d.value() == 0;
      overflow |= __builtin_mul_overflow(n, d.value(), &n);
    }
    if (zero) return 0;
    if (overflow) return std::nullopt;
    return n;
  }
  std::int64_t count() const { return elements().value_or(0); }
  // Products of known extents [from, to), 1 if empty.
  std::int64_t count(int from, int to) const;

  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (!(a[i] == b[i])) return false;
    return true;
  }

 private:
  int rank_ = 0;  // in front: shapes of few axes are read from few cache lines
  std::array<Dim, kMaxRank> dims_{};
};

// "[2,?,s0]": symbols print by number unless names are given.
std::string to_string(const Shape& shape, std::span<const std::string> symbols = {});

// -rank <= axis < rank  =>  0 <= result < rank; nullopt otherwise.
std::optional<int> normalize_axis(std::int64_t axis, int rank);

// NumPy broadcasting of two shapes; nullopt if known extents clash. Symbol against 1 gives the
// symbol.
std::optional<Shape> broadcast(const Shape& a, const Shape& b);

}  // namespace fold8
