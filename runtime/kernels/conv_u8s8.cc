#include "runtime/kernels/conv_u8s8.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "runtime/core/aligned.h"
#include "runtime/kernels/conv_phase.h"
#include "runtime/kernels/depthwise_u8s8.h"
#include "runtime/kernels/gemm_u8s8.h"

namespace fold8::kernels {

namespace {

std::size_t group_depth(const ConvShape& s, const ConvPhase& phase) {
  return static_cast<std::size_t>(conv_taps(phase) * (s.in_channels / s.groups));
}

// The taps of one phase of the weights of `columns` output channels, packed. rows: scratch for
// columns x depth weights.
void pack_phase(const ConvShape& s, const ConvPhase& phase, const std::int8_t* w,
                std::size_t columns, std::int8_t* rows, std::int8_t* packed) {
  const std::size_t channels = static_cast<std::size_t>(s.in_channels / s.groups);
  const auto& [a, b, c] = phase.axis;
  std::int8_t* to = rows;
  for (std::size_t o = 0; o < columns; ++o)
    for (std::int64_t i = 0; i < a.taps; ++i)
      for (std::int64_t j = 0; j < b.taps; ++j)
        for (std::int64_t k = 0; k < c.taps; ++k) {
          const std::int64_t tap =
              ((a.tap_first + i * a.tap_step) * s.kernel[1] + b.tap_first + j * b.tap_step) *
                  s.kernel[2] +
              c.tap_first + k * c.tap_step;
          const std::size_t from =
              (o * static_cast<std::size_t>(conv_taps(s)) + static_cast<std::size_t>(tap)) *
              channels;
          std::copy_n(w + from, channels, to);
          to += channels;
        }
  const std::size_t depth = group_depth(s, phase);
  pack_s8(rows, depth, columns, depth, packed);
}

// Depthwise weights w [channels, kd, kh, kw] in the order of depthwise_u8s8.h.
void pack_depthwise(const ConvShape& s, const std::int8_t* w, std::int8_t* rows,
                    std::int8_t* packed) {
  const std::size_t depth = depthwise_depth(s), channels = static_cast<std::size_t>(s.out_channels);
  std::memset(rows, 0, depth * channels);
  for (std::size_t c = 0; c < channels; ++c)
    for (std::int64_t d = 0; d < s.kernel[0]; ++d)
      for (std::int64_t y = 0; y < s.kernel[1]; ++y)
        for (std::int64_t x = 0; x < s.kernel[2]; ++x)
          rows[c * depth + depthwise_at(s, d, y, x)] = *w++;
  pack_s8(rows, depth, channels, depth, packed);
}

}  // namespace

bool conv_is_depthwise(const ConvShape& s) {
  return !s.transposed && s.groups > 1 && s.groups == s.in_channels && s.groups == s.out_channels &&
         conv_taps(s) <= static_cast<std::int64_t>(gemm_u8s8_int32_depth(true));
}

std::size_t conv_s8_packed_bytes(const ConvShape& s) {
  const std::size_t groups = static_cast<std::size_t>(s.groups),
                    columns = static_cast<std::size_t>(s.out_channels) / groups;
  if (conv_is_depthwise(s)) return packed_s8_bytes(groups, depthwise_depth(s));
  std::size_t bytes = 0;
  for (std::int64_t p = 0; p < conv_phases(s); ++p)
    bytes += groups * packed_s8_bytes(columns, group_depth(s, conv_phase(s, p)));
  return bytes;
}

void pack_conv_s8(const ConvShape& s, const std::int8_t* w, std::int8_t* packed) {
  const std::size_t groups = static_cast<std::size_t>(s.groups),
                    columns = static_cast<std::size_t>(s.out_channels) / groups;
  const std::size_t group_size =
      columns * static_cast<std::size_t>(conv_taps(s) * s.in_channels) / groups;
  if (conv_is_depthwise(s)) {
    const auto rows = std::make_unique<std::int8_t[]>(groups * depthwise_depth(s));
    return pack_depthwise(s, w, rows.get(), packed);
  }
  const auto rows = std::make_unique<std::int8_t[]>(group_size);
  for (std::int64_t p = 0; p < conv_phases(s); ++p) {
    const ConvPhase phase = conv_phase(s, p);
    for (std::size_t g = 0; g < groups; ++g) {
      pack_phase(s, phase, w + g * group_size, columns, rows.get(), packed);
      packed += packed_s8_bytes(columns, group_depth(s, phase));
    }
  }
}

std::size_t conv_gather_bytes(std::size_t k) {
  return round_up(u8s8_block_rows(k) * conv_gather_row_bytes(k), 64);
}

// Per 64 channels: 256 bytes a step, twice that where weights are widened, also for the sums over
// taps; and what the epilogue and the zero points need per channel.
std::size_t depthwise_weights_bytes(const ConvShape& s) {
  const std::size_t blocks = (static_cast<std::size_t>(s.out_channels) + 63) / 64;
  return (blocks + 1) * (static_cast<std::size_t>(depthwise_steps(s).count()) * 512 + 3 * 256);
}

std::size_t depthwise_u8s8_scratch_bytes(const ConvShape& s) {
  const DepthwiseSteps steps = depthwise_steps(s);
  return depthwise_weights_bytes(s) +
         static_cast<std::size_t>(kDepthwiseChunk * steps.count()) * 256;
}

std::size_t conv_u8s8_scratch_bytes(const ConvShape& s) {
  if (conv_is_depthwise(s)) return depthwise_u8s8_scratch_bytes(s);
  std::size_t most = 0;
  for (std::int64_t p = 0; p < conv_phases(s); ++p) {
    const std::size_t k = group_depth(s, conv_phase(s, p));
    most = std::max(most, conv_gather_bytes(k) + u8s8_block_scratch_bytes(k));
  }
  return most;
}

}  // namespace fold8::kernels
