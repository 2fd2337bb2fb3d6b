#include "runtime/ops/common.h"

namespace fold8::ops {

std::string describe(const TensorType& type) {
  std::string s = std::string(name(type.dtype)) + to_string(type.shape);
  if (type.quant) s += " " + to_string(*type.quant);
  return s;
}

Error bad_input(std::size_t i, const TensorType& type, const std::string& expected) {
  return invalid_model("input " + std::to_string(i) + " is " + describe(type) + ", expected " +
                       expected);
}

Status expect_operands(const InferContext& c, std::size_t required, std::size_t most,
                       std::size_t outputs) {
  for (std::size_t i = 0; i < required; ++i)
    if (!c.has(i)) return invalid_model("input " + std::to_string(i) + " is missing");
  if (c.inputs.size() > most)
    return invalid_model(std::to_string(c.inputs.size()) + " inputs are given, expected at most " +
                         std::to_string(most));
  if (c.outputs.empty() || c.outputs.size() > outputs)
    return invalid_model(std::to_string(c.outputs.size()) +
                         " outputs are asked for, expected 1 to " + std::to_string(outputs));
  return ok_status();
}

Status expect_dtype(const InferContext& c, std::size_t i, std::initializer_list<DType> allowed) {
  if (std::find(allowed.begin(), allowed.end(), c.type(i).dtype) != allowed.end())
    return ok_status();
  std::string names;
  for (DType d : allowed) names += (names.empty() ? "" : " or ") + std::string(name(d));
  return bad_input(c, i, "elements of type " + names);
}

Result<int> checked_axis(std::int64_t axis, int rank, const char* what) {
  const auto a = normalize_axis(axis, rank);
  if (!a)
    return invalid_model(std::string(what) + " " + std::to_string(axis) +
                         " is outside a tensor of rank " + std::to_string(rank));
  return *a;
}

Status expect_rank_fits(int rank) {
  if (rank < 0 || rank > Shape::kMaxRank)
    return unsupported("the output has rank " + std::to_string(rank) +
                       ", the largest supported is " + std::to_string(Shape::kMaxRank));
  return ok_status();
}

void set_like(InferContext& c, std::size_t o, std::size_t i, const Shape& shape) {
  if (o >= c.outputs.size()) return;
  InferContext::Output& y = c.outputs[o];
  if (!y.typed) {
    const auto& q = c.type(i).quant;
    y.type.quant = q && q->is_per_tensor() ? q : std::nullopt;
  }
  c.set(o, c.type(i).dtype, shape);
}

KnownInts pick(const KnownInts& from, std::span<const std::size_t> index, bool scalar) {
  KnownInts to;
  to.scalar = scalar;
  to.real = from.real;
  for (std::size_t i : index) {
    if (from.real)
      to.reals.push_back(from.reals[i]);
    else
      to.values.push_back(from.values[i]);
  }
  return to;
}

std::optional<KnownInts> known(const InferContext& c, std::size_t i) {
  if (!c.has(i) || c.shape(i).rank() > 1) return std::nullopt;
  if (is_floating(c.type(i).dtype)) {
    auto r = c.reals(i);
    if (!r) return std::nullopt;
    KnownInts k;
    k.real = true;
    k.scalar = c.shape(i).rank() == 0;
    k.reals = std::move(*r);
    return k;
  }
  return c.ints(i);
}

void set_known(InferContext& c, KnownInts ints, std::size_t o) {
  if (o >= c.outputs.size()) return;
  InferContext::Output& y = c.outputs[o];
  if (y.type.shape.rank() > 1 || ints.size() > KnownInts::kMaxInts) return;
  if (y.type.quant || ints.real != is_floating(y.type.dtype)) return;
  ints.scalar = y.type.shape.rank() == 0;
  const auto n = y.type.shape.elements();
  if (n && static_cast<std::size_t>(*n) == ints.size()) y.ints = std::move(ints);
}

Dim truncated_div(Dim a, Dim b) {
  if (b.known() && b.value() == 1) return a;
  if (same(a, b) && a.is_symbol()) return Dim(1);
  if (!a.known() || !b.known() || b.value() == 0) return Dim::unknown();
  if (b.value() == -1) return Dim(0) - a;
  return Dim(a.value() / b.value());
}

Strides strides_of(const Shape& shape, Layout layout) {
  Strides s{};
  const auto axes = memory_axes(shape.rank(), layout);
  std::int64_t step = 1;
  for (int k = shape.rank() - 1; k >= 0; --k) {
    const int axis = axes[static_cast<std::size_t>(k)];
    s[static_cast<std::size_t>(axis)] = step;
    step *= shape.extent(axis);
  }
  return s;
}

Strides broadcast_strides(const TensorType& t, const Shape& out) {
  const Strides own = strides_of(t);
  Strides s{};
  const int shift = out.rank() - t.shape.rank();
  for (int i = 0; i < t.shape.rank(); ++i)
    s[static_cast<std::size_t>(i + shift)] =
        t.shape.extent(i) == 1 ? 0 : own[static_cast<std::size_t>(i)];
  return s;
}

bool same_order(const Shape& shape, Layout a, Layout b) {
  if (a == b || shape.rank() < 3) return true;
  return shape.extent(1) == 1 || shape.count(2, shape.rank()) == 1;
}

std::array<int, Shape::kMaxRank> memory_axes(int rank, Layout layout) {
  std::array<int, Shape::kMaxRank> axes{};
  for (int i = 0; i < rank; ++i) axes[static_cast<std::size_t>(i)] = i;
  if (layout == Layout::channels_last && rank >= 3)
    std::rotate(axes.begin() + 1, axes.begin() + 2, axes.begin() + rank);
  return axes;
}

}  // namespace fold8::ops
