#include "bench/int8_cases.h"

#include <memory>

#include "runtime/core/aligned.h"

namespace fold8::bench {

namespace {

using kernels::ConvShape;

template <class T>
T* fill(AlignedBytes& bytes, std::size_t count, int step) {
  bytes = allocate_aligned(count * sizeof(T));
  T* p = reinterpret_cast<T*>(bytes.get());
  for (std::size_t i = 0; i < count; ++i) p[i] = static_cast<T>(static_cast<int>(i) * step);
  return p;
}

// The memory of one layer.
struct Arrays {
  AlignedBytes x, w, packed, scratch, multiplier, offset, residual, y;

  kernels::Epilogue epilogue(std::size_t rows, std::size_t columns, Ending ending) {
    kernels::Epilogue e;
    float* m = fill<float>(multiplier, columns, 0);
    for (std::size_t i = 0; i < columns; ++i) m[i] = 1e-4f;
    e.multiplier = m;
    e.offset = fill<float>(offset, columns, 0);
    e.output_kind = ending == Ending::f32 ? kernels::OutputKind::f32 : kernels::OutputKind::u8;
    e.y = fill<float>(y, rows * columns, 0);
    e.y_stride = columns;
    if (ending == Ending::u8_hard_swish) {
      e.activation = Activation::hard_swish;
      e.a = 1.0f / 6, e.b = 0.5f, e.y_divisor = 0.1f;
    } else if (ending != Ending::f32) {
      e.activation = Activation::clip;
      e.a = 0, e.b = 1e30f;
    }
    if (ending == Ending::u8_residual) {
      e.residual_kind = kernels::ResidualKind::u8;
      e.residual = fill<std::uint8_t>(residual, rows * columns, 3);
      e.residual_stride = columns;
      e.residual_scale = 0.5f;
    }
    return e;
  }
};

}  // namespace

const std::vector<MatrixCase>& matrix_cases() {
  static const std::vector<MatrixCase> cases = {
      {1, 768, 768},   {1, 3072, 768},   {1, 4096, 4096},  {2, 768, 768},    {4, 768, 768},
      {7, 768, 768},   {8, 768, 768},    {12, 768, 768},   {16, 384, 384},   {16, 1536, 384},
      {128, 768, 768}, {128, 3072, 768}, {128, 768, 3072}, {256, 1536, 384}, {512, 384, 384},
      {12544, 64, 64}, {3136, 256, 64},
  };
  return cases;
}

const std::vector<LayerCase>& layer_cases() {
  static const std::vector<LayerCase> cases = {
      {"stem7x7s2_3-64_224", 3, 64, 224, 224, 7, 2},
      {"stem3x3s2_3-16_224", 3, 16, 224, 224, 3, 2},
      {"stem3x3s2_3-32_224", 3, 32, 224, 224, 3, 2},
      {"1x1_64-64_56", 64, 64, 56, 56, 1, 1},
      {"1x1_64-256_56", 64, 256, 56, 56, 1, 1},
      {"1x1_256-64_56", 256, 64, 56, 56, 1, 1},
      {"1x1s2_256-512_56", 256, 512, 56, 56, 1, 2},
      {"3x3_64_56", 64, 64, 56, 56, 3, 1},
      {"3x3_128_28", 128, 128, 28, 28, 3, 1},
      {"3x3s2_128_56", 128, 128, 56, 56, 3, 2},
      {"3x3_256_14", 256, 256, 14, 14, 3, 1},
      {"3x3_512_7", 512, 512, 7, 7, 3, 1},
      {"1x1_512-128_28", 512, 128, 28, 28, 1, 1},
      {"1x1_1024-256_14", 1024, 256, 14, 14, 1, 1},
      {"1x1_2048-512_7", 2048, 512, 7, 7, 1, 1},
      {"ocr3x3_64-128_16x160", 64, 128, 16, 160, 3, 1},
      {"ocr3x3_24-24_160", 24, 24, 160, 160, 3, 1},
      {"ocr3x3_24-32_160", 24, 32, 160, 160, 3, 1},
      {"ocr3x3_96-24_176x240", 96, 24, 176, 240, 3, 1},
      {"pw_16-16_112", 16, 16, 112, 112, 1, 1},
      {"pw_16-32_112", 16, 32, 112, 112, 1, 1},
      {"pw_16-96_112", 16, 96, 112, 112, 1, 1},
      {"pw_32-64_56", 32, 64, 56, 56, 1, 1},
      {"pw_96-24_56", 96, 24, 56, 56, 1, 1},
      {"pw_24-144_56", 24, 144, 56, 56, 1, 1},
      {"pw_144-24_56", 144, 24, 56, 56, 1, 1},
      {"pw_72-24_56", 72, 24, 56, 56, 1, 1},
      {"pw_384-64_14", 384, 64, 14, 14, 1, 1},
      {"pw_160-960_7", 160, 960, 7, 7, 1, 1},
      {"up2x2s2_24-24_88x120", 24, 24, 88, 120, 2, 2, 1, true},
      {"up2x2s2_24-1_176x240", 24, 1, 176, 240, 2, 2, 1, true},
      {"up3x3s2_64-32_56", 64, 32, 56, 56, 3, 2, 1, true},
      {"dw3x3_16_112", 16, 16, 112, 112, 3, 1, 16},
      {"dw3x3s2_32_112", 32, 32, 112, 112, 3, 2, 32},
      {"dw3x3s2_96_112", 96, 96, 112, 112, 3, 2, 96},
      {"dw3x3_144_56", 144, 144, 56, 56, 3, 1, 144},
      {"dw3x3_384_14", 384, 384, 14, 14, 3, 1, 384},
      {"dw5x5_120_28", 120, 120, 28, 28, 5, 1, 120},
      {"dw5x5_120_12x80", 120, 120, 12, 80, 5, 1, 120},
      {"dw5x5_960_7", 960, 960, 7, 7, 5, 1, 960},
  };
  return cases;
}

ConvShape shape_of(const LayerCase& l) {
  ConvShape s;
  s.in_channels = l.in_channels, s.out_channels = l.out_channels, s.groups = l.groups;
  s.transposed = l.transposed;
  s.in[1] = l.height, s.in[2] = l.width;
  const std::int64_t pad = (l.kernel - 1) / 2;
  for (int a = 1; a < 3; ++a) {
    s.kernel[a] = l.kernel, s.stride[a] = l.stride, s.pad_begin[a] = pad;
    s.out[a] = l.transposed ? s.in[a] * l.stride
                            : (s.in[a] + 2 * (l.kernel / 2) - l.kernel) / l.stride + 1;
  }
  return s;
}

std::function<void()> own_matmul(const kernels::Target& target, const MatrixCase& c,
                                 Ending ending) {
  const auto arrays = std::make_shared<Arrays>();
  const auto m = static_cast<std::size_t>(c.m), n = static_cast<std::size_t>(c.n),
             k = static_cast<std::size_t>(c.k);
  kernels::GemmU8S8Args a;
  a.m = a.m_end = m, a.n = n, a.k = k;
  a.panel_end = kernels::s8_panels(n);
  a.x = fill<std::uint8_t>(arrays->x, m * k, 37);
  a.x_stride = k;
  a.x_zero_point = 113;
  auto* packed = fill<std::int8_t>(arrays->packed, kernels::packed_s8_bytes(n, k), 0);
  kernels::pack_s8(fill<std::int8_t>(arrays->w, n * k, 11), k, n, k, packed);
  a.w = packed;
  a.epilogue = arrays->epilogue(m, n, ending);
  a.scratch = fill<std::uint8_t>(arrays->scratch, kernels::gemm_u8s8_scratch_bytes(k), 0);
  return [arrays, a, kernel = target.kernels->gemm_u8s8] { kernel(a); };
}

std::function<void()> own_conv(const kernels::Target& target, const ConvShape& s, Ending ending) {
  const auto arrays = std::make_shared<Arrays>();
  kernels::ConvU8S8Args a;
  a.shape = s;
  const std::int64_t positions = s.batch * s.in[0] * s.in[1] * s.in[2],
                     weights = kernels::conv_taps(s) * s.out_channels * s.in_channels / s.groups;
  a.x = fill<std::uint8_t>(arrays->x, static_cast<std::size_t>(positions * s.in_channels), 37);
  a.x_zero_point = 113;
  auto* packed = fill<std::int8_t>(arrays->packed, kernels::conv_s8_packed_bytes(s), 0);
  kernels::pack_conv_s8(s, fill<std::int8_t>(arrays->w, static_cast<std::size_t>(weights), 11),
                        packed);
  a.w = packed;
  a.epilogue = arrays->epilogue(static_cast<std::size_t>(kernels::conv_rows(s)),
                                static_cast<std::size_t>(s.out_channels), ending);
  a.scratch = fill<std::uint8_t>(arrays->scratch, kernels::conv_u8s8_scratch_bytes(s), 0);
  a.row_end = kernels::conv_rows(s);
  const auto kernel =
      kernels::conv_is_depthwise(s) ? target.kernels->depthwise_u8s8 : target.kernels->conv_u8s8;
  return [arrays, a, kernel] { kernel(a); };
}

}  // namespace fold8::bench
