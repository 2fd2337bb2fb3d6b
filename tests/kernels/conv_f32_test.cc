#include "runtime/kernels/conv_f32.h"

#include <vector>

#include "runtime/core/aligned.h"
#include "tests/kernels/f32_test_support.h"

namespace fold8::kernels {
namespace {

using testing::GuardedBuffer;
using testing::SeededRng;

std::int64_t output_extent(const ConvShape& s, int a, std::int64_t pad_end) {
  const std::int64_t reach = (s.kernel[a] - 1) * s.dilation[a] + 1;
  return s.transposed ? (s.in[a] - 1) * s.stride[a] + reach - s.pad_begin[a] - pad_end
                      : (s.in[a] + s.pad_begin[a] + pad_end - reach) / s.stride[a] + 1;
}

ConvShape random_shape(SeededRng& rng) {
  ConvShape s;
  s.transposed = rng.integer(0, 2) == 0;
  s.groups = rng.integer(0, 2) == 0 ? rng.integer(2, 4) : 1;
  s.batch = rng.integer(1, 2);
  s.in_channels = s.groups * rng.integer(1, 9);
  s.out_channels = s.groups * rng.integer(1, 40);
  for (int a = rng.integer(0, 9) == 0 ? 0 : static_cast<int>(rng.integer(1, 2)); a < 3; ++a) {
    s.kernel[a] = rng.integer(1, 4);
    s.stride[a] = rng.integer(1, 3);
    s.dilation[a] = rng.integer(0, 2) == 0 ? 2 : 1;
    s.pad_begin[a] = rng.integer(s.kernel[a] > 1 ? 0 : -1, 2);
    s.in[a] = rng.integer(7, a == 2 ? 30 : 9);
    s.out[a] = output_extent(s, a, rng.integer(0, 2));
  }
  return s;
}

struct Conv {
  Conv(SeededRng& rng, const ConvShape& s)
      : x(static_cast<std::size_t>(s.batch * s.in[0] * s.in[1] * s.in[2] * s.in_channels)),
        w(static_cast<std::size_t>(s.out_channels * (s.in_channels / s.groups) * conv_taps(s))),
        y(static_cast<std::size_t>(conv_rows(s) * s.out_channels)),
        residual(y.size()) {
    fill_wild(rng, x.span());
    rng.fill_normal(w);
    rng.fill_normal(residual.span());
    const std::size_t n = static_cast<std::size_t>(s.out_channels / s.groups);
    const std::size_t c = static_cast<std::size_t>(s.in_channels / s.groups);
    const std::size_t taps = static_cast<std::size_t>(conv_taps(s)),
                      groups = static_cast<std::size_t>(s.groups);
    packed = allocate_aligned(packed_f32_size(n, c * taps, groups) * sizeof(float));
    pack_conv_f32(s.transposed ? conv_transpose_weights(w.data(), n, c, taps, groups)
                               : conv_weights(w.data(), n, c, taps, groups),
                  reinterpret_cast<float*>(packed.get()));
    scratch = allocate_aligned(conv_f32_scratch_bytes(s));
    args.shape = s;
    args.x = x.data();
    args.x_stride = static_cast<std::size_t>(s.in_channels);
    args.w = reinterpret_cast<const float*>(packed.get());
    args.scratch = scratch.get();
    args.row_end = static_cast<std::size_t>(conv_rows(s));
    args.panel_end = conv_f32_panels(s);
    args.epilogue.y = y.data();
    args.epilogue.y_stride = static_cast<std::size_t>(s.out_channels);
    args.epilogue.residual_kind = ResidualKind::f32;
    args.epilogue.residual = residual.data();
    args.epilogue.residual_stride = args.epilogue.y_stride;
  }
  std::vector<float> run(conv_f32_fn* kernel) {
    for (float& v : y.span()) v = -77;
    kernel(args);
    return {y.data(), y.data() + y.size()};
  }

  GuardedBuffer<float> x;
  std::vector<float> w;
  GuardedBuffer<float> y, residual;
  AlignedBytes packed, scratch;
  ConvF32Args args;
};

class ConvF32Test : public TargetTest {};

TEST_P(ConvF32Test, GivesTheBitsOfTheReference) {
  SeededRng rng;
  for (int i = 0; i < 150; ++i) {
    const ConvShape s = random_shape(rng);
    if (s.out[0] < 1 || s.out[1] < 1 || s.out[2] < 1) continue;
    SCOPED_TRACE(::testing::Message() << "shape " << i);
    Conv c(rng, s);
    const auto want = c.run(reference::conv_f32);
    ASSERT_TRUE(same_bits(c.run(kernels().conv_f32), want));
  }
}

TEST_P(ConvF32Test, PartsMakeTheWhole) {
  SeededRng rng;
  for (bool transposed : {false, true}) {
    ConvShape s;
    s.transposed = transposed;
    s.groups = 2;
    s.in_channels = 6;
    s.out_channels = 100;
    s.in[1] = 6;
    s.in[2] = 9;
    s.kernel[1] = s.kernel[2] = 3;
    s.stride[1] = s.stride[2] = 2;
    s.pad_begin[1] = s.pad_begin[2] = 1;
    for (int a : {1, 2}) s.out[a] = output_extent(s, a, 1);
    Conv c(rng, s);
    const auto want = c.run(reference::conv_f32);
    for (float& v : c.y.span()) v = -77;
    const std::size_t rows = c.args.row_end, panels = c.args.panel_end;
    for (std::size_t r = 0; r < rows; r += 7)
      for (std::size_t p = 0; p < panels; p += 3) {
        c.args.row_begin = r;
        c.args.row_end = std::min(rows, r + 7);
        c.args.panel_begin = p;
        c.args.panel_end = std::min(panels, p + 3);
        kernels().conv_f32(c.args);
      }
    EXPECT_TRUE(same_bits(c.y.span(), want));
  }
}

TEST_P(ConvF32Test, DeepKernelsAndPointwiseOnes) {
  SeededRng rng;
  for (std::int64_t channels : {70, 300})
    for (std::int64_t kernel : {1, 3}) {
      ConvShape s;
      s.in_channels = channels;
      s.out_channels = 20;
      s.in[1] = s.in[2] = s.out[1] = s.out[2] = 5;
      s.kernel[1] = s.kernel[2] = kernel;
      s.pad_begin[1] = s.pad_begin[2] = kernel / 2;
      Conv c(rng, s);
      const auto want = c.run(reference::conv_f32);
      EXPECT_TRUE(same_bits(c.run(kernels().conv_f32), want)) << channels << " " << kernel;
    }
}

// Groups of few channels are computed several at a time, whatever part is asked for.
TEST_P(ConvF32Test, GroupsOfFourAndEightChannels) {
  SeededRng rng;
  for (std::int64_t channels : {4, 8})
    for (std::int64_t stride : {1, 2})
      for (bool transposed : {false, true}) {
        ConvShape s;
        s.transposed = transposed;
        s.groups = 7;
        s.in_channels = s.out_channels = 7 * channels;
        s.in[1] = 6;
        s.in[2] = 31;
        for (int a : {1, 2}) {
          s.kernel[a] = 3;
          s.stride[a] = stride;
          s.pad_begin[a] = 1;
          s.out[a] = output_extent(s, a, 1);
        }
        Conv c(rng, s);
        const auto want = c.run(reference::conv_f32);
        EXPECT_TRUE(same_bits(c.run(kernels().conv_f32), want)) << channels << " " << stride;
        for (float& v : c.y.span()) v = -77;
        for (std::size_t p : {0, 1, 4}) {
          c.args.panel_begin = p;
          c.args.panel_end = p == 0 ? 1 : p == 1 ? 4 : 7;
          kernels().conv_f32(c.args);
        }
        EXPECT_TRUE(same_bits(c.y.span(), want)) << channels << " in parts";
      }
}

// Against the definition of ONNX in double: outputs scattered for ConvTranspose, which the kernel
// gathers.
TEST(ConvF32Reference, ScatteredAndGatheredTransposedAgree) {
  SeededRng rng;
  ConvShape s;
  s.transposed = true;
  s.groups = 2;
  s.in_channels = 4;
  s.out_channels = 6;
  s.in[1] = 3, s.in[2] = 5;
  s.kernel[1] = 3, s.kernel[2] = 4;
  s.stride[1] = 2, s.stride[2] = 3;
  s.dilation[1] = 2;
  s.pad_begin[1] = 1, s.pad_begin[2] = 0;
  for (int a : {1, 2}) s.out[a] = output_extent(s, a, 0);
  Conv c(rng, s);
  rng.fill_normal(c.x.span());
  c.args.epilogue.residual_kind = ResidualKind::none;
  const auto got = c.run(reference::conv_f32);
  std::vector<double> want(got.size());
  for (std::int64_t h = 0; h < 3; ++h)
    for (std::int64_t w = 0; w < 5; ++w)
      for (std::int64_t i = 0; i < 4; ++i)
        for (std::int64_t j = 0; j < 3; ++j)
          for (std::int64_t kh = 0; kh < 3; ++kh)
            for (std::int64_t kw = 0; kw < 4; ++kw) {
              const std::int64_t oh = h * 2 - 1 + kh * 2, ow = w * 3 + kw, o = i / 2 * 3 + j;
              if (oh < 0 || oh >= s.out[1] || ow >= s.out[2]) continue;
              want[static_cast<std::size_t>((oh * s.out[2] + ow) * 6 + o)] +=
                  double(c.x[static_cast<std::size_t>((h * 5 + w) * 4 + i)]) *
                  c.w[static_cast<std::size_t>(((i * 3 + j) * 3 + kh) * 4 + kw)];
            }
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5);
}

FOLD8_FOR_ALL_TARGETS(ConvF32Test);

}  // namespace
}  // namespace fold8::kernels
