#include "runtime/ops/pool_loops.h"

#include <cmath>

namespace fold8::ops {
namespace {

// Strides of [N, C, D, H, W] in elements, whatever the rank and layout.
struct Box {
  std::int64_t n = 1, c = 1, stride_n = 0, stride_c = 0, stride[3] = {0, 0, 0};
};
Box box_of(const TensorType& t) {
  const Strides s = strides_of(t);
  Box b;
  b.n = t.shape.extent(0);
  b.c = t.shape.extent(1);
  b.stride_n = s[0];
  b.stride_c = s[1];
  const int axes = t.shape.rank() - 2;
  for (int i = 0; i < axes; ++i) b.stride[3 - axes + i] = s[static_cast<std::size_t>(2 + i)];
  return b;
}

// f(offset into the channel, position as d, h, w) for the positions of output (o0, o1, o2) inside
// the input.
template <class F>
void each_position(const kernels::PoolWindow& w, const Box& x, const std::int64_t o[3],
                   const F& f) {
  std::int64_t first[3], p[3];
  for (int i = 0; i < 3; ++i) first[i] = o[i] * w.axis[i].stride - w.axis[i].pad_begin;
  const auto inside = [&](int i) { return p[i] >= 0 && p[i] < w.axis[i].in; };
  for (std::int64_t a = 0; a < w.axis[0].kernel; ++a) {
    p[0] = first[0] + a * w.axis[0].dilation;
    if (!inside(0)) continue;
    for (std::int64_t b = 0; b < w.axis[1].kernel; ++b) {
      p[1] = first[1] + b * w.axis[1].dilation;
      if (!inside(1)) continue;
      for (std::int64_t c = 0; c < w.axis[2].kernel; ++c) {
        p[2] = first[2] + c * w.axis[2].dilation;
        if (inside(2)) f(p[0] * x.stride[0] + p[1] * x.stride[1] + p[2] * x.stride[2], p);
      }
    }
  }
}

// f(offset of the channel in x, offset in y, output position) for every output element.
template <class F>
void each_output(const kernels::PoolWindow& w, const Box& x, const Box& y, const F& f) {
  for (std::int64_t n = 0; n < y.n; ++n)
    for (std::int64_t c = 0; c < y.c; ++c)
      for (std::int64_t i = 0; i < w.axis[0].out; ++i)
        for (std::int64_t j = 0; j < w.axis[1].out; ++j)
          for (std::int64_t k = 0; k < w.axis[2].out; ++k) {
            const std::int64_t o[3] = {i, j, k};
            f(n * x.stride_n + c * x.stride_c,
              n * y.stride_n + c * y.stride_c + i * y.stride[0] + j * y.stride[1] + k * y.stride[2],
              o);
          }
}

template <class T>
void max_pool(const RunContext& run, bool column_major, const kernels::PoolWindow& w, const Box& xb,
              const Box& yb) {
  T* values = out<T>(run, 0);
  std::int64_t* indices = run.outputs.size() > 1 ? out<std::int64_t>(run, 1) : nullptr;
  each_output(w, xb, yb, [&](std::int64_t channel, std::int64_t to, const std::int64_t* o) {
    bool any = false;
    T best = std::numeric_limits<T>::lowest();
    if constexpr (std::is_floating_point_v<T>) best = -std::numeric_limits<T>::infinity();
    std::int64_t at = 0;
    each_position(w, xb, o, [&](std::int64_t offset, const std::int64_t* p) {
      const T v = in<T>(run, 0)[channel + offset];
      if (any && !(v > best) && !(v != v && best == best)) return;
      any = true;
      best = v;
      at = channel + (column_major ? (p[2] * w.axis[1].in + p[1]) * w.axis[0].in + p[0] : offset);
    });
    if (values) values[to] = best;
    if (indices) indices[to] = at;
  });
}

}  // namespace

Result<StepPtr> prepare_max_pool_indices(std::int64_t storage_order, const TensorType& x,
                                         const TensorType& y, const kernels::PoolWindow& w) {
  return make_step([=, xb = box_of(x), yb = box_of(y), dtype = x.dtype](const RunContext& run) {
    const bool column_major = storage_order != 0;
    if (dtype == DType::f32)
      max_pool<float>(run, column_major, w, xb, yb);
    else if (dtype == DType::u8)
      max_pool<std::uint8_t>(run, column_major, w, xb, yb);
    else
      max_pool<std::int8_t>(run, column_major, w, xb, yb);
    return ok_status();
  });
}

Result<StepPtr> prepare_lp_pool(std::int64_t p, const TensorType& x, const TensorType& y,
                                const kernels::PoolWindow& w) {
  if (p != 1 && p != 2)
    return unsupported("an Lp pool with p = " + std::to_string(p) + " (1 and 2 are supported)");
  return make_step([=, xb = box_of(x), yb = box_of(y)](const RunContext& run) {
    each_output(w, xb, yb, [&](std::int64_t channel, std::int64_t to, const std::int64_t* o) {
      float sum = 0;
      each_position(w, xb, o, [&](std::int64_t offset, const std::int64_t*) {
        const float v = in<float>(run, 0)[channel + offset];
        sum = p == 1 ? sum + std::fabs(v) : std::fma(v, v, sum);
      });
      out<float>(run, 0)[to] = p == 1 ? sum : std::sqrt(sum);
    });
    return ok_status();
  });
}

}  // namespace fold8::ops
