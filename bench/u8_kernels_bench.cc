// The u8 kernels around the matrix products, one thread: depthwise INT8 next to own f32 and oneDNN.
// What is compared runs in turns in one process, so that a busy machine slows all alike; printed
// are best times and ratios. FOLD8_TARGET chooses the target, ONEDNN_MAX_CPU_ISA the peer's
// instruction set; run with OMP_NUM_THREADS=1.
//   u8_kernels_bench [FILTER [ROUNDS]]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/int8_onednn.h"
#ifdef FOLD8_BENCH_ONEDNN
#include "bench/onednn_f32_peer.h"
#endif
#include "runtime/core/aligned.h"
#include "runtime/kernels/kernel_table.h"

namespace fold8::bench {
namespace {

using kernels::ConvShape;

struct Entry {
  std::string name;
  std::function<void()> run;
  double best = 1e9;
};

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Best times of the entries, a batch of calls each in turn.
void race(std::vector<Entry>& entries, int rounds) {
  std::vector<int> calls;
  for (Entry& e : entries) {
    e.run();
    const double begin = seconds();
    e.run();
    calls.push_back(std::clamp(static_cast<int>(2e-4 / (seconds() - begin)), 1, 1000));
  }
  for (int r = 0; r < rounds; ++r)
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const double begin = seconds();
      for (int k = 0; k < calls[i]; ++k) entries[i].run();
      entries[i].best = std::min(entries[i].best, (seconds() - begin) / calls[i]);
    }
}

template <class T>
struct Array {
  AlignedBytes bytes;
  T* data;
  explicit Array(std::size_t n, int step = 0) : bytes(allocate_aligned(n * sizeof(T) + 64)) {
    data = reinterpret_cast<T*>(bytes.get());
    for (std::size_t i = 0; i < n; ++i) data[i] = static_cast<T>(static_cast<int>(i) * step);
  }
};

struct Layer {
  const char* name;
  std::int64_t channels, height, width, kernel, stride_h, stride_w;
};
constexpr Layer kLayers[] = {
    {"3x3_16@112", 16, 112, 112, 3, 1, 1},      {"3x3_32@112", 32, 112, 112, 3, 1, 1},
    {"3x3s2_32@112", 32, 112, 112, 3, 2, 2},    {"3x3s2_64@112", 64, 112, 112, 3, 2, 2},
    {"3x3s2_96@112", 96, 112, 112, 3, 2, 2},    {"3x3_144@56", 144, 56, 56, 3, 1, 1},
    {"3x3s2_144@56", 144, 56, 56, 3, 2, 2},     {"3x3_128@56", 128, 56, 56, 3, 1, 1},
    {"3x3_192@28", 192, 28, 28, 3, 1, 1},       {"3x3_384@14", 384, 14, 14, 3, 1, 1},
    {"3x3s2_576@14", 576, 14, 14, 3, 2, 2},     {"3x3_960@7", 960, 7, 7, 3, 1, 1},
    {"5x5_120@12x80", 120, 12, 80, 5, 1, 1},    {"5x5_256@14", 256, 14, 14, 5, 1, 1},
    {"5x5_960@7", 960, 7, 7, 5, 1, 1},          {"3x3s21_48@24x160", 48, 24, 160, 3, 2, 1},
    {"3x3s21_56@24x160", 56, 24, 160, 3, 2, 1}, {"3x3_8@24x80", 8, 24, 80, 3, 1, 1},
    {"5x5s12_72@48x40", 72, 48, 40, 5, 1, 2},
};

ConvShape shape_of(const Layer& l) {
  ConvShape s;
  s.in_channels = s.out_channels = s.groups = l.channels;
  s.in[1] = l.height, s.in[2] = l.width;
  s.stride[1] = l.stride_h, s.stride[2] = l.stride_w;
  for (int a = 1; a < 3; ++a) {
    s.kernel[a] = l.kernel, s.pad_begin[a] = l.kernel / 2;
    s.out[a] = (s.in[a] + 2 * (l.kernel / 2) - l.kernel) / s.stride[a] + 1;
  }
  return s;
}

struct Buffers {
  explicit Buffers(const ConvShape& s)
      : rows(static_cast<std::size_t>(kernels::conv_rows(s))),
        channels(static_cast<std::size_t>(s.out_channels)),
        in(static_cast<std::size_t>(s.in[1] * s.in[2]) * channels),
        taps(static_cast<std::size_t>(kernels::conv_taps(s))),
        x(in, 37),
        w(channels * taps, 11),
        y(rows * channels),
        packed(kernels::conv_s8_packed_bytes(s)),
        scratch(kernels::conv_u8s8_scratch_bytes(s)),
        multiplier(channels + 16),
        offset(channels + 16),
        xf(in, 0),
        wf(kernels::packed_depthwise_f32_size(channels, taps)),
        yf(rows * channels) {
    for (std::size_t c = 0; c < channels; ++c) multiplier.data[c] = 1e-4f;
    for (std::size_t i = 0; i < in; ++i) xf.data[i] = static_cast<float>(i % 7);
    kernels::pack_conv_s8(s, w.data, packed.data);
  }
  std::size_t rows, channels, in, taps;
  Array<std::uint8_t> x;
  Array<std::int8_t> w;
  Array<std::uint8_t> y;
  Array<std::int8_t> packed;
  Array<std::uint8_t> scratch;
  Array<float> multiplier, offset, xf, wf, yf;
};

kernels::ConvU8S8Args int8_args(const ConvShape& s, Buffers& b, bool hard_swish) {
  kernels::ConvU8S8Args a;
  a.shape = s;
  a.x = b.x.data;
  a.x_zero_point = 113;
  a.w = b.packed.data;
  kernels::Epilogue& e = a.epilogue;
  e.multiplier = b.multiplier.data;
  e.offset = b.offset.data;
  e.activation = hard_swish ? Activation::hard_swish : Activation::clip;
  e.a = hard_swish ? 1.0f / 6 : 0.0f;
  e.b = hard_swish ? 0.5f : 1e30f;
  e.y_divisor = hard_swish ? 0.1f : 0.0f;
  e.output_kind = kernels::OutputKind::u8;
  e.y = b.y.data;
  e.y_stride = b.channels;
  a.scratch = b.scratch.data;
  a.row_end = kernels::conv_rows(s);
  return a;
}

kernels::DepthwiseF32Args f32_args(const ConvShape& s, Buffers& b) {
  kernels::DepthwiseF32Args a;
  a.shape = s;
  a.x = b.xf.data;
  a.x_stride = b.channels;
  a.w = b.wf.data;
  a.epilogue.y = b.yf.data;
  a.epilogue.y_stride = b.channels;
  a.row_end = b.rows;
  return a;
}

// GMAC/s of each, and our INT8 against the others: > 1 is faster.
void depthwise(const kernels::KernelTable& k, const Layer& l, int rounds) {
  const ConvShape s = shape_of(l);
  Buffers b(s);
  const auto int8 = int8_args(s, b, false), swish = int8_args(s, b, true);
  const auto f32 = f32_args(s, b);
  std::vector<Entry> entries = {{"int8", [&] { k.depthwise_u8s8(int8); }},
                                {"hswish", [&] { k.depthwise_u8s8(swish); }},
                                {"f32", [&] { k.depthwise_f32(f32); }}};
#ifdef FOLD8_BENCH_ONEDNN
  OnednnPeer peer;
  peer.convolution(s);
  entries.push_back({"dnnl_int8", onednn_conv(s)});
  entries.push_back({"dnnl_f32", [&] { peer.run(); }});
#endif
  race(entries, rounds);
  const double gmacs =
      static_cast<double>(kernels::conv_rows(s) * kernels::conv_taps(s) * l.channels) * 1e-9;
  std::printf("%-18s", l.name);
  for (const Entry& e : entries)
    std::printf("  %s %6.1f us %5.1f G", e.name.c_str(), e.best * 1e6, gmacs / e.best);
  for (std::size_t i = 2; i < entries.size(); ++i)
    std::printf("  x%s %.2f", entries[i].name.c_str(), entries[i].best / entries[0].best);
  std::printf("\n");
}

}  // namespace
}  // namespace fold8::bench

int main(int argc, char** argv) {
  const auto chosen = fold8::kernels::select_target();
  if (!chosen.ok()) {
    std::fprintf(stderr, "%s\n", chosen.error().message.c_str());
    return 1;
  }
  const std::string filter = argc > 1 ? argv[1] : "";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 200;
  std::printf("target %s\n", std::string((*chosen)->name).c_str());
  for (const auto& layer : fold8::bench::kLayers)
    if (std::string(layer.name).find(filter) != std::string::npos)
      fold8::bench::depthwise(*(*chosen)->kernels, layer, rounds);
}
