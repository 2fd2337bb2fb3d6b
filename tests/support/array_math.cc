#include "tests/support/array_math.h"

#include <algorithm>

namespace fold8::testing_support {

std::int64_t count(const Ints& shape, std::size_t from) {
  std::int64_t n = 1;
  for (std::size_t i = from; i < shape.size(); ++i) n *= shape[i];
  return n;
}

Ints strides_of(const Ints& shape) {
  Ints s(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) s[i - 1] = s[i] * shape[i];
  return s;
}

Array filled(Ints shape) {
  const auto n = static_cast<std::size_t>(count(shape));
  return {std::move(shape), std::vector<double>(n, 0.0)};
}

void for_each_index(const Ints& shape, const std::function<void(const Ints&)>& f) {
  Ints index(shape.size(), 0);
  for (std::int64_t i = 0, n = count(shape); i < n; ++i) {
    f(index);
    for (std::size_t a = shape.size(); a-- > 0;) {
      if (++index[a] < shape[a]) break;
      index[a] = 0;
    }
  }
}

Array permuted(const Array& x, const Ints& perm) {
  Ints shape;
  for (const std::int64_t p : perm) shape.push_back(x.shape[std::size_t(p)]);
  Array y = filled(shape);
  const Ints strides = strides_of(x.shape);
  std::size_t out = 0;
  for_each_index(shape, [&](const Ints& index) {
    std::int64_t from = 0;
    for (std::size_t i = 0; i < perm.size(); ++i) from += index[i] * strides[std::size_t(perm[i])];
    y.data[out++] = x.data[std::size_t(from)];
  });
  return y;
}

Array linear(const Array& x, const Array& w) {
  const std::int64_t k = w.shape.back(), n = w.shape[w.shape.size() - 2];
  const std::int64_t matrices = count(w.shape) / (k * n), rows = count(x.shape) / k;
  Ints shape = x.shape;
  shape.back() = n;
  Array y = filled(shape);
  const std::int64_t rows_per_matrix = matrices == 1 ? rows : x.shape[x.shape.size() - 2];
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t o = 0; o < n; ++o) {
      const std::int64_t matrix = r / rows_per_matrix % matrices;
      double sum = 0;
      for (std::int64_t i = 0; i < k; ++i)
        sum += x.data[std::size_t(r * k + i)] * w.data[std::size_t((matrix * n + o) * k + i)];
      y.data[std::size_t(r * n + o)] = sum;
    }
  return y;
}

namespace {

Array swapped(const Array& x) {
  Ints perm(x.shape.size());
  for (std::size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<std::int64_t>(i);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return permuted(x, perm);
}

std::int64_t at(const Ints& v, std::size_t i, std::int64_t otherwise) {
  return i < v.size() ? v[i] : otherwise;
}

// Spatial extents of the result.
Ints result_space(const graph::Conv& op, const Ints& space, const Ints& kernel) {
  Ints result;
  for (std::size_t i = 0; i < space.size(); ++i) {
    const std::int64_t stride = at(op.strides, i, 1),
                       reach = (kernel[i] - 1) * at(op.dilations, i, 1) + 1;
    const std::int64_t pads = at(op.pads, i, 0) + at(op.pads, space.size() + i, 0);
    result.push_back(op.transposed
                         ? (space[i] - 1) * stride + reach + at(op.output_padding, i, 0) - pads
                         : (space[i] + pads - reach) / stride + 1);
  }
  return result;
}

}  // namespace

Array matmul(const graph::MatMul& op, const Array& left, const Array& right) {
  const Array a = op.transpose_a ? swapped(left) : left,
              b = op.transpose_b ? swapped(right) : right;
  const std::int64_t m = a.shape[a.shape.size() - 2], k = a.shape.back(), n = b.shape.back();
  const std::int64_t left_count = count(a.shape) / (m * k), right_count = count(b.shape) / (k * n);
  Ints shape = a.shape.size() >= b.shape.size() ? a.shape : b.shape;
  shape[shape.size() - 2] = m;
  shape.back() = n;
  Array y = filled(shape);
  for (std::int64_t t = 0; t < std::max(left_count, right_count); ++t)
    for (std::int64_t r = 0; r < m; ++r)
      for (std::int64_t c = 0; c < n; ++c) {
        double sum = 0;
        for (std::int64_t i = 0; i < k; ++i)
          sum += a.data[std::size_t((t % left_count * m + r) * k + i)] *
                 b.data[std::size_t((t % right_count * k + i) * n + c)];
        y.data[std::size_t((t * m + r) * n + c)] = double(op.alpha) * sum;
      }
  return y;
}

// Goes over every pair of positions that a tap joins: a `small` side (the input of a transposed
// convolution, else the output) and a `big` one.
Array convolution(const graph::Conv& op, const Array& x, const Array& w) {
  const std::size_t axes = x.shape.size() - 2;
  const Ints kernel(w.shape.begin() + 2, w.shape.end()), space(x.shape.begin() + 2, x.shape.end());
  const Ints result = result_space(op, space, kernel);
  const std::int64_t outputs = op.transposed ? w.shape[1] * op.group : w.shape[0];
  const std::int64_t in_per_group = x.shape[1] / op.group, out_per_group = outputs / op.group;
  Ints shape{x.shape[0], outputs};
  shape.insert(shape.end(), result.begin(), result.end());
  Array y = filled(shape);
  const Ints sx = strides_of(x.shape), sy = strides_of(shape), sw = strides_of(w.shape);
  for_each_index(op.transposed ? space : result, [&](const Ints& small) {
    for_each_index(kernel, [&](const Ints& tap) {
      std::int64_t small_at = 0, big_at = 0, w_at = 0;
      for (std::size_t i = 0; i < axes; ++i) {
        const std::int64_t big =
            small[i] * at(op.strides, i, 1) + tap[i] * at(op.dilations, i, 1) - at(op.pads, i, 0);
        if (big < 0 || big >= (op.transposed ? result : space)[i]) return;
        big_at += big * (op.transposed ? sy : sx)[i + 2];
        small_at += small[i] * (op.transposed ? sx : sy)[i + 2];
        w_at += tap[i] * sw[i + 2];
      }
      const std::int64_t x_at = op.transposed ? small_at : big_at,
                         y_at = op.transposed ? big_at : small_at;
      for (std::int64_t n = 0; n < shape[0]; ++n)
        for (std::int64_t o = 0; o < outputs; ++o)
          for (std::int64_t i = 0; i < in_per_group; ++i) {
            const std::int64_t c = o / out_per_group * in_per_group + i;
            const std::int64_t weight =
                op.transposed ? c * sw[0] + o % out_per_group * sw[1] : o * sw[0] + i * sw[1];
            y.data[std::size_t(n * sy[0] + o * sy[1] + y_at)] +=
                x.data[std::size_t(n * sx[0] + c * sx[1] + x_at)] *
                w.data[std::size_t(weight + w_at)];
          }
    });
  });
  return y;
}

}  // namespace fold8::testing_support
