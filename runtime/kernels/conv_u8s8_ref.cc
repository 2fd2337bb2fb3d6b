#include <vector>

#include "runtime/kernels/conv_phase.h"
#include "runtime/kernels/conv_u8s8.h"
#include "runtime/kernels/depthwise_u8s8.h"
#include "runtime/kernels/epilogue_ref.h"
#include "runtime/kernels/epilogue_shift.h"

namespace fold8::kernels::reference {

namespace {

// w[n, k] of a packed matrix.
std::int32_t packed_weight(const std::int8_t* packed, std::size_t depth, std::int64_t n,
                           std::int64_t k) {
  const std::size_t o = static_cast<std::size_t>(n), i = static_cast<std::size_t>(k);
  return packed[o / kPanelColumns * s8_panel_bytes(depth) +
                (i / kGroupDepth * kPanelColumns + o % kPanelColumns) * kGroupDepth +
                i % kGroupDepth];
}

// The input position that tap t reaches from output position o on one axis; false if none
// (padding).
bool input_position(const ConvShape& s, int axis, std::int64_t o, std::int64_t t, std::int64_t& i) {
  if (s.transposed) {
    const std::int64_t reach = o + s.pad_begin[axis] - t * s.dilation[axis];
    if (reach % s.stride[axis] != 0) return false;
    i = reach / s.stride[axis];
  } else {
    i = o * s.stride[axis] - s.pad_begin[axis] + t * s.dilation[axis];
  }
  return i >= 0 && i < s.in[axis];
}

struct Position {
  std::int64_t sample, o[3];
};

Position position_of(const ConvShape& s, std::int64_t row) {
  Position p;
  for (int a = 2; a >= 0; --a) p.o[a] = row % s.out[a], row /= s.out[a];
  p.sample = row;
  return p;
}

// Calls f(x of channel 0, i0, i1, i2 of the phase's taps) for each tap inside the input.
template <class F>
void each_tap(const ConvU8S8Args& a, const ConvPhase& phase, const Position& p, F&& f) {
  const ConvShape& s = a.shape;
  std::int64_t i[3] = {}, at[3] = {};
  const auto tap = [&](int axis) {
    return phase.axis[axis].tap_first + i[axis] * phase.axis[axis].tap_step;
  };
  for (i[0] = 0; i[0] < phase.axis[0].taps; ++i[0])
    for (i[1] = 0; i[1] < phase.axis[1].taps; ++i[1])
      for (i[2] = 0; i[2] < phase.axis[2].taps; ++i[2]) {
        bool inside = true;
        for (int axis = 0; axis < 3; ++axis)
          inside &= input_position(s, axis, p.o[axis], tap(axis), at[axis]);
        if (inside)
          f(a.x + (((p.sample * s.in[0] + at[0]) * s.in[1] + at[1]) * s.in[2] + at[2]) *
                      s.in_channels,
            i);
      }
}

void store(const ConvU8S8Args& a, std::int64_t row, std::int64_t sample, std::int64_t o,
           std::int64_t acc) {
  Epilogue e = epilogue_at(a.epilogue, static_cast<std::size_t>(row), static_cast<std::size_t>(o));
  if (e.row_scale) e.row_scale += sample;
  epilogue_ref(e, 0, 0, acc);
}

// The phase that computes position p.
std::int64_t phase_of(const ConvShape& s, const Position& p) {
  if (!s.transposed) return 0;
  std::int64_t index = 0;
  for (int axis = 0; axis < 3; ++axis) index = index * s.stride[axis] + p.o[axis] % s.stride[axis];
  return index / u8s8_spread(s);
}

// Where the packed weights of each phase begin, in bytes. Empty: there is one phase.
std::vector<std::size_t> phase_begins(const ConvShape& s) {
  if (!s.transposed) return {};
  std::vector<std::size_t> begins{0};
  for (std::int64_t i = 0; i + 1 < u8s8_phases(s); ++i)
    begins.push_back(begins.back() +
                     static_cast<std::size_t>(s.groups) *
                         packed_s8_bytes(u8s8_columns(s), u8s8_depth(s, u8s8_phase(s, i))));
  return begins;
}

}  // namespace

void conv_u8s8(const ConvU8S8Args& a) {
  const ConvShape& s = a.shape;
  const std::int64_t channels = s.in_channels / s.groups, outputs = s.out_channels / s.groups,
                     spread = u8s8_spread(s);
  const std::size_t columns = u8s8_columns(s);
  const std::vector<std::size_t> begins = phase_begins(s);
  for (std::int64_t row = a.row_begin; row < a.row_end; ++row) {
    Position p = position_of(s, row);
    const std::int64_t index = phase_of(s, p), first_column = p.o[2] % spread * outputs;
    p.o[2] -= p.o[2] % spread;
    const std::int8_t* w = a.w;  // of its phase
    if (!begins.empty()) w += begins[static_cast<std::size_t>(index)];
    const ConvPhase phase = u8s8_phase(s, index);
    const std::size_t depth = u8s8_depth(s, phase);
    const auto line = static_cast<std::int64_t>(u8s8_line_depth(s, phase));
    for (std::int64_t o = 0; o < s.out_channels; ++o) {
      const std::int64_t group = o / outputs;
      const std::int8_t* packed =
          w + static_cast<std::size_t>(group) * packed_s8_bytes(columns, depth);
      const std::int32_t zw = a.w_zero_points ? a.w_zero_points[o] : 0;
      std::int64_t acc = 0;
      each_tap(a, phase, p, [&](const std::uint8_t* x, const std::int64_t* i) {
        const std::int64_t k = (i[0] * phase.axis[1].taps + i[1]) * line + i[2] * channels;
        for (std::int64_t c = 0; c < channels; ++c)
          acc += (x[group * channels + c] - a.x_zero_point) *
                 (packed_weight(packed, depth, first_column + o % outputs, k + c) - zw);
      });
      store(a, row, p.sample, o, acc);
    }
  }
}

void depthwise_u8s8(const ConvU8S8Args& a) {
  const ConvShape& s = a.shape;
  const std::size_t depth = depthwise_depth(s);
  const ConvPhase phase = conv_phase(s, 0);
  for (std::int64_t row = a.row_begin; row < a.row_end; ++row) {
    const Position p = position_of(s, row);
    for (std::int64_t o = 0; o < s.out_channels; ++o) {
      const std::int32_t zw = a.w_zero_points ? a.w_zero_points[o] : 0;
      std::int64_t acc = 0;
      each_tap(a, phase, p, [&](const std::uint8_t* x, const std::int64_t* i) {
        const std::int64_t k = static_cast<std::int64_t>(depthwise_at(s, i[0], i[1], i[2]));
        acc += (x[o] - a.x_zero_point) * (packed_weight(a.w, depth, o, k) - zw);
      });
      store(a, row, p.sample, o, acc);
    }
  }
}

}  // namespace fold8::kernels::reference
