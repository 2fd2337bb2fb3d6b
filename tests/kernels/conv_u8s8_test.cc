#include "runtime/kernels/conv_u8s8.h"

#include <gtest/gtest.h>

#include "runtime/kernels/depthwise_u8s8.h"
#include "tests/kernels/int8_cases.h"

namespace fold8::kernels {

static std::ostream& operator<<(std::ostream& out, const ConvShape& s) {
  out << (s.transposed ? "transposed " : "") << "batch " << s.batch << " channels " << s.in_channels
      << ">" << s.out_channels << "/" << s.groups;
  for (int a = 0; a < 3; ++a)
    out << " [" << s.in[a] << ">" << s.out[a] << " k" << s.kernel[a] << " s" << s.stride[a] << " d"
        << s.dilation[a] << " p" << s.pad_begin[a] << "]";
  return out;
}

namespace {

using testing::GuardedBuffer;
using testing::SeededRng;

struct Limits {
  std::int64_t extent, kernel, channels;
};

// Random geometry whose output is not empty; `rank` axes are real.
ConvShape random_shape(SeededRng& rng, int rank, const Limits& most, bool transposed) {
  ConvShape s;
  s.transposed = transposed;
  s.batch = rng.integer(1, 2);
  s.groups = rng.integer(0, 2) ? 1 : rng.integer(2, 3);
  s.in_channels = s.groups * rng.integer(1, most.channels);
  s.out_channels = s.groups * rng.integer(1, most.channels);
  for (int a = 3 - rank; a < 3; ++a) {
    s.kernel[a] = rng.integer(1, most.kernel);
    s.stride[a] = rng.integer(1, 3);
    s.dilation[a] = rng.integer(0, 2) ? 1 : rng.integer(2, 3);
    const std::int64_t span = (s.kernel[a] - 1) * s.dilation[a] + 1;
    s.pad_begin[a] = rng.integer(0, 9) == 0 ? -1 : rng.integer(0, span / 2 + 1);
    s.in[a] = rng.integer(1, most.extent);
    s.out[a] = transposed
                   ? rng.integer(1, (s.in[a] - 1) * s.stride[a] + span + 2)
                   : std::max<std::int64_t>(1, (s.in[a] + 2 * s.pad_begin[a] - span) / s.stride[a] +
                                                   rng.integer(0, 1));
  }
  return s;
}

class Convolution {
 public:
  Convolution(SeededRng& rng, const ConvShape& shape, const EpilogueKind& kind,
              bool w_zero_points = false)
      : s_(shape),
        depth_(conv_taps(shape) * shape.in_channels / shape.groups),
        x_(shape.batch * shape.in[0] * shape.in[1] * shape.in[2] * shape.in_channels),
        w_(shape.out_channels * depth_),
        w_zero_points_(shape.out_channels),
        packed_(guarded_size(conv_s8_packed_bytes(shape))),
        scratch_(guarded_size(conv_u8s8_scratch_bytes(shape))),
        inputs_(rng, kind, conv_rows(shape), shape.out_channels, shape.batch,
                255.0 * 60 * std::sqrt(double(depth_))),
        x_zero_point_(random_zero_point(rng)),
        has_w_zero_points_(w_zero_points) {
    fill_activations(rng, x_.span());
    fill_weights(rng, w_.span());
    rng.fill_integers(w_zero_points_.span(), -128, 127);
    pack_conv_s8(s_, w_.data(), packed_.data());
  }

  ConvU8S8Args args(void* y) {
    ConvU8S8Args a;
    a.shape = s_;
    a.x = x_.data();
    a.x_zero_point = x_zero_point_;
    a.w = packed_.data();
    a.w_zero_points = has_w_zero_points_ ? w_zero_points_.data() : nullptr;
    a.epilogue = inputs_.with_output(y);
    a.scratch = scratch_.data();
    a.row_end = conv_rows(s_);
    return a;
  }

  EpilogueInputs& inputs() { return inputs_; }

  std::vector<std::uint8_t> run(const KernelTable& kernels, std::int64_t split = 0) {
    GuardedBuffer<std::uint8_t> y(inputs_.y_bytes());
    ConvU8S8Args a = args(y.data());
    const auto kernel = conv_is_depthwise(s_) ? kernels.depthwise_u8s8 : kernels.conv_u8s8;
    if (split > 0) {
      a.row_end = split;
      kernel(a);
      a.row_begin = split, a.row_end = conv_rows(s_);
    }
    kernel(a);
    return {y.data(), y.data() + y.size()};
  }

  // An independent computation: scatters every input to every output it reaches.
  std::vector<std::int64_t> naive() const {
    const std::int64_t in_group = s_.in_channels / s_.groups,
                       out_group = s_.out_channels / s_.groups;
    std::vector<std::int64_t> y(conv_rows(s_) * s_.out_channels);
    std::int64_t p[3], t[3];
    for (std::int64_t b = 0; b < s_.batch; ++b)
      for (p[0] = 0; p[0] < s_.in[0]; ++p[0])
        for (p[1] = 0; p[1] < s_.in[1]; ++p[1])
          for (p[2] = 0; p[2] < s_.in[2]; ++p[2])
            for (t[0] = 0; t[0] < s_.kernel[0]; ++t[0])
              for (t[1] = 0; t[1] < s_.kernel[1]; ++t[1])
                for (t[2] = 0; t[2] < s_.kernel[2]; ++t[2]) {
                  const std::int64_t row = row_reached(b, p, t);
                  if (row < 0) continue;
                  const std::uint8_t* x =
                      x_.data() + (((b * s_.in[0] + p[0]) * s_.in[1] + p[1]) * s_.in[2] + p[2]) *
                                      s_.in_channels;
                  const std::int64_t tap = (t[0] * s_.kernel[1] + t[1]) * s_.kernel[2] + t[2];
                  for (std::int64_t o = 0; o < s_.out_channels; ++o)
                    for (std::int64_t c = 0; c < in_group; ++c)
                      y[row * s_.out_channels + o] +=
                          (std::int64_t{x[o / out_group * in_group + c]} - x_zero_point_) *
                          (w_.data()[o * depth_ + tap * in_group + c] -
                           (has_w_zero_points_ ? w_zero_points_.data()[o] : 0));
                }
    return y;
  }

 private:
  std::int64_t row_reached(std::int64_t b, const std::int64_t* p, const std::int64_t* t) const {
    std::int64_t row = b;
    for (int a = 0; a < 3; ++a) {
      std::int64_t o;
      if (s_.transposed) {
        o = p[a] * s_.stride[a] - s_.pad_begin[a] + t[a] * s_.dilation[a];
      } else {
        o = p[a] + s_.pad_begin[a] - t[a] * s_.dilation[a];
        if (o % s_.stride[a] != 0) return -1;
        o /= s_.stride[a];
      }
      if (o < 0 || o >= s_.out[a]) return -1;
      row = row * s_.out[a] + o;
    }
    return row;
  }

  ConvShape s_;
  std::int64_t depth_;
  GuardedBuffer<std::uint8_t> x_;
  GuardedBuffer<std::int8_t> w_;
  GuardedBuffer<std::int32_t> w_zero_points_;
  GuardedBuffer<std::int8_t> packed_;
  GuardedBuffer<std::uint8_t> scratch_;
  EpilogueInputs inputs_;
  std::int32_t x_zero_point_;
  bool has_w_zero_points_;
};

// x and y as the test wants them: sums as int32, rows dense.
void expect_naive(Convolution& c, const ConvShape& s, const std::vector<std::uint8_t>& y,
                  std::size_t stride) {
  const auto want = c.naive();
  for (std::int64_t row = 0; row < conv_rows(s); ++row)
    for (std::int64_t o = 0; o < s.out_channels; ++o) {
      std::int32_t got;
      std::memcpy(&got, y.data() + (row * stride + o) * 4, 4);
      ASSERT_EQ(got, want[row * s.out_channels + o]) << s << " row " << row << " channel " << o;
    }
}

ConvShape depthwise(ConvShape s) {
  s.transposed = false;
  s.groups = s.out_channels = s.in_channels = std::max<std::int64_t>(2, s.in_channels);
  return s;
}

TEST(ConvU8S8, ReferenceIsTheNaiveSum) {
  SeededRng rng;
  for (int i = 0; i < 300; ++i) {
    ConvShape s = random_shape(rng, 1 + i % 3, {5, 4, 5}, i % 2);
    if (i % 4 == 0) s = depthwise(s);
    Convolution c(rng, s, {}, rng.integer(0, 1));
    const KernelTable& kernels = *targets().back().kernels;
    expect_naive(c, s, c.run(kernels), c.args(nullptr).epilogue.y_stride);
  }
}

class ConvU8S8Target : public ::testing::TestWithParam<Target> {
 protected:
  void SetUp() override {
    if (!GetParam().cpu_can_run()) GTEST_SKIP() << "this CPU cannot run " << GetParam().name;
  }
  void expect_reference(Convolution& c, std::int64_t split = 0) {
    ASSERT_EQ(c.run(*GetParam().kernels, split), c.run(*targets().back().kernels));
  }
  void try_shape(SeededRng& rng, const ConvShape& s, const EpilogueKind& kind) {
    SCOPED_TRACE(::testing::Message() << s << " " << kind);
    Convolution c(rng, s, kind, rng.integer(0, 7) == 0);
    expect_reference(c, rng.integer(0, 2) == 0 ? rng.integer(0, conv_rows(s)) : 0);
  }
};

TEST_P(ConvU8S8Target, AnyGeometryAndEpilogueHasTheReferencesBits) {
  SeededRng rng;
  for (int i = 0; i < 400; ++i)
    try_shape(rng, random_shape(rng, 1 + i % 3, {7, 4, 20}, false), random_kind(rng));
}

TEST_P(ConvU8S8Target, AnyTransposedGeometryHasTheReferencesBits) {
  SeededRng rng;
  for (int i = 0; i < 300; ++i)
    try_shape(rng, random_shape(rng, 1 + i % 3, {6, 4, 20}, true), random_kind(rng));
}

TEST_P(ConvU8S8Target, AnyDepthwiseGeometryHasTheReferencesBits) {
  SeededRng rng;
  for (int i = 0; i < 600; ++i) {
    const std::int64_t extent = i % 3 == 2 ? 6 : 20;
    ConvShape s = random_shape(rng, 1 + i % 3, {extent, 6, 40}, false);
    try_shape(rng, depthwise(s), random_kind(rng));
  }
}

// Windows side by side: whole, cut off, with positions behind the input, in a y of any stride.
TEST_P(ConvU8S8Target, TransposedWindowsSideBySideHaveTheReferencesBits) {
  SeededRng rng;
  for (int i = 0; i < 200; ++i) {
    ConvShape s = random_shape(rng, 1 + i % 3, {9, 4, 20}, true);
    s.in_channels /= s.groups, s.out_channels /= s.groups, s.groups = 1;
    s.kernel[2] = s.stride[2] = rng.integer(2, 4);
    s.dilation[2] = 1, s.pad_begin[2] = 0;
    s.out[2] = s.in[2] * s.stride[2] + (rng.integer(0, 1) ? rng.integer(-1, 5) : 0);
    try_shape(rng, s, random_kind(rng));
  }
}

// Wide enough that lines are copied once instead of gathered, and cut anywhere.
TEST_P(ConvU8S8Target, LongLinesHaveTheReferencesBits) {
  SeededRng rng;
  for (int i = 0; i < 150; ++i) {
    const bool transposed = i % 3 == 0;
    ConvShape s = random_shape(rng, 1 + i % 3, {4, 4, 13}, transposed);
    s.in[2] = rng.integer(10, 70);
    s.kernel[2] = rng.integer(2, 5);
    const std::int64_t span = (s.kernel[2] - 1) * s.dilation[2] + 1;
    s.out[2] = transposed ? (s.in[2] - 1) * s.stride[2] + span - 2 * s.pad_begin[2]
                          : (s.in[2] + 2 * s.pad_begin[2] - span) / s.stride[2] + 1;
    if (s.out[2] < 1) continue;
    EpilogueKind kind = random_kind(rng);
    if (i % 2) kind.row_scale = false;
    try_shape(rng, s, kind);
  }
}

// The layers networks are made of, larger than the random ones.
TEST_P(ConvU8S8Target, CommonLayersHaveTheReferencesBits) {
  SeededRng rng;
  EpilogueKind relu;
  relu.output = OutputKind::u8;
  relu.activation = Activation::clip;
  const auto layer = [](std::int64_t c, std::int64_t o, std::int64_t extent, std::int64_t k,
                        std::int64_t stride, std::int64_t groups) {
    ConvShape s;
    s.in_channels = c, s.out_channels = o, s.groups = groups;
    for (int a = 1; a < 3; ++a) {
      s.in[a] = extent + a, s.kernel[a] = k, s.stride[a] = stride, s.pad_begin[a] = k / 2;
      s.out[a] = (s.in[a] + 2 * (k / 2) - k) / stride + 1;
    }
    return s;
  };
  for (const ConvShape& s :
       {layer(3, 16, 30, 7, 2, 1), layer(3, 32, 30, 3, 2, 1), layer(64, 64, 13, 3, 1, 1),
        layer(24, 144, 12, 1, 1, 1), layer(130, 33, 7, 1, 1, 1), layer(64, 128, 11, 1, 2, 1),
        layer(64, 64, 9, 3, 1, 8), layer(96, 96, 23, 3, 2, 96), layer(16, 16, 37, 3, 1, 16),
        layer(32, 32, 37, 3, 2, 32), layer(24, 24, 21, 5, 1, 24), layer(120, 120, 14, 5, 2, 120),
        layer(64, 64, 19, 7, 1, 64), layer(200, 200, 7, 3, 1, 200)}) {
    try_shape(rng, s, relu);
    relu.residual = relu.residual == ResidualKind::none ? ResidualKind::u8 : ResidualKind::none;
  }
}

// Maps of few lines, where much of a kernel is padding, and hard_swish with quotients on halves and
// next to them, or far beyond the codes.
TEST_P(ConvU8S8Target, FlatMapsAndHardSwishHaveTheReferencesBits) {
  SeededRng rng;
  EpilogueKind kind;
  kind.output = OutputKind::u8;
  kind.activation = Activation::hard_swish;
  kind.divisor = true;
  for (int i = 0; i < 160; ++i) {
    ConvShape s;
    s.batch = rng.integer(1, 2);
    s.groups = s.in_channels = s.out_channels = rng.integer(2, 90);
    s.in[1] = rng.integer(1, 5), s.in[2] = rng.integer(1, 60);
    for (int a = 1; a < 3; ++a) {
      s.kernel[a] = rng.integer(2, 7), s.pad_begin[a] = rng.integer(0, s.kernel[a]);
      s.stride[a] = rng.integer(1, 2);
      s.out[a] =
          std::max<std::int64_t>(1, (s.in[a] + 2 * s.pad_begin[a] - s.kernel[a]) / s.stride[a] + 1);
    }
    Convolution c(rng, s, kind);
    const float d = std::ldexp(rng.uniform(1, 2), static_cast<int>(rng.integer(-9, 5)));
    if (i % 4 == 1 || i % 4 == 3) {
      std::fill(c.inputs().multiplier().begin(), c.inputs().multiplier().end(), 0.0f);
      const auto fill = i % 4 == 1 ? fill_next_to_halves : fill_gated_next_to_halves;
      fill(rng, d, c.inputs().offset());
      c.inputs().set_divisor(d);
    } else if (i % 4 == 2) {
      c.inputs().set_divisor(std::ldexp(d, static_cast<int>(rng.integer(-34, 10))));
    }
    SCOPED_TRACE(::testing::Message() << s << " divisor " << d);
    expect_reference(c, i % 2 == 0 ? rng.integer(0, conv_rows(s)) : 0);
  }
}

TEST_P(ConvU8S8Target, AnEmptyPhaseOrKernelGivesTheOffset) {
  SeededRng rng;
  ConvShape s;  // kernel 1, stride 2: three of four positions meet no tap
  s.transposed = true;
  s.in_channels = 5, s.out_channels = 19;
  s.in[1] = s.in[2] = 4;
  s.out[1] = s.out[2] = 8;
  s.stride[1] = s.stride[2] = 2;
  try_shape(rng, s, random_kind(rng));
}

INSTANTIATE_TEST_SUITE_P(Targets, ConvU8S8Target,
                         ::testing::ValuesIn(targets().begin(), targets().end()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace fold8::kernels
