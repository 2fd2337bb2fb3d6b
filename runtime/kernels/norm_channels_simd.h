#pragma once

#include "runtime/kernels/norm.h"
#include "runtime/kernels/unary_simd.h"

namespace fold8::kernels::simd {

// Sixteen (or n) neighbouring channels at position s of a sample, whatever the layout.
template <class Arch, class N>
inline V16<Arch> load_channels(const NormChannelsArgs& args, const float* sample, std::size_t c,
                               std::size_t s, N n) {
  if (args.channels_last) return load<Arch>(sample + s * args.channels + c, n);
  alignas(64) float t[16] = {};
  for (int i = 0; i < count(n); ++i)
    t[i] = sample[(c + static_cast<std::size_t>(i)) * args.spatial + s];
  return Memory16<Arch>::load(t);
}

// sums[c] = the chain of channel c: step(acc, x, mean of c). Each lane is one channel, so each
// chain is in order.
template <class Arch, class Step>
inline void channel_chains(const NormChannelsArgs& args, std::size_t begin, std::size_t end,
                           const float* mean, float* sums, Step&& step) {
  using V = V16<Arch>;
  for_steps<Arch>(args.channels, [&](std::size_t c, auto n) {
    V acc(0.0f);
    const V mu = mean != nullptr ? load<Arch>(mean + c, n) : V(0.0f);
    for (std::size_t b = begin; b < end; ++b) {
      const float* sample = args.x + b * args.channels * args.spatial;
      for (std::size_t s = 0; s < args.spatial; ++s)
        acc = step(acc, load_channels<Arch>(args, sample, c, s, n), mu);
    }
    store<Arch>(sums + c, n, acc);
  });
}

// Channel sums to the mean of each group, written to every channel of the group: finish(c, sum /
// d).
template <class Finish>
inline void group_means(const NormChannelsArgs& args, const float* sums, float d, Finish&& finish) {
  const std::size_t width = args.channels / args.groups;
  for (std::size_t g = 0; g < args.groups; ++g) {
    float total = 0;
    for (std::size_t c = g * width; c < (g + 1) * width; ++c) total = total + sums[c];
    for (std::size_t c = g * width; c < (g + 1) * width; ++c) finish(c, total / d);
  }
}

template <class Arch>
struct ChannelScale {
  const float* gamma;
  const float* beta;
  V16<Arch> operator()(V16<Arch> u, V16<Arch> g, V16<Arch> b) const {
    if (gamma != nullptr && beta != nullptr) return Lanes<V16<Arch>>::fma(u, g, b);
    if (gamma != nullptr) u = u * g;
    if (beta != nullptr) u = u + b;
    return u;
  }
};

template <class Arch>
inline void write_channels_last(const NormChannelsArgs& args, std::size_t sample, const float* mean,
                                const float* r) {
  using V = V16<Arch>;
  const StoreF32U8<Arch> write(args.y, args.q, args.q_scale, args.q_zero_point);
  const ChannelScale<Arch> scale{args.gamma, args.beta};
  const std::size_t width = args.channels / args.groups;
  for_steps<Arch>(args.channels, [&](std::size_t c, auto n) {
    const auto parameter = [&](const float* p) {
      if (p == nullptr) return V(0.0f);
      if (!args.per_group) return load<Arch>(p + c, n);
      alignas(64) float t[16] = {};
      for (int i = 0; i < count(n); ++i) t[i] = p[(c + static_cast<std::size_t>(i)) / width];
      return Memory16<Arch>::load(t);
    };
    const V g = parameter(args.gamma), b = parameter(args.beta), mu = load<Arch>(mean + c, n),
            f = load<Arch>(r + c, n);
    for (std::size_t s = 0; s < args.spatial; ++s) {
      const std::size_t at = (sample * args.spatial + s) * args.channels + c;
      write(at, n, scale((load<Arch>(args.x + at, n) - mu) * f, g, b));
    }
  });
}

template <class Arch>
inline void write_channels_first(const NormChannelsArgs& args, std::size_t sample,
                                 const float* mean, const float* r) {
  using V = V16<Arch>;
  const StoreF32U8<Arch> write(args.y, args.q, args.q_scale, args.q_zero_point);
  const ChannelScale<Arch> scale{args.gamma, args.beta};
  for (std::size_t c = 0; c < args.channels; ++c) {
    const std::size_t p = args.per_group ? c / (args.channels / args.groups) : c;
    const std::size_t at = (sample * args.channels + c) * args.spatial;
    const V g(args.gamma != nullptr ? args.gamma[p] : 0.0f),
        b(args.beta != nullptr ? args.beta[p] : 0.0f);
    const V mu(mean[c]), f(r[c]);
    for_steps<Arch>(args.spatial, [&](std::size_t s, auto n) {
      write(at + s, n, scale((load<Arch>(args.x + at + s, n) - mu) * f, g, b));
    });
  }
}

// Samples [begin, end) share their statistics; slot is where the first group's are reported.
template <class Arch>
inline void normalize_samples(const NormChannelsArgs& args, std::size_t begin, std::size_t end,
                              std::size_t slot) {
  using V = V16<Arch>;
  float *sums = args.scratch, *mean = args.scratch + args.channels,
        *r = args.scratch + 2 * args.channels;
  const std::size_t width = args.channels / args.groups;
  const float d = static_cast<float>((end - begin) * width * args.spatial);
  channel_chains<Arch>(args, begin, end, nullptr, sums, [](V acc, V x, V) { return acc + x; });
  group_means(args, sums, d, [&](std::size_t c, float m) { mean[c] = m; });
  channel_chains<Arch>(args, begin, end, mean, sums,
                       [](V acc, V x, V mu) { return acc + (x - mu); });
  group_means(args, sums, d, [&](std::size_t c, float m) { mean[c] = mean[c] + m; });
  channel_chains<Arch>(args, begin, end, mean, sums,
                       [](V acc, V x, V mu) { return Lanes<V>::fma(x - mu, x - mu, acc); });
  group_means(args, sums, d, [&](std::size_t c, float var) {
    r[c] = 1.0f / __builtin_sqrtf(var + args.epsilon);
    if (args.mean_out != nullptr) args.mean_out[slot + c / width] = mean[c];
    if (args.variance_out != nullptr) args.variance_out[slot + c / width] = var;
  });
  for (std::size_t sample = begin; sample < end; ++sample) {
    if (args.channels_last)
      write_channels_last<Arch>(args, sample, mean, r);
    else
      write_channels_first<Arch>(args, sample, mean, r);
  }
}

template <class Arch>
void norm_channels(const NormChannelsArgs& args) {
  if (args.across_batch) return normalize_samples<Arch>(args, 0, args.n, 0);
  for (std::size_t n = 0; n < args.n; ++n) normalize_samples<Arch>(args, n, n + 1, n * args.groups);
}

}  // namespace fold8::kernels::simd
