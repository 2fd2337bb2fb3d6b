#include <limits>
#include <type_traits>

#include "runtime/kernels/reduce.h"

namespace fold8::kernels {
namespace {

template <class T>
void reduce_integers(ReduceKind kind, std::size_t outer, std::size_t axis, std::size_t inner,
                     const T* x, T* y) {
  using U = std::make_unsigned_t<T>;  // wraps
  for (std::size_t o = 0; o < outer; ++o)
    for (std::size_t i = 0; i < inner; ++i) {
      U sum = 0, squares = 0, magnitudes = 0, product = 1;
      T lowest = std::numeric_limits<T>::max(), highest = std::numeric_limits<T>::lowest();
      for (std::size_t j = 0; j < axis; ++j) {
        const T v = x[(o * axis + j) * inner + i];
        const U u = static_cast<U>(v);
        sum += u, squares += u * u, product *= u, magnitudes += v < 0 ? U{0} - u : u;
        lowest = v < lowest ? v : lowest;
        highest = v > highest ? v : highest;
      }
      T result = static_cast<T>(sum);
      if (kind == ReduceKind::mean)
        result = axis == 0 ? T{0} : static_cast<T>(static_cast<T>(sum) / static_cast<T>(axis));
      if (kind == ReduceKind::max) result = highest;
      if (kind == ReduceKind::min) result = lowest;
      if (kind == ReduceKind::prod) result = static_cast<T>(product);
      if (kind == ReduceKind::l1) result = static_cast<T>(magnitudes);
      if (kind == ReduceKind::sum_square) result = static_cast<T>(squares);
      y[o * inner + i] = result;
    }
}

}  // namespace

void reduce_s32(ReduceKind kind, std::size_t outer, std::size_t axis, std::size_t inner,
                const std::int32_t* x, std::int32_t* y) {
  reduce_integers(kind, outer, axis, inner, x, y);
}
void reduce_s64(ReduceKind kind, std::size_t outer, std::size_t axis, std::size_t inner,
                const std::int64_t* x, std::int64_t* y) {
  reduce_integers(kind, outer, axis, inner, x, y);
}

}  // namespace fold8::kernels
