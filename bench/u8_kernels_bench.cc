// The u8 kernels around the matrix products, one thread: depthwise INT8 next to own f32 and oneDNN;
// layouts, elementwise functions and pools by the bytes they move.
// What is compared runs in turns in one process, so that a busy machine slows all alike; printed
// are best times and ratios. FOLD8_TARGET chooses the target, ONEDNN_MAX_CPU_ISA the peer's
// instruction set; run with OMP_NUM_THREADS=1.
//   u8_kernels_bench [FILTER [ROUNDS]]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/int8_onednn.h"
#ifdef FOLD8_BENCH_ONEDNN
#include "bench/onednn_f32_peer.h"
#endif
#include "bench/race.h"
#include "runtime/core/aligned.h"
#include "runtime/kernels/kernel_table.h"

namespace fold8::bench {
namespace {

using kernels::ConvShape;

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
    {"5x5s12_72@48x40", 72, 48, 40, 5, 1, 2},   {"5x5_200@2x96", 200, 2, 96, 5, 1, 1},
    {"5x5_88@3x96", 88, 3, 96, 5, 1, 1},        {"5x5s21_104@3x96", 104, 3, 96, 5, 2, 1},
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

struct Map {
  const char* name;
  std::size_t channels, pixels;
};
constexpr Map kMaps[] = {{"3@224x224", 3, 224 * 224},   {"3@480x640", 3, 480 * 640},
                         {"24@120x160", 24, 120 * 160}, {"96@60x80", 96, 60 * 80},
                         {"32@112x112", 32, 112 * 112}, {"960@7x7", 960, 49}};

// A map's f32 and u8 elements in either order, and one gate a channel.
struct MapData {
  explicit MapData(const Map& m)
      : n(m.channels * m.pixels),
        f(n),
        g(n),
        q(n, 37),
        p(n, 11),
        y(n),
        table(256, 7),
        gate(m.channels + 16) {
    for (std::size_t i = 0; i < n; ++i) f.data[i] = static_cast<float>(i % 251) * 0.013f;
    // No product is half a step, as good as never in networks.
    for (std::size_t c = 0; c < m.channels; ++c)
      gate.data[c] = 0.31f + 0.0037f * static_cast<float>(c % 128);
  }
  std::size_t n;
  Array<float> f, g;
  Array<std::uint8_t> q, p, y, table;
  Array<float> gate;
};

std::vector<Entry> order_entries(const kernels::KernelTable& k, const Map& m, MapData& d) {
  const auto turned = [&k, &m](bool last, std::size_t size, const void* x, void* y) {
    kernels::TransposeArgs a;
    a.plan = last ? kernels::to_channels_last(1, m.channels, m.pixels, size)
                  : kernels::to_channels_first(1, m.channels, m.pixels, size);
    a.x = x, a.y = y, a.end = a.plan.extent[0];
    return [a, kernel = k.transpose] { kernel(a); };
  };
  kernels::QuantizeRelayoutArgs edge{1,      m.channels, m.pixels, d.f.data, d.y.data,
                                     0.013f, 3,          0,        m.pixels};
  return {{"quantize_relayout", [edge, kernel = k.quantize_relayout] { kernel(edge); }, 5},
          {"u8_to_nhwc", turned(true, 1, d.q.data, d.y.data), 2},
          {"u8_to_nchw", turned(false, 1, d.q.data, d.y.data), 2},
          {"f32_to_nhwc", turned(true, 4, d.f.data, d.g.data), 8},
          {"f32_to_nchw", turned(false, 4, d.f.data, d.g.data), 8}};
}

// Two dense operands, or the second one value a channel of a channels-last map.
kernels::BinaryU8Args u8_args(const Map& m, MapData& d, bool gate) {
  kernels::BinaryU8Args a;
  a.kind = gate ? kernels::BinaryU8Kind::mul : kernels::BinaryU8Kind::add;
  a.rank = 2, a.shape[0] = m.pixels, a.shape[1] = m.channels;
  a.a_stride[0] = static_cast<std::ptrdiff_t>(m.channels), a.a_stride[1] = a.b_stride[1] = 1;
  a.b_stride[0] = gate ? 0 : a.a_stride[0];
  a.a = d.q.data, a.b = d.p.data, a.y = d.y.data;
  a.m_a = 0.4f, a.m_b = 0.3f, a.end = d.n;
  return a;
}

// gate: mul by one value a channel; else add of two maps. u8: the first operand and the result.
kernels::BinaryArgs real_args(const Map& m, MapData& d, bool gate, bool u8) {
  kernels::BinaryArgs a;
  a.kind = gate ? kernels::BinaryKind::mul : kernels::BinaryKind::add;
  a.rank = 2, a.shape[0] = m.pixels, a.shape[1] = m.channels;
  a.a.stride[0] = static_cast<std::ptrdiff_t>(m.channels), a.a.stride[1] = a.b.stride[1] = 1;
  a.b.stride[0] = gate ? 0 : a.a.stride[0];
  a.a.f32 = u8 ? nullptr : d.f.data;
  a.a.u8 = u8 ? d.q.data : nullptr;
  a.b.f32 = gate ? d.gate.data : d.f.data;
  a.y = u8 ? nullptr : d.g.data;
  a.q = u8 ? d.y.data : nullptr;
  a.q_scale = 0.05f, a.a.scale = 0.03f, a.end = d.n;
  return a;
}

std::vector<Entry> map_entries(const kernels::KernelTable& k, const Map& m, MapData& d) {
  kernels::AffineArgs affine{m.pixels, m.channels, 1, d.f.data, d.gate.data, d.gate.data};
  affine.q = d.y.data, affine.q_scale = 0.05f;
  kernels::AveragePoolU8Args average;
  average.channels = m.channels, average.x = d.q.data, average.line_end = 1;
  average.window.axis[2].in = average.window.axis[2].kernel = static_cast<std::int64_t>(m.pixels);
  average.output_kind = kernels::OutputKind::f32;
  average.y = d.g.data, average.multipliers = d.f.data;
  kernels::GlobalAverageF32Args global{1, m.pixels, m.channels, d.f.data, d.g.data, 0, m.channels};
  kernels::MapU8Args table{d.n, d.q.data, d.y.data, d.table.data};
  const auto u8_add = u8_args(m, d, false), u8_gate = u8_args(m, d, true);
  const auto add = real_args(m, d, false, false), gate = real_args(m, d, true, false),
             gate_u8 = real_args(m, d, true, true);
  return {{"u8_add", [=, f = k.binary_u8] { f(u8_add); }, 3},
          {"u8_gate", [=, f = k.binary_u8] { f(u8_gate); }, 2},
          {"u8_f32gate", [=, f = k.binary] { f(gate_u8); }, 2},
          {"f32_gate", [=, f = k.binary] { f(gate); }, 8},
          {"f32_add", [=, f = k.binary] { f(add); }, 12},
          {"affine_u8", [=, f = k.affine] { f(affine); }, 5},
          {"average_u8", [=, f = k.average_pool_u8] { f(average); }, 1},
          {"average_f32", [=, f = k.global_average_f32] { f(global); }, 4},
          {"map_u8", [=, f = k.map_u8] { f(table); }, 2}};
}

void maps(const kernels::KernelTable& k, const Map& m, int rounds) {
  MapData d(m);
  for (auto* make : {&order_entries, &map_entries}) {
    std::vector<Entry> entries = make(k, m, d);
    race(entries, rounds);
    std::printf("%-11s", m.name);
    for (const Entry& e : entries)
      std::printf("  %s %.1f us %.1f GB/s", e.name.c_str(), e.best * 1e6,
                  e.bytes * static_cast<double>(d.n) * 1e-9 / e.best);
    std::printf("\n");
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
  const std::string filter = argc > 1 ? argv[1] : "";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 200;
  std::printf("target %s\n", std::string((*chosen)->name).c_str());
  for (const auto& layer : fold8::bench::kLayers)
    if (std::string(layer.name).find(filter) != std::string::npos)
      fold8::bench::depthwise(*(*chosen)->kernels, layer, rounds);
  for (const auto& map : fold8::bench::kMaps)
    if (std::string(map.name).find(filter) != std::string::npos)
      fold8::bench::maps(*(*chosen)->kernels, map, rounds);
}
