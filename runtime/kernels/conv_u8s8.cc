#include "runtime/kernels/conv_u8s8.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "runtime/core/aligned.h"
#include "runtime/kernels/conv_lines.h"
#include "runtime/kernels/conv_phase.h"
#include "runtime/kernels/depthwise_u8s8.h"
#include "runtime/kernels/gemm_u8s8.h"

namespace fold8::kernels {

namespace {

// Calls f(tap, k) for the taps of a phase: which tap of the kernel, and its first k.
template <class F>
void each_tap(const ConvShape& s, const ConvPhase& phase, F&& f) {
  const auto& [a, b, c] = phase.axis;
  const std::size_t channels = static_cast<std::size_t>(s.in_channels / s.groups),
                    line = u8s8_line_depth(s, phase);
  std::size_t k = 0;
  for (std::int64_t i = 0; i < a.taps; ++i)
    for (std::int64_t j = 0; j < b.taps; ++j, k += line)
      for (std::int64_t l = 0; l < c.taps; ++l) {
        const std::int64_t tap =
            ((a.tap_first + i * a.tap_step) * s.kernel[1] + b.tap_first + j * b.tap_step) *
                s.kernel[2] +
            c.tap_first + l * c.tap_step;
        f(static_cast<std::size_t>(tap), k + static_cast<std::size_t>(l) * channels);
      }
}

// The taps of one phase of the weights of one group, packed. rows: scratch for columns x depth
// weights.
void pack_phase(const ConvShape& s, const ConvPhase& phase, const std::int8_t* w, std::int8_t* rows,
                std::int8_t* packed) {
  const std::size_t channels = static_cast<std::size_t>(s.in_channels / s.groups),
                    outputs = static_cast<std::size_t>(s.out_channels / s.groups),
                    taps = static_cast<std::size_t>(conv_taps(s)), depth = u8s8_depth(s, phase),
                    columns = u8s8_columns(s);
  std::memset(rows, 0, columns * depth);
  for (std::size_t column = 0; column < columns; ++column)
    each_tap(s, phase, [&](std::size_t tap, std::size_t k) {
      const std::size_t at = column % outputs * taps + tap + column / outputs;
      std::copy_n(w + at * channels, channels, rows + column * depth + k);
    });
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

std::int64_t u8s8_phases(const ConvShape& s) { return conv_phases(s) / u8s8_spread(s); }

ConvPhase u8s8_phase(const ConvShape& s, std::int64_t index) {
  ConvPhase phase = conv_phase(s, index * u8s8_spread(s));
  for (ConvAxis& x : phase.axis) {
    if (x.in_step >= 0 || x.taps == 0) continue;
    x.tap_first += (x.taps - 1) * x.tap_step;
    x.in_base += (x.taps - 1) * x.in_step;
    x.tap_step = -x.tap_step;
    x.in_step = -x.in_step;
  }
  return phase;
}

bool conv_is_depthwise(const ConvShape& s) {
  return !s.transposed && s.groups > 1 && s.groups == s.in_channels && s.groups == s.out_channels &&
         conv_taps(s) <= static_cast<std::int64_t>(gemm_u8s8_int32_depth(true));
}

std::size_t conv_s8_packed_bytes(const ConvShape& s) {
  const std::size_t groups = static_cast<std::size_t>(s.groups);
  if (conv_is_depthwise(s)) return packed_s8_bytes(groups, depthwise_depth(s));
  std::size_t bytes = 0;
  for (std::int64_t p = 0; p < u8s8_phases(s); ++p)
    bytes += groups * packed_s8_bytes(u8s8_columns(s), u8s8_depth(s, u8s8_phase(s, p)));
  return bytes;
}

void pack_conv_s8(const ConvShape& s, const std::int8_t* w, std::int8_t* packed) {
  const std::size_t groups = static_cast<std::size_t>(s.groups), columns = u8s8_columns(s);
  const std::size_t group_size =
      static_cast<std::size_t>(conv_taps(s) * (s.out_channels / s.groups) * s.in_channels) / groups;
  if (conv_is_depthwise(s)) {
    const auto rows = std::make_unique<std::int8_t[]>(groups * depthwise_depth(s));
    return pack_depthwise(s, w, rows.get(), packed);
  }
  for (std::int64_t p = 0; p < u8s8_phases(s); ++p) {
    const ConvPhase phase = u8s8_phase(s, p);
    const std::size_t depth = u8s8_depth(s, phase);
    const auto rows = std::make_unique<std::int8_t[]>(columns * depth);
    for (std::size_t g = 0; g < groups; ++g) {
      pack_phase(s, phase, w + g * group_size, rows.get(), packed);
      packed += packed_s8_bytes(columns, depth);
    }
  }
}

void unpack_conv_s8(const ConvShape& s, const std::int8_t* packed, std::int8_t* w) {
  const ConvPhase phase = u8s8_phase(s, 0);
  const std::size_t groups = static_cast<std::size_t>(s.groups),
                    columns = static_cast<std::size_t>(s.out_channels) / groups,
                    channels = static_cast<std::size_t>(s.in_channels) / groups,
                    taps = static_cast<std::size_t>(conv_taps(s)), depth = u8s8_depth(s, phase);
  const auto rows = std::make_unique<std::int8_t[]>(columns * depth);
  for (std::size_t g = 0; g < groups; ++g, packed += packed_s8_bytes(columns, depth)) {
    unpack_s8(packed, columns, depth, rows.get());
    for (std::size_t o = 0; o < columns; ++o, w += taps * channels)
      each_tap(s, phase, [&](std::size_t tap, std::size_t k) {
        std::copy_n(rows.get() + o * depth + k, channels, w + tap * channels);
      });
  }
}

std::size_t conv_spread_bytes(const ConvShape& s) {
  return u8s8_spread(s) > 1 ? 3 * round_up(u8s8_columns(s) * sizeof(float), 64) : 0;
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
  const std::size_t strips = depthwise_in_strips(s) ? depthwise_strip_scratch_bytes(s) : 0;
  const DepthwiseSteps steps = depthwise_steps(s);
  return std::max(strips, depthwise_weights_bytes(s) +
                              static_cast<std::size_t>(kDepthwiseChunk * steps.count()) * 256);
}

std::size_t conv_u8s8_scratch_bytes(const ConvShape& s) {
  if (conv_is_depthwise(s)) return depthwise_u8s8_scratch_bytes(s);
  std::size_t most = 0;
  for (std::int64_t p = 0; p < u8s8_phases(s); ++p) {
    const ConvPhase phase = u8s8_phase(s, p);
    const std::size_t k = u8s8_depth(s, phase);
    most = std::max({most, conv_gather_bytes(k) + u8s8_block_scratch_bytes(k),
                     conv_lines(s, phase).bytes() + u8s8_block_scratch_bytes(k)});
  }
  return most + conv_spread_bytes(s);
}

}  // namespace fold8::kernels
