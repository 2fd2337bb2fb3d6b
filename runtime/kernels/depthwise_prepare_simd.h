// The preparation of a call of depthwise_u8s8: which engine, and the weights as it wants them.
// Include only from depthwise_u8s8_simd.h.
#pragma once

#include "runtime/kernels/conv_phase.h"
#include "runtime/kernels/depthwise_avx2.h"
#include "runtime/kernels/depthwise_u8s8.h"
#include "runtime/kernels/depthwise_vnni.h"

namespace fold8::kernels::simd {

template <class Arch>
struct DepthwiseEngineOf {
  using type = DepthwiseAvx2<Arch>;
};
#ifdef __AVX512VNNI__
template <>
struct DepthwiseEngineOf<Avx512Vnni> {
  using type = DepthwiseVnni<Avx512Vnni>;
};
#endif

namespace depthwise_detail {

struct Call {
  const ConvU8S8Args* args;
  ConvAxis d, h, w;
  DepthwiseSteps steps;
  const EpilogueU8* fast;  // or null
  std::size_t channels;
  const std::uint8_t* padding;  // a vector of zero points
};

inline constexpr std::size_t kMostTurnRows = 4 * 64;  // 4 groups of at most 64 outputs

// One line of outputs: positions [o, end) of the last axis.
struct Line {
  std::int64_t sample, in0, in1;  // first tap's position on the first two axes
  std::int64_t o, end;
  std::size_t row;  // output row of o = 0
};

// Lays weights and parameters of a block out behind each other, where `b` points to.
template <class Arch>
void prepare(const Call& call, const DepthwiseBlock& b, std::uint8_t* to) {
  using Engine = typename DepthwiseEngineOf<Arch>::type;
  constexpr std::size_t kLanes = Engine::kLanes;
  const ConvU8S8Args& a = *call.args;
  const std::size_t depth = static_cast<std::size_t>(call.steps.count()) * kGroupDepth,
                    panel_bytes = s8_panel_bytes(depth);
  const std::size_t first = b.first_channel % kPanelColumns;
  const auto places = Engine::places(b, [&](std::size_t c) {
    return (first + c) / kPanelColumns * panel_bytes + (first + c) % kPanelColumns * kGroupDepth;
  });
  const std::int8_t* w = a.w + b.first_channel / kPanelColumns * panel_bytes;
  for (std::int64_t plane = 0; plane < call.steps.planes; ++plane)
    for (std::int64_t piece = 0; piece < call.steps.pieces; ++piece)
      for (std::int64_t i = 0; i < call.steps.reach; ++i, to += Engine::kEntryBytes)
        Engine::set_weights(
            places, w + static_cast<std::size_t>(call.steps.group(plane, piece, i)) * 64, to);
  std::int32_t* init = reinterpret_cast<std::int32_t*>(to);
  float* multiplier = reinterpret_cast<float*>(init + kLanes);
  float* offset = multiplier + kLanes;
  const std::int32_t* sums = packed_s8_sums(a.w, call.channels, depth);
  for (std::size_t i = 0; i < kLanes; ++i) {
    const std::size_t c = b.first_channel + Engine::lane_of(i) % b.width;
    init[i] = -a.x_zero_point * sums[c];
    if (call.fast) multiplier[i] = call.fast->multiplier[c];
    if (call.fast) offset[i] = call.fast->offset ? call.fast->offset[c] : 0.0f;
  }
}

// The same with every weight 1: what weight zero points are multiplied with.
template <class Arch>
void prepare_taps(const Call& call, DepthwiseBlock& b, std::uint8_t* to) {
  using Engine = typename DepthwiseEngineOf<Arch>::type;
  const ConvShape& s = call.args->shape;
  b.taps = to;
  alignas(64) std::int8_t group[64];
  DepthwiseBlock one{};
  one.width = kPanelColumns;
  const auto places = Engine::places(one, [](std::size_t c) { return c * kGroupDepth; });
  for (std::int64_t plane = 0; plane < call.steps.planes; ++plane)
    for (std::int64_t piece = 0; piece < call.steps.pieces; ++piece)
      for (std::int64_t i = 0; i < call.steps.reach; ++i, to += Engine::kEntryBytes) {
        const std::int64_t taps =
            call.steps.columns ? s.kernel[1] - 4 * piece : s.kernel[2] - 4 * i;
        for (int j = 0; j < 64; ++j) group[j] = j % 4 < taps;
        Engine::set_weights(places, group, to);
      }
  std::int32_t* init = reinterpret_cast<std::int32_t*>(to);
  for (std::size_t lane = 0; lane < Engine::kLanes; ++lane)
    init[lane] = -call.args->x_zero_point * static_cast<std::int32_t>(conv_taps(s));
  b.taps_init = init;
}

}  // namespace depthwise_detail

}  // namespace fold8::kernels::simd
