#include "runtime/kernels/norm.h"
#include "tests/kernels/elementwise_support.h"

namespace fold8::kernels {
namespace {

using namespace testing;

void compare(std::size_t n, std::size_t channels, std::size_t spatial, std::size_t groups,
             int flags, SeededRng& rng) {
  const std::size_t size = n * channels * spatial;
  GuardedBuffer<float> first(size), last(size), gamma(channels), beta(channels),
      scratch(3 * channels);
  rng.fill_normal(gamma.span());
  rng.fill_normal(beta.span());
  for (std::size_t b = 0; b < n; ++b)
    for (std::size_t c = 0; c < channels; ++c)
      for (std::size_t s = 0; s < spatial; ++s)
        first[(b * channels + c) * spatial + s] = last[(b * spatial + s) * channels + c] =
            rng.normal(5, 2);
  GuardedBuffer<float> want(size), got(size),
      mean[2] = {GuardedBuffer<float>(n * groups), GuardedBuffer<float>(n * groups)};
  GuardedBuffer<std::uint8_t> want_q(size), got_q(size);
  NormChannelsArgs args{.n = n,
                        .channels = channels,
                        .spatial = spatial,
                        .groups = groups,
                        .epsilon = 1e-5f,
                        .q_scale = 0.04f,
                        .q_zero_point = 128,
                        .scratch = scratch.data()};
  args.across_batch = (flags & 1) != 0;
  args.per_group = (flags & 2) != 0;
  if (!(flags & 4)) args.gamma = gamma.data();
  if (!(flags & 8)) args.beta = beta.data();
  args.x = first.data(), args.y = want.data(), args.q = want_q.data(),
  args.mean_out = mean[0].data();
  reference_table().norm_channels(args);
  for (const Target& t : targets()) {
    if (!t.cpu_can_run()) continue;
    SCOPED_TRACE(std::string(t.name));
    for (bool channels_last : {false, true}) {
      args.channels_last = channels_last;
      args.x = channels_last ? last.data() : first.data();
      args.y = got.data(), args.q = got_q.data(), args.mean_out = mean[1].data();
      t.kernels->norm_channels(args);
      EXPECT_TRUE(
          same_bits(mean[1].data(), mean[0].data(), args.across_batch ? groups : n * groups));
      for (std::size_t b = 0; b < n; ++b)
        for (std::size_t c = 0; c < channels; ++c)
          for (std::size_t s = 0; s < spatial; ++s) {
            const std::size_t i = (b * channels + c) * spatial + s,
                              k = channels_last ? (b * spatial + s) * channels + c : i;
            ASSERT_TRUE(same_bits(got[k], want[i])) << i;
            ASSERT_EQ(got_q[k], want_q[i]) << i;
          }
    }
  }
}

TEST(NormChannels, LayoutAndTargetNeverChangeTheResult) {
  SeededRng rng;
  for (std::size_t spatial : {1u, 5u, 16u, 49u}) {
    for (std::size_t channels : {1u, 3u, 16u, 20u}) {
      compare(2, channels, spatial, channels, 0, rng);
      compare(2, channels, spatial, channels, 1, rng);
      compare(2, channels, spatial, channels, 4, rng);
      compare(2, channels, spatial, 1, 2, rng);
    }
    compare(2, 24, spatial, 4, 0, rng);
    compare(1, 36, spatial, 6, 2, rng);
    compare(1, 36, spatial, 2, 12, rng);
  }
}

std::vector<float> run(NormChannelsArgs args, const std::vector<float>& x) {
  std::vector<float> y(x.size()), scratch(3 * args.channels);
  args.x = x.data(), args.y = y.data(), args.scratch = scratch.data();
  reference_table().norm_channels(args);
  return y;
}

void expect_near(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], want[i], 1e-6f * (1 + std::fabs(want[i]))) << i;
}

TEST(NormChannels, WorkedValuesOfBatchNormWithBatchStatistics) {
  NormChannelsArgs args{
      .n = 2, .channels = 3, .spatial = 1, .groups = 3, .across_batch = true, .epsilon = 1e-5f};
  const float a = 0.999998f;
  expect_near(run(args, {1, 2, 3, 4, 5, 6}), {-a, -a, -a, a, a, a});
  const float gamma[] = {1, 1.5f, 2}, beta[] = {0, 1, -1};
  args.gamma = gamma, args.beta = beta;
  expect_near(run(args, {1, 2, 3, 2, 4, 6}),
              {-0.999980f, -0.499993f, -2.999996f, 0.999980f, 2.499993f, 0.999996f});

  // PyTorch-style running statistics from (0, 1), momentum 0.5, with the unbiased variance (2 of 2
  // - 1 values).
  float mean[3], variance[3];
  args.mean_out = mean, args.variance_out = variance;
  run(args, {1, 2, 3, 3, 6, 9});
  const float want_mean[] = {1, 2, 3}, want_var[] = {1.5f, 4.5f, 9.5f};
  for (int c = 0; c < 3; ++c) {
    EXPECT_NEAR(0.5f * 0 + 0.5f * mean[c], want_mean[c], 1e-6f);
    EXPECT_NEAR(0.5f * 1 + 0.5f * variance[c] * 2, want_var[c], 1e-6f);
  }
}

TEST(NormChannels, InstanceAndGroupNormOfOneSample) {
  const float a = 1.224736f;
  NormChannelsArgs args{.n = 1, .channels = 2, .spatial = 3, .groups = 2, .epsilon = 1e-5f};
  expect_near(run(args, {1, 2, 3, 4, 5, 6}), {-a, 0, a, -a, 0, a});
  args.groups = 1;  // mean 3.5, variance 35/12
  const float r = 1 / std::sqrt(35.0f / 12 + 1e-5f);
  expect_near(run(args, {1, 2, 3, 4, 5, 6}),
              {-2.5f * r, -1.5f * r, -0.5f * r, 0.5f * r, 1.5f * r, 2.5f * r});
}

TEST(NormChannels, ConstantChannelsGiveExactlyBeta) {
  const float beta[] = {0.25f, -0.3f};
  NormChannelsArgs args{
      .n = 1, .channels = 2, .spatial = 1000, .groups = 2, .beta = beta, .epsilon = 1e-5f};
  std::vector<float> x(2000, 2999.7f), want(2000, 0.25f);
  std::fill(want.begin() + 1000, want.end(), -0.3f);
  for (const Target& t : targets()) {
    if (!t.cpu_can_run()) continue;
    std::vector<float> y(2000), scratch(6);
    args.x = x.data(), args.y = y.data(), args.scratch = scratch.data();
    t.kernels->norm_channels(args);
    EXPECT_EQ(y, want);
  }
}

}  // namespace
}  // namespace fold8::kernels
