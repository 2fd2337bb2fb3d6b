#include <cmath>
#include <limits>

#include "runtime/kernels/pool.h"

namespace fold8::kernels::reference {
namespace {

// Calls visit(position) for every window position of output (o0, o1, o2) inside the input,
// ascending; returns how many positions lie inside the input and its pads.
template <class Visit>
std::int64_t for_window(const PoolWindow& w, const std::int64_t (&o)[3], Visit visit) {
  std::int64_t with_pads = 0, k[3];
  for (k[0] = 0; k[0] < w.axis[0].kernel; ++k[0])
    for (k[1] = 0; k[1] < w.axis[1].kernel; ++k[1])
      for (k[2] = 0; k[2] < w.axis[2].kernel; ++k[2]) {
        std::int64_t i[3];
        bool inside = true, padded = true;
        for (int a = 0; a < 3; ++a) {
          const PoolAxis& axis = w.axis[a];
          i[a] = o[a] * axis.stride - axis.pad_begin + k[a] * axis.dilation;
          inside = inside && i[a] >= 0 && i[a] < axis.in;
          padded = padded && i[a] >= -axis.pad_begin && i[a] < axis.in + axis.pad_end;
        }
        if (padded) ++with_pads;
        if (inside) visit((i[0] * w.axis[1].in + i[1]) * w.axis[2].in + i[2]);
      }
  return with_pads;
}

// Calls output(index in y, offset of the sample in x, o0..o2) for every output element of the
// lines.
template <class Args, class Output>
void for_outputs(const Args& args, Output output) {
  const PoolAxis* axis = args.window.axis;
  const std::int64_t channels = static_cast<std::int64_t>(args.channels);
  const std::int64_t sample = axis[0].in * axis[1].in * axis[2].in * channels;
  for (std::size_t line = args.line_begin; line < args.line_end; ++line) {
    const std::int64_t l = static_cast<std::int64_t>(line);
    for (std::int64_t o2 = 0; o2 < axis[2].out; ++o2)
      for (std::int64_t c = 0; c < channels; ++c) {
        const std::int64_t o[3] = {l / axis[1].out % axis[0].out, l % axis[1].out, o2};
        output((l * axis[2].out + o2) * channels + c, l / (axis[1].out * axis[0].out) * sample + c,
               o);
      }
  }
}

float maximum(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<float>::quiet_NaN();
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
std::uint8_t maximum(std::uint8_t a, std::uint8_t b) { return a > b ? a : b; }

template <class T>
void max_pool(const MaxPoolArgs<T>& args, T lowest) {
  for_outputs(args, [&](std::int64_t at, std::int64_t from, const std::int64_t(&o)[3]) {
    T best = lowest;
    for_window(args.window, o, [&](std::int64_t p) {
      best = maximum(best, args.x[from + p * static_cast<std::int64_t>(args.channels)]);
    });
    args.y[at] = best;
  });
}

}  // namespace

void max_pool_f32(const MaxPoolArgs<float>& args) {
  max_pool(args, -std::numeric_limits<float>::infinity());
}
void max_pool_u8(const MaxPoolArgs<std::uint8_t>& args) { max_pool(args, std::uint8_t{0}); }

void average_pool_f32(const AveragePoolF32Args& args) {
  for_outputs(args, [&](std::int64_t at, std::int64_t from, const std::int64_t(&o)[3]) {
    float sum = 0;
    std::int64_t count = 0;
    const std::int64_t with_pads = for_window(args.window, o, [&](std::int64_t p) {
      sum += args.x[from + p * static_cast<std::int64_t>(args.channels)];
      ++count;
    });
    if (args.count_include_pad) count = with_pads;
    args.y[at] = sum / static_cast<float>(count);
  });
}

void average_pool_u8(const AveragePoolU8Args& args) {
  for_outputs(args, [&](std::int64_t at, std::int64_t from, const std::int64_t(&o)[3]) {
    std::int64_t sum = 0, inside = 0;
    const std::int64_t with_pads = for_window(args.window, o, [&](std::int64_t p) {
      sum += args.x[from + p * static_cast<std::int64_t>(args.channels)];
      ++inside;
    });
    const std::int64_t count = args.count_include_pad ? with_pads : inside;
    float r = count == 0
                  ? 0.0f
                  : static_cast<float>(sum - inside * args.x_zero_point) * args.multipliers[count];
    if (args.output_kind == OutputKind::f32) {
      static_cast<float*>(args.y)[at] = r;
      return;
    }
    const float lo = static_cast<float>(-args.y_zero_point),
                hi = static_cast<float>(255 - args.y_zero_point);
    r = r < lo ? lo : r > hi ? hi : r;
    const std::int32_t q = std::isnan(r) ? 0 : static_cast<std::int32_t>(std::nearbyintf(r));
    static_cast<std::uint8_t*>(args.y)[at] = static_cast<std::uint8_t>(q + args.y_zero_point);
  });
}

void global_average_f32(const GlobalAverageF32Args& args) {
  for (std::size_t i = args.begin; i < args.end; ++i) {
    const float* x =
        args.x + i / args.channels * args.positions * args.channels + i % args.channels;
    float sum = 0;
    for (std::size_t p = 0; p < args.positions; ++p) sum += x[p * args.channels];
    args.y[i] = sum / static_cast<float>(args.positions);
  }
}

}  // namespace fold8::kernels::reference
