#include "runtime/kernels/norm.h"
#include "runtime/kernels/quantize_ref.h"

namespace fold8::kernels::reference {
namespace {

std::size_t at(const NormChannelsArgs& args, std::size_t n, std::size_t c, std::size_t s) {
  return args.channels_last ? (n * args.spatial + s) * args.channels + c
                            : (n * args.channels + c) * args.spatial + s;
}

// Samples [begin, end), channels of group g: each channel's chain, then the channels.
template <class Step>
float group_sum(const NormChannelsArgs& args, std::size_t begin, std::size_t end, std::size_t g,
                Step&& step) {
  const std::size_t width = args.channels / args.groups;
  float total = 0;
  for (std::size_t c = g * width; c < (g + 1) * width; ++c) {
    float chain = 0;
    for (std::size_t n = begin; n < end; ++n)
      for (std::size_t s = 0; s < args.spatial; ++s) chain = step(chain, args.x[at(args, n, c, s)]);
    total = total + chain;
  }
  return total;
}

void normalize(const NormChannelsArgs& args, std::size_t begin, std::size_t end, std::size_t g,
               std::size_t slot) {
  const std::size_t width = args.channels / args.groups;
  const float d = static_cast<float>((end - begin) * width * args.spatial);
  float mu = group_sum(args, begin, end, g, [](float sum, float x) { return sum + x; }) / d;
  mu = mu + group_sum(args, begin, end, g, [mu](float sum, float x) { return sum + (x - mu); }) / d;
  const float var =
      group_sum(args, begin, end, g,
                [mu](float sum, float x) { return __builtin_fmaf(x - mu, x - mu, sum); }) /
      d;
  const float r = 1.0f / __builtin_sqrtf(var + args.epsilon);
  if (args.mean_out != nullptr) args.mean_out[slot] = mu;
  if (args.variance_out != nullptr) args.variance_out[slot] = var;
  for (std::size_t c = g * width; c < (g + 1) * width; ++c) {
    const std::size_t p = args.per_group ? g : c;
    for (std::size_t n = begin; n < end; ++n)
      for (std::size_t s = 0; s < args.spatial; ++s) {
        const std::size_t i = at(args, n, c, s);
        float t = (args.x[i] - mu) * r;
        if (args.gamma != nullptr && args.beta != nullptr) {
          t = __builtin_fmaf(t, args.gamma[p], args.beta[p]);
        } else {
          if (args.gamma != nullptr) t = t * args.gamma[p];
          if (args.beta != nullptr) t = t + args.beta[p];
        }
        if (args.y != nullptr) args.y[i] = t;
        if (args.q != nullptr) args.q[i] = quantize_u8(t, args.q_scale, args.q_zero_point);
      }
  }
}

}  // namespace

void norm_channels(const NormChannelsArgs& args) {
  if (args.across_batch) {
    for (std::size_t g = 0; g < args.groups; ++g) normalize(args, 0, args.n, g, g);
    return;
  }
  for (std::size_t n = 0; n < args.n; ++n)
    for (std::size_t g = 0; g < args.groups; ++g) normalize(args, n, n + 1, g, n * args.groups + g);
}

}  // namespace fold8::kernels::reference
