// Arrays of doubles and the plain loops of matrix operators: the arithmetic behind
// evaluate_graph.h.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/graph/ops.h"

namespace fold8::testing_support {

using Ints = std::vector<std::int64_t>;

struct Array {
  Ints shape;
  std::vector<double> data;
};

// Product of the extents from axis `from` on.
std::int64_t count(const Ints& shape, std::size_t from = 0);
Ints strides_of(const Ints& shape);
Array filled(Ints shape);  // with zeros
// Calls f(index) for every index of a shape, row-major.
void for_each_index(const Ints& shape, const std::function<void(const Ints&)>& f);
Array permuted(const Array& x, const Ints& perm);

// The products alone, without bias, residual and activation.
Array linear(const Array& x, const Array& w);                           // w [N,K] or [B..,N,K]
Array matmul(const graph::MatMul& op, const Array& a, const Array& b);  // rank 2 or more
Array convolution(const graph::Conv& op, const Array& x,
                  const Array& w);  // both kinds, any number of spatial axes

}  // namespace fold8::testing_support
