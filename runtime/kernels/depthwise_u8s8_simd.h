// depthwise_u8s8.h for the vector targets. Lines of the output from left to right, in chunks: the
// inputs of a chunk are interleaved once ("entries") and then shared by all outputs and taps that
// meet them.
#pragma once

#include "runtime/kernels/depthwise_prepare_simd.h"
#include "runtime/kernels/depthwise_strip_simd.h"
#include "runtime/kernels/epilogue_shift.h"
#include "runtime/kernels/epilogue_simd.h"

namespace fold8::kernels::simd {

namespace depthwise_detail {

// The sources of one plane and piece of the kernel for a line of outputs.
static inline DepthwiseSources sources(const Call& call, const DepthwiseBlock& b, const Line& line,
                                       std::int64_t plane, std::int64_t piece) {
  const ConvU8S8Args& a = *call.args;
  const ConvShape& s = a.shape;
  DepthwiseSources out;
  out.apart = call.steps.columns ? 0 : s.dilation[2];
  out.in = s.in[2], out.channels = s.in_channels, out.stride = s.stride[2];
  out.fill = static_cast<std::uint8_t>(a.x_zero_point);
  out.end = a.x + s.batch * s.in[0] * s.in[1] * s.in[2] * s.in_channels;
  for (std::int64_t i = 0; i < 4; ++i) {
    const std::int64_t tap = call.steps.columns ? 4 * piece + i : 0;
    const std::int64_t p0 = line.in0 + plane * s.dilation[0], p1 = line.in1 + tap * s.dilation[1];
    const bool inside = p0 >= 0 && p0 < s.in[0] && p1 >= 0 && p1 < s.in[1] && tap < s.kernel[1];
    const std::int64_t position =
        ((line.sample * s.in[0] + p0) * s.in[1] + p1) * s.in[2] + i * out.apart;
    out.inside[i] = inside ? -1 : 0;
    out.from[i] = inside ? a.x + position * s.in_channels + b.first_channel : call.padding;
  }
  return out;
}

// `count` entries at positions at + i * distance.
template <class Arch>
void entries_run(const DepthwiseBlock& b, const DepthwiseSources& s, std::int64_t at,
                 std::int64_t distance, std::int64_t count, std::uint8_t* to) {
  using Engine = typename DepthwiseEngineOf<Arch>::type;
  const std::int64_t end =
      s.in - 3 * s.apart - (b.outputs - 1) * s.stride;  // positions [0, end) read no padding
  const auto reaching = [&](std::int64_t bound) {       // entries before position `bound`
    const std::int64_t n = at >= bound ? 0 : (bound - at + distance - 1) / distance;
    return n < count ? n : count;
  };
  const std::int64_t lead = reaching(0), inner_end = end > 0 ? reaching(end) : lead;
  const auto edges = [&](std::int64_t i, std::int64_t stop) {
    for (; i < stop; ++i)
      Engine::edge_entry(b, s, at + i * distance,
                         to + static_cast<std::size_t>(i) * Engine::kEntryBytes);
  };
  edges(0, lead);
  if (inner_end > lead)
    Engine::inner_entries(b, s, at + lead * distance, distance, inner_end - lead,
                          to + static_cast<std::size_t>(lead) * Engine::kEntryBytes);
  edges(inner_end > lead ? inner_end : lead, count);
}

// Interleaves the inputs of `groups` groups of outputs from output o on.
template <class Arch>
DepthwiseChunk fill_chunk(const Call& call, const DepthwiseBlock& b, const Line& line,
                          std::int64_t o, std::size_t groups, std::uint8_t* entries) {
  using Engine = typename DepthwiseEngineOf<Arch>::type;
  const ConvU8S8Args& a = *call.args;
  const ConvShape& s = a.shape;
  const DepthwiseSteps& steps = call.steps;
  const std::size_t reach = static_cast<std::size_t>(steps.reach),
                    stride = static_cast<std::size_t>(s.stride[2]);
  DepthwiseChunk c{.entries = entries,
                   .rows = static_cast<std::size_t>(steps.planes * steps.pieces),
                   .row_entries = 0,
                   .group_step = stride,
                   .reach = reach,
                   .reach_step = static_cast<std::size_t>(steps.distance)};
  // Neighbouring outputs share entries where that makes fewer of them.
  const std::size_t shared = (groups - 1) * stride + (reach - 1) * c.reach_step + 1;
  const bool share = b.outputs == 1 && shared < groups * reach;
  if (!share) c.group_step = 1, c.reach_step = groups;
  c.row_entries = share ? shared : groups * reach;

  const std::int64_t first = call.w.in_base + o * s.stride[2];
  const std::int64_t group_distance = b.outputs * s.stride[2];
  std::uint8_t* to = entries;
  for (std::int64_t plane = 0; plane < steps.planes; ++plane)
    for (std::int64_t piece = 0; piece < steps.pieces; ++piece) {
      const DepthwiseSources from = sources(call, b, line, plane, piece);
      // Runs of entries at equal distances: one in all, or one for each step.
      const auto run = [&](std::int64_t at, std::int64_t distance, std::size_t count) {
        entries_run<Arch>(b, from, at, distance, static_cast<std::int64_t>(count), to);
        to += count * Engine::kEntryBytes;
      };
      if (share)
        run(first, 1, shared);
      else
        for (std::size_t t = 0; t < reach; ++t)
          run(first + static_cast<std::int64_t>(t) * steps.distance, group_distance, groups);
    }
  return c;
}

// kGroups groups of outputs from group `first` of the chunk; the first output of them is output row
// m, `left` remain.
template <class Arch, int kGroups>
void outputs(const Call& call, const DepthwiseBlock& b, const DepthwiseChunk& c, std::size_t first,
             std::size_t m, std::size_t left, const Epilogue& all) {
  using Engine = typename DepthwiseEngineOf<Arch>::type;
  typename Engine::Vectors acc[kGroups];
  Engine::template sums<kGroups>(c, b.weights, b.init, first, acc);
  const std::size_t per_group = static_cast<std::size_t>(b.outputs);
  if constexpr (Engine::kShortEpilogue) {
    if (call.fast != nullptr) {
      const EpilogueU8 fast = *call.fast;  // a copy that stores to y cannot touch
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) {
        const std::size_t done = static_cast<std::size_t>(g) * per_group, count = left - done;
        Engine::finish(fast, b, m + done, count < per_group ? count : per_group, acc[g]);
      }
      return;
    }
  }
  Epilogue e = all;
  alignas(64) std::int32_t sums[kGroups][Engine::kLanes];
  for (int g = 0; g < kGroups; ++g) Engine::store(acc[g], sums[g]);
  if (const std::int32_t* zero_points = call.args->w_zero_points; zero_points != nullptr) {
    typename Engine::Vectors taps[kGroups];
    Engine::template sums<kGroups>(c, b.taps, b.taps_init, first, taps);
    for (int g = 0; g < kGroups; ++g) {
      alignas(64) std::int32_t x_sums[Engine::kLanes];
      Engine::store(taps[g], x_sums);
      for (std::size_t lane = 0; lane < per_group * b.width; ++lane)
        sums[g][lane] -= zero_points[b.first_channel + lane % b.width] * x_sums[lane];
    }
  }
  if (all.row_scale) e = epilogue_at(all, m, 0), m = 0;
  if (per_group == 1) {
    epilogue_rows<Arch, std::int32_t>(e, m, b.first_channel,
                                      {sums[0], Engine::kLanes, kGroups, b.width});
    return;
  }
  for (std::size_t g = 0; g < kGroups && g * per_group < left; ++g) {
    const std::size_t done = g * per_group,
                      rows = left - done < per_group ? left - done : per_group;
    epilogue_rows<Arch, std::int32_t>(e, m + done, b.first_channel,
                                      {sums[g], b.width, rows, b.width});
  }
}

template <class Arch>
void block_line(const Call& call, const DepthwiseBlock& b, const Line& line, const Epilogue& e,
                std::uint8_t* entries) {
  for (std::int64_t o = line.o; o < line.end;) {
    const std::int64_t left = line.end - o, all_groups = (left + b.outputs - 1) / b.outputs;
    const std::size_t groups =
        static_cast<std::size_t>(all_groups < kDepthwiseChunk ? all_groups : kDepthwiseChunk);
    const DepthwiseChunk c = fill_chunk<Arch>(call, b, line, o, groups, entries);
    std::size_t g = 0;
    const auto turn = [&]<int kGroups>() {
      const std::size_t done = g * static_cast<std::size_t>(b.outputs);
      outputs<Arch, kGroups>(call, b, c, g, line.row + static_cast<std::size_t>(o) + done,
                             static_cast<std::size_t>(left) - done, e);
      g += kGroups;
    };
    while (groups - g >= 4) turn.template operator()<4>();
    if (groups - g >= 2) turn.template operator()<2>();
    if (groups - g >= 1) turn.template operator()<1>();
    o += static_cast<std::int64_t>(groups) * b.outputs;
  }
}

}  // namespace depthwise_detail

template <class Arch>
void depthwise_u8s8(const ConvU8S8Args& a) {
  using namespace depthwise_detail;
  using Engine = typename DepthwiseEngineOf<Arch>::type;
  if (a.row_begin >= a.row_end) return;
  const ConvShape& s = a.shape;
  if (a.w_zero_points == nullptr && depthwise_in_strips(s))
    return strip_detail::Layer<Arch>(a).run();
  const ConvPhase phase = conv_phase(s, 0);
  EpilogueU8 fast;
  Call call{.args = &a,
            .d = phase.axis[0],
            .h = phase.axis[1],
            .w = phase.axis[2],
            .steps = depthwise_steps(s),
            .fast = nullptr,
            .channels = static_cast<std::size_t>(s.out_channels),
            .padding = nullptr};
  alignas(64) std::uint8_t padding[64];
  std::memset(padding, a.x_zero_point, sizeof(padding));
  call.padding = padding;
  if (Engine::kShortEpilogue && a.w_zero_points == nullptr &&
      epilogue_u8<Arch>(a.epilogue, 0, call.channels, fast))
    call.fast = &fast;

  std::uint8_t* scratch = static_cast<std::uint8_t*>(a.scratch);
  std::uint8_t* entries = scratch + depthwise_weights_bytes(s);
  const std::size_t block_bytes =
      static_cast<std::size_t>(call.steps.count()) * Engine::kEntryBytes + 3 * Engine::kLanes * 4;
  // Blocks of nearly equal width: 144 channels are 48 + 48 + 48, not 64 + 64 + 16.
  const std::size_t blocks = (call.channels + Engine::kLanes - 1) / Engine::kLanes;
  const std::size_t even = (call.channels + blocks - 1) / blocks,
                    width = Engine::kLanes == 16 ? 16 : even;
  DepthwiseBlock first{};
  if (a.w_zero_points) prepare_taps<Arch>(call, first, scratch + blocks * block_bytes);
  const auto block = [&](std::size_t i) {
    DepthwiseBlock b = first;
    b.first_channel = i * width;
    b.width = call.channels - b.first_channel < width ? call.channels - b.first_channel : width;
    b.outputs = Engine::kPacksOutputs ? static_cast<std::int64_t>(Engine::kLanes / b.width) : 1;
    const std::size_t lanes = static_cast<std::size_t>(b.outputs) * b.width;
    b.mask = ~std::uint64_t{0} >> (64 - lanes);
    b.one_load = b.outputs == 1 || (s.stride[2] == 1 && b.width == call.channels);
    b.weights = scratch + i * block_bytes;
    b.init =
        reinterpret_cast<const std::int32_t*>(b.weights + block_bytes - 3 * Engine::kLanes * 4);
    b.multiplier = reinterpret_cast<const float*>(b.init + Engine::kLanes);
    b.offset = b.multiplier + Engine::kLanes;
    return b;
  };
  for (std::size_t i = 0; i < blocks; ++i) prepare<Arch>(call, block(i), scratch + i * block_bytes);
  for (std::int64_t row = a.row_begin; row < a.row_end;) {
    const std::int64_t o2 = row % s.out[2], o1 = row / s.out[2] % s.out[1],
                       o0 = row / (s.out[2] * s.out[1]) % s.out[0];
    const std::int64_t sample = row / (s.out[2] * s.out[1] * s.out[0]), left = a.row_end - row;
    const Line line{.sample = sample,
                    .in0 = call.d.in_base + o0 * s.stride[0],
                    .in1 = call.h.in_base + o1 * s.stride[1],
                    .o = o2,
                    .end = left < s.out[2] - o2 ? o2 + left : s.out[2],
                    .row = static_cast<std::size_t>(row - o2)};
    Epilogue e = a.epilogue;
    float row_scale[kMostTurnRows];  // one entry a sample becomes one a row
    if (e.row_scale) {
      for (float& v : row_scale) v = e.row_scale[sample];
      e.row_scale = row_scale;
    }
    for (std::size_t i = 0; i < blocks; ++i) block_line<Arch>(call, block(i), line, e, entries);
    row += line.end - line.o;
  }
}

}  // namespace fold8::kernels::simd
