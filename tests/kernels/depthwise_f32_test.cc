#include "runtime/kernels/depthwise_f32.h"

#include <vector>

#include "runtime/core/aligned.h"
#include "runtime/kernels/conv_f32.h"
#include "tests/kernels/f32_test_support.h"

namespace fold8::kernels {
namespace {

using testing::GuardedBuffer;
using testing::SeededRng;

ConvShape shape_of(std::int64_t channels, std::int64_t kernel, std::int64_t stride,
                   std::int64_t dilation, std::int64_t pad) {
  ConvShape s;
  s.in_channels = s.out_channels = s.groups = channels;
  for (int a : {1, 2}) {
    s.in[a] = a == 1 ? 7 : 23;
    s.kernel[a] = kernel;
    s.stride[a] = stride;
    s.dilation[a] = dilation;
    s.pad_begin[a] = pad;
    s.out[a] = (s.in[a] + 2 * pad - (kernel - 1) * dilation - 1) / stride + 1;
  }
  return s;
}

class DepthwiseF32Test : public TargetTest {
 protected:
  void compare(SeededRng& rng, const ConvShape& s) {
    const std::size_t channels = static_cast<std::size_t>(s.in_channels),
                      rows = static_cast<std::size_t>(conv_rows(s));
    const std::size_t taps = static_cast<std::size_t>(conv_taps(s));
    GuardedBuffer<float> x(static_cast<std::size_t>(s.batch * s.in[0] * s.in[1] * s.in[2]) *
                           channels);
    GuardedBuffer<float> offset(channels), want(rows * channels), got(rows * channels);
    std::vector<float> w(channels * taps);
    fill_wild(rng, x.span());
    rng.fill_normal(offset.span());
    rng.fill_normal(w);
    const AlignedBytes packed =
        allocate_aligned(packed_depthwise_f32_size(channels, taps) * sizeof(float));
    pack_depthwise_f32(w.data(), channels, taps, reinterpret_cast<float*>(packed.get()));
    DepthwiseF32Args args;
    args.shape = s;
    args.x = x.data();
    args.x_stride = channels;
    args.w = reinterpret_cast<const float*>(packed.get());
    args.epilogue.offset = offset.data();
    args.epilogue.activation = Activation::clip;
    args.epilogue.a = -1;
    args.epilogue.b = 2;
    args.epilogue.y_stride = channels;
    args.epilogue.y = want.data();
    args.row_end = rows;
    reference::depthwise_f32(args);
    args.epilogue.y = got.data();
    for (std::size_t part : {rows / 3, rows / 2, rows}) {
      args.row_end = part;
      kernels().depthwise_f32(args);
      args.row_begin = part;
    }
    ASSERT_TRUE(same_bits(got.span(), want.span()));
  }
};

TEST_P(DepthwiseF32Test, GivesTheBitsOfTheReference) {
  SeededRng rng;
  for (std::int64_t channels : {1, 7, 16, 33, 300})
    for (std::int64_t kernel : {1, 2, 3, 5, 7})
      for (std::int64_t stride : {1, 2, 3})
        for (std::int64_t dilation : {1, 2}) {
          SCOPED_TRACE(::testing::Message()
                       << channels << " k" << kernel << " s" << stride << " d" << dilation);
          const std::int64_t pad = kernel == 7 ? 4 : kernel > 1 ? 2 : 0;
          compare(rng, shape_of(channels, kernel, stride, dilation, pad));
        }
}

TEST_P(DepthwiseF32Test, ThreeAxesBatchesAndWindowsOfPaddingOnly) {
  SeededRng rng;
  ConvShape s = shape_of(5, 3, 1, 1, 1);
  s.batch = 2;
  s.in[0] = 4;
  s.kernel[0] = 2;
  s.pad_begin[0] = 1;
  s.out[0] = 4;
  compare(rng, s);
  s = shape_of(5, 2, 1, 1, 4);
  compare(rng, s);
}

// The same sums as the general convolution with one channel a group.
TEST(DepthwiseF32Reference, IsAGroupedConvolution) {
  SeededRng rng;
  const ConvShape s = shape_of(3, 3, 2, 1, 1);
  const std::size_t rows = static_cast<std::size_t>(conv_rows(s));
  std::vector<float> x(7 * 23 * 3), w(3 * 9), a(rows * 3), b(rows * 3);
  rng.fill_normal(x);
  rng.fill_normal(w);
  std::vector<float> packed(packed_depthwise_f32_size(3, 9)), packed_conv(packed_f32_size(1, 9, 3));
  pack_depthwise_f32(w.data(), 3, 9, packed.data());
  pack_conv_f32(conv_weights(w.data(), 1, 1, 9, 3), packed_conv.data());
  DepthwiseF32Args d{s, x.data(), 3, packed.data(), {}, 0, rows};
  d.epilogue.y = a.data();
  d.epilogue.y_stride = 3;
  reference::depthwise_f32(d);
  ConvF32Args c{s, x.data(), 3, packed_conv.data(), {}, 0, rows, 0, 3, nullptr};
  c.epilogue.y = b.data();
  c.epilogue.y_stride = 3;
  reference::conv_f32(c);
  EXPECT_EQ(a, b);
}

FOLD8_FOR_ALL_TARGETS(DepthwiseF32Test);

}  // namespace
}  // namespace fold8::kernels
