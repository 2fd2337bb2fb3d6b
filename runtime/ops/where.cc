// y = c ? x0 : x1 with broadcasting; any element type, elements are moved and not looked at.
#include "runtime/ops/broadcast.h"
#include "runtime/ops/each_op.h"

namespace fold8::ops {

Status infer_op(const graph::Where&, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 3, 3));
  FOLD8_CHECK_OK(expect_dtype(c, 0, {DType::boolean}));
  if (c.type(2).dtype != c.type(1).dtype)
    return bad_input(c, 2,
                     "elements of type " + std::string(name(c.type(1).dtype)) + " as input 1");
  const auto values = broadcast(c.shape(1), c.shape(2));
  if (!values)
    return bad_input(c, 2, "a shape that broadcasts with input 1, " + to_string(c.shape(1)));
  const auto y = broadcast(c.shape(0), *values);
  if (!y) return bad_input(c, 0, "a shape that broadcasts with " + to_string(*values));
  set_like(c, 0, 1, *y);
  if (y->rank() > 1) return ok_status();
  const auto k = c.ints(0);
  const auto a = known(c, 1), b = known(c, 2);
  if (!k || !k->all_known() || !a || !b || a->real != b->real) return ok_status();
  const std::size_t n = std::max({k->size(), a->size(), b->size()});
  if (std::min({k->size(), a->size(), b->size()}) == 0) return ok_status();
  KnownInts r;
  r.real = a->real;
  for (std::size_t i = 0; i < n; ++i) {
    const KnownInts& from = k->values[k->size() == 1 ? 0 : i].value() != 0 ? *a : *b;
    const std::size_t at = from.size() == 1 ? 0 : i;
    if (r.real)
      r.reals.push_back(from.reals[at]);
    else
      r.values.push_back(from.values[at]);
  }
  set_known(c, std::move(r));
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::Where&, const PrepareContext& c) {
  const TensorType* operands[] = {&c.type(0), &c.type(1), &c.type(2)};
  const Broadcast shape = make_broadcast(c.out(0), operands);
  const auto step_for = [&](auto t) {
    using T = decltype(t);
    return make_step([shape](const RunContext& run) {
      parallel(run, shape.count, grain_for(2),
               [&](std::size_t begin, std::size_t end, std::size_t) {
                 each_line(shape, begin, end,
                           [&](std::size_t first, std::size_t n, const std::ptrdiff_t* at,
                               const std::ptrdiff_t* step) {
                             const auto* k = in<std::uint8_t>(run, 0) + at[0];
                             const T* a = in<T>(run, 1) + at[1];
                             const T* b = in<T>(run, 2) + at[2];
                             T* y = out<T>(run, 0) + first;
                             for (std::size_t i = 0; i < n; ++i) {
                               const auto j = static_cast<std::ptrdiff_t>(i);
                               y[i] = k[j * step[0]] != 0 ? a[j * step[1]] : b[j * step[2]];
                             }
                           });
               });
      return ok_status();
    });
  };
  switch (size_of(c.out(0).dtype)) {
    case 1:
      return step_for(std::uint8_t{});
    case 2:
      return step_for(std::uint16_t{});
    case 4:
      return step_for(std::uint32_t{});
    default:
      return step_for(std::uint64_t{});
  }
}

}  // namespace fold8::ops
