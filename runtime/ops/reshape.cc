// Reshape, Flatten, Squeeze, Unsqueeze: the same elements under another shape.
#include "runtime/ops/each_op.h"
#include "runtime/ops/strided_copy.h"

namespace fold8::ops {
namespace {

// A product of extents as a number and symbols; `open` if an unknown extent takes part.
struct Product {
  std::int64_t number = 1;
  std::vector<std::int32_t> symbols;
  bool open = false, overflow = false;

  void multiply(Dim d) {
    if (d.known())
      overflow |= __builtin_mul_overflow(number, d.value(), &number);
    else if (d.is_symbol())
      symbols.push_back(d.symbol_id());
    else
      open = true;
  }
};

// whole / part where it can be told, else unknown. Symbols of `part` cancel against those of
// `whole`.
Dim quotient(Product whole, const Product& part) {
  if (whole.open || part.open || whole.overflow || part.overflow) return Dim::unknown();
  for (std::int32_t s : part.symbols) {
    const auto it = std::find(whole.symbols.begin(), whole.symbols.end(), s);
    if (it == whole.symbols.end()) return Dim::unknown();
    whole.symbols.erase(it);
  }
  if (part.number == 0) return Dim::unknown();
  if (whole.symbols.empty() && whole.number % part.number == 0)
    return Dim(whole.number / part.number);
  if (whole.symbols.size() == 1 && whole.number == part.number)
    return Dim::symbol(whole.symbols[0]);
  return Dim::unknown();
}

// Fits `wanted` (with -1 and unknown elements) to the elements of x.
Result<Shape> reshaped(const Shape& x, std::span<const Dim> wanted, bool allow_zero) {
  Shape y;
  Product rest, whole;
  int hole = -1, holes = 0;
  bool rest_given = false;  // a -1: distinct from an extent that is merely unknown
  for (Dim d : x.dims()) whole.multiply(d);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    Dim d = wanted[i];
    if (d.known() && d.value() == 0 && !allow_zero) {
      if (static_cast<int>(i) >= x.rank())
        return invalid_model("shape element " + std::to_string(i) +
                             " is 0 (copy), but input 0 has rank " + std::to_string(x.rank()));
      d = x[static_cast<int>(i)];
    }
    if (d.known() && d.value() < -1)
      return invalid_model("shape element " + std::to_string(i) + " is " +
                           std::to_string(d.value()));
    if (d.known() && d.value() == -1) {
      if (rest_given) return invalid_model("the shape has more than one -1");
      rest_given = true;
      d = Dim::unknown();
      hole = static_cast<int>(i);
      ++holes;
    } else if (!d.known() && !d.is_symbol()) {
      if (hole < 0) hole = static_cast<int>(i);
      ++holes;
    } else {
      rest.multiply(d);
    }
    y.push_back(d);
  }
  if (holes == 1) {
    if (rest.number == 0 && x.known() && !rest.overflow) {
      if (x.count() != 0)
        return invalid_model("cannot reshape " + to_string(x) + " to " + to_string(y));
      y[hole] = Dim(0);
    } else {
      y[hole] = quotient(whole, rest);
    }
  }
  const auto have = x.elements(), want = y.elements();
  const bool misfit = holes > 0 && x.known() && !y.known() && rest.symbols.empty() && holes == 1;
  if (misfit || (have && y.known() && want != have))
    return invalid_model("cannot reshape " + to_string(x) + " to " + to_string(y));
  return y;
}

void finish(InferContext& c, const Shape& y) {
  set_like(c, 0, 0, y);
  if (y.rank() <= 1)
    if (auto k = known(c, 0)) set_known(c, std::move(*k));
}

Result<StepPtr> prepare_reshape(const PrepareContext& c) {
  return prepare_copy(c.type(0), c.out(0));
}

// Marks the axes in a set of `rank`; errors for those outside or repeated.
Result<std::array<bool, Shape::kMaxRank>> axis_set(const graph::Ints& axes, int rank) {
  std::array<bool, Shape::kMaxRank> set{};
  for (std::int64_t axis : axes) {
    FOLD8_TRY(const int a, checked_axis(axis, rank));
    if (set[static_cast<std::size_t>(a)])
      return invalid_model("axis " + std::to_string(axis) + " is given twice");
    set[static_cast<std::size_t>(a)] = true;
  }
  return set;
}

}  // namespace

Status infer_op(const graph::Reshape& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 2, 2));
  FOLD8_CHECK_OK(expect_index(c, 1));
  if (c.shape(1).rank() != 1) return bad_input(c, 1, "a shape of rank 1");
  const auto wanted = c.ints(1);
  if (wanted) {
    FOLD8_CHECK_OK(expect_rank_fits(static_cast<int>(wanted->values.size())));
    FOLD8_TRY(const Shape y, reshaped(c.shape(0), wanted->values, op.allow_zero));
    finish(c, y);
    return ok_status();
  }
  if (!c.shape(1)[0].known())
    return unsupported("the rank of the output is not known: input 1 is " + describe(c.type(1)));
  if (c.shape(1).extent(0) > Shape::kMaxRank || c.shape(1).extent(0) < 0)
    return bad_input(c, 1, "at most 8 extents");
  Shape y;
  y.resize(static_cast<int>(c.shape(1).extent(0)));
  finish(c, y);
  return ok_status();
}

Status infer_op(const graph::Flatten& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 1, 1));
  const Shape& x = c.shape(0);
  std::int64_t axis = op.axis < 0 ? op.axis + x.rank() : op.axis;
  if (axis < 0 || axis > x.rank())
    return invalid_model("axis " + std::to_string(op.axis) + " is outside a tensor of rank " +
                         std::to_string(x.rank()));
  Dim outer(1), inner(1);
  for (int i = 0; i < x.rank(); ++i) (i < axis ? outer : inner) = (i < axis ? outer : inner) * x[i];
  finish(c, Shape{outer, inner});
  return ok_status();
}

Status infer_op(const graph::Squeeze& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 1, 1));
  const Shape& x = c.shape(0);
  FOLD8_TRY(const auto gone, axis_set(op.axes, x.rank()));
  Shape y;
  for (int i = 0; i < x.rank(); ++i) {
    const bool one = x[i].known() && x[i].value() == 1;
    if (op.axes.empty() && !x[i].known())
      return unsupported("squeeze of every extent of 1 needs a known shape, input 0 is " +
                         describe(c.type(0)));
    if (op.axes.empty() ? one : gone[static_cast<std::size_t>(i)]) {
      if (x[i].known() && !one)
        return bad_input(c, 0, "extent 1 at axis " + std::to_string(i) + ", which is squeezed");
      continue;
    }
    y.push_back(x[i]);
  }
  finish(c, y);
  return ok_status();
}

Status infer_op(const graph::Unsqueeze& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 1, 1));
  const Shape& x = c.shape(0);
  if (op.axes.size() > Shape::kMaxRank)
    return expect_rank_fits(static_cast<int>(Shape::kMaxRank) + 1);
  const int rank = x.rank() + static_cast<int>(op.axes.size());
  FOLD8_CHECK_OK(expect_rank_fits(rank));
  FOLD8_TRY(const auto fresh, axis_set(op.axes, rank));
  Shape y;
  for (int i = 0, from = 0; i < rank; ++i)
    y.push_back(fresh[static_cast<std::size_t>(i)] ? Dim(1) : x[from++]);
  finish(c, y);
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::Reshape&, const PrepareContext& c) {
  return prepare_reshape(c);
}
Result<StepPtr> prepare_op(const graph::Flatten&, const PrepareContext& c) {
  return prepare_reshape(c);
}
Result<StepPtr> prepare_op(const graph::Squeeze&, const PrepareContext& c) {
  return prepare_reshape(c);
}
Result<StepPtr> prepare_op(const graph::Unsqueeze&, const PrepareContext& c) {
  return prepare_reshape(c);
}

}  // namespace fold8::ops
