// INT8 matrix product and convolutions, one thread: GMAC/s and percent of the peak measured in the
// same run, beside oneDNN where it is installed. FOLD8_TARGET chooses the target; run with
// OMP_NUM_THREADS=1 for a fair yardstick.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <string>
#include <vector>

#include "bench/int8_onednn.h"
#include "bench/int8_peak.h"
#include "runtime/core/aligned.h"
#include "runtime/kernels/kernel_table.h"

namespace fold8::bench {
namespace {

using kernels::ConvShape;
using kernels::GemmU8S8Args;

const kernels::Target* target;
double peak;

void report(benchmark::State& state, double macs) {
  using benchmark::Counter;
  state.counters["GMAC/s"] = Counter(macs * 1e-9, Counter::kIsIterationInvariantRate);
  state.counters["%peak"] = Counter(macs * 100 / peak, Counter::kIsIterationInvariantRate);
}

template <class T>
T* fill(AlignedBytes& bytes, std::size_t count, int step) {
  bytes = allocate_aligned(count * sizeof(T));
  T* p = reinterpret_cast<T*>(bytes.get());
  for (std::size_t i = 0; i < count; ++i) p[i] = static_cast<T>(static_cast<int>(i) * step);
  return p;
}

struct Parameters {
  AlignedBytes multiplier, offset, y;

  // u8 out with ReLU, as inside a network.
  kernels::Epilogue epilogue(std::size_t rows, std::size_t cols) {
    kernels::Epilogue e;
    float* m = fill<float>(multiplier, cols, 0);
    for (std::size_t i = 0; i < cols; ++i) m[i] = 1e-4f;
    e.multiplier = m;
    e.offset = fill<float>(offset, cols, 0);
    e.activation = Activation::clip;
    e.a = 0, e.b = 1e30f;
    e.output_kind = kernels::OutputKind::u8;
    e.y = fill<std::uint8_t>(y, rows * cols, 0);
    e.y_stride = cols;
    return e;
  }
};

enum class Out { u8, f32, hard_swish };

void gemm(benchmark::State& state, std::size_t m, std::size_t n, std::size_t k, Out out) {
  AlignedBytes x, w, packed, scratch, wide;
  Parameters p;
  GemmU8S8Args a;
  a.m = a.m_end = m, a.n = n, a.k = k;
  a.panel_end = kernels::s8_panels(n);
  a.x = fill<std::uint8_t>(x, m * k, 37);
  a.x_stride = k;
  a.x_zero_point = 113;
  std::int8_t* to = fill<std::int8_t>(packed, kernels::packed_s8_bytes(n, k), 0);
  kernels::pack_s8(fill<std::int8_t>(w, n * k, 11), k, n, k, to);
  a.w = to;
  a.epilogue = p.epilogue(m, n);
  if (out == Out::f32) {
    a.epilogue.output_kind = kernels::OutputKind::f32;
    a.epilogue.activation = Activation::none;
    a.epilogue.y = fill<float>(wide, m * n, 0);
  } else if (out == Out::hard_swish) {
    a.epilogue.activation = Activation::hard_swish;
    a.epilogue.a = 1.0f / 6, a.epilogue.b = 0.5f, a.epilogue.y_divisor = 0.1f;
  }
  a.scratch = fill<std::uint8_t>(scratch, kernels::gemm_u8s8_scratch_bytes(k), 0);
  for (auto _ : state) target->kernels->gemm_u8s8(a);
  report(state, static_cast<double>(m) * static_cast<double>(n * k));
}

double conv_macs(const ConvShape& s) {
  return static_cast<double>(kernels::conv_rows(s) * kernels::conv_taps(s)) *
         static_cast<double>(s.out_channels * s.in_channels / s.groups);
}

void conv(benchmark::State& state, const ConvShape& s, Out out) {
  AlignedBytes x, w, packed, scratch;
  Parameters p;
  kernels::ConvU8S8Args a;
  a.shape = s;
  a.x = fill<std::uint8_t>(
      x, static_cast<std::size_t>(s.batch * s.in[0] * s.in[1] * s.in[2] * s.in_channels), 37);
  a.x_zero_point = 113;
  std::int8_t* to = fill<std::int8_t>(packed, kernels::conv_s8_packed_bytes(s), 0);
  kernels::pack_conv_s8(
      s,
      fill<std::int8_t>(w,
                        static_cast<std::size_t>(kernels::conv_taps(s) * s.out_channels *
                                                 s.in_channels / s.groups),
                        11),
      to);
  a.w = to;
  a.epilogue = p.epilogue(static_cast<std::size_t>(kernels::conv_rows(s)),
                          static_cast<std::size_t>(s.out_channels));
  if (out == Out::hard_swish) {
    a.epilogue.activation = Activation::hard_swish;
    a.epilogue.a = 1.0f / 6, a.epilogue.b = 0.5f, a.epilogue.y_divisor = 0.1f;
  }
  a.scratch = fill<std::uint8_t>(scratch, kernels::conv_u8s8_scratch_bytes(s), 0);
  a.row_end = kernels::conv_rows(s);
  const auto kernel =
      kernels::conv_is_depthwise(s) ? target->kernels->depthwise_u8s8 : target->kernels->conv_u8s8;
  for (auto _ : state) kernel(a);
  report(state, conv_macs(s));
}

void yardstick(const std::string& name, std::function<void()> run, double macs) {
  if (!run) return;
  benchmark::RegisterBenchmark(("onednn/" + name).c_str(), [run, macs](benchmark::State& state) {
    for (auto _ : state) run();
    report(state, macs);
  });
}

struct Layer {
  const char* name;
  std::int64_t in_channels, out_channels, height, width, kernel, stride, groups;
};

constexpr Layer kLayers[] = {
    {"stem7x7s2_3-64_224", 3, 64, 224, 224, 7, 2, 1},
    {"stem3x3s2_3-16_224", 3, 16, 224, 224, 3, 2, 1},
    {"1x1_64-256_56", 64, 256, 56, 56, 1, 1, 1},
    {"1x1_256-64_56", 256, 64, 56, 56, 1, 1, 1},
    {"1x1s2_256-512_56", 256, 512, 56, 56, 1, 2, 1},
    {"3x3_64_56", 64, 64, 56, 56, 3, 1, 1},
    {"3x3_128_28", 128, 128, 28, 28, 3, 1, 1},
    {"3x3_256_14", 256, 256, 14, 14, 3, 1, 1},
    {"3x3_512_7", 512, 512, 7, 7, 3, 1, 1},
    {"1x1_1024-256_14", 1024, 256, 14, 14, 1, 1, 1},
    {"ocr3x3_64-128_16x160", 64, 128, 16, 160, 3, 1, 1},
    {"ocr3x3_24-24_160", 24, 24, 160, 160, 3, 1, 1},
    {"pw_16-32_112", 16, 32, 112, 112, 1, 1, 1},
    {"pw_32-64_56", 32, 64, 56, 56, 1, 1, 1},
    {"pw_24-144_56", 24, 144, 56, 56, 1, 1, 1},
    {"pw_72-24_56", 72, 24, 56, 56, 1, 1, 1},
    {"pw_384-64_14", 384, 64, 14, 14, 1, 1, 1},
    {"pw_160-960_7", 160, 960, 7, 7, 1, 1, 1},
    {"dw3x3_16_112", 16, 16, 112, 112, 3, 1, 16},
    {"dw3x3s2_32_112", 32, 32, 112, 112, 3, 2, 32},
    {"dw3x3s2_96_112", 96, 96, 112, 112, 3, 2, 96},
    {"dw3x3_144_56", 144, 144, 56, 56, 3, 1, 144},
    {"dw3x3_384_14", 384, 384, 14, 14, 3, 1, 384},
    {"dw5x5_120_28", 120, 120, 28, 28, 5, 1, 120},
    {"dw5x5_960_7", 960, 960, 7, 7, 5, 1, 960},
};

ConvShape shape_of(const Layer& l) {
  ConvShape s;
  s.in_channels = l.in_channels, s.out_channels = l.out_channels, s.groups = l.groups;
  s.in[1] = l.height, s.in[2] = l.width;
  for (int a = 1; a < 3; ++a) {
    s.kernel[a] = l.kernel, s.stride[a] = l.stride, s.pad_begin[a] = l.kernel / 2;
    s.out[a] = (s.in[a] + 2 * (l.kernel / 2) - l.kernel) / l.stride + 1;
  }
  return s;
}

constexpr std::size_t kProducts[][3] = {
    {1, 768, 768},   {1, 3072, 768},   {1, 4096, 4096},  {2, 768, 768},    {4, 768, 768},
    {7, 768, 768},   {8, 768, 768},    {12, 768, 768},   {16, 384, 384},   {16, 1536, 384},
    {128, 768, 768}, {128, 3072, 768}, {128, 768, 3072}, {256, 1536, 384}, {512, 384, 384},
    {12544, 64, 64}, {3136, 256, 64},
};

void register_all() {
  for (const auto& [m, n, k] : kProducts) {
    const std::string name = std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
    benchmark::RegisterBenchmark(("gemm/" + name).c_str(), gemm, m, n, k, Out::u8);
    benchmark::RegisterBenchmark(("gemm_f32/" + name).c_str(), gemm, m, n, k, Out::f32);
    yardstick("gemm/" + name,
              onednn_matmul(static_cast<std::int64_t>(m), static_cast<std::int64_t>(n),
                            static_cast<std::int64_t>(k)),
              static_cast<double>(m * n * k));
  }
  for (const Layer& l : kLayers) {
    const ConvShape s = shape_of(l);
    benchmark::RegisterBenchmark((std::string("conv/") + l.name).c_str(), conv, s, Out::u8);
    benchmark::RegisterBenchmark((std::string("conv_hswish/") + l.name).c_str(), conv, s,
                                 Out::hard_swish);
    yardstick(std::string("conv/") + l.name, onednn_conv(s), conv_macs(s));
  }
}

}  // namespace
}  // namespace fold8::bench

int main(int argc, char** argv) {
  const auto chosen = fold8::kernels::select_target();
  if (!chosen.ok()) {
    std::fprintf(stderr, "%s\n", chosen.error().message.c_str());
    return 1;
  }
  fold8::bench::target = *chosen;
  fold8::bench::peak = fold8::bench::int8_peak_macs_per_second((*chosen)->name);
  std::printf("target %s, peak %.1f GMAC/s\n", std::string((*chosen)->name).c_str(),
              fold8::bench::peak * 1e-9);
  benchmark::Initialize(&argc, argv);
  fold8::bench::register_all();
  benchmark::RunSpecifiedBenchmarks();
}
