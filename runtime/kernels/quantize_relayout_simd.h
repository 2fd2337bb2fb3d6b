// Vector body of quantize_relayout (quantize.h). Include only from targets/*.cc.
#pragma once

#include "runtime/kernels/quantize.h"
#include "runtime/kernels/quantize_quotient_simd.h"
#include "runtime/kernels/transpose_simd.h"

namespace fold8::kernels::simd {

// Blocks of pixels, some channels at a time: codes plane by plane into a buffer that stays in the
// first cache, then turned round.
template <class Arch>
void quantize_relayout(const QuantizeRelayoutArgs& args) {
  constexpr std::size_t kPixels = 512, kChannels = 16;
  alignas(64) std::uint8_t planes[kChannels * kPixels];
  const RoundQuotient<Arch> codes(args.scale, args.zero_point, 0, 255);
  for (std::size_t i = args.begin; i < args.end;) {
    const std::size_t sample = i / args.pixels, p = i % args.pixels;
    std::size_t n = args.end - i < args.pixels - p ? args.end - i : args.pixels - p;
    n = n < kPixels ? n : kPixels;
    for (std::size_t c = 0; c < args.channels; c += kChannels) {
      const std::size_t some = args.channels - c < kChannels ? args.channels - c : kChannels;
      for (std::size_t k = 0; k < some; ++k) {
        const float* x = args.x + (sample * args.channels + c + k) * args.pixels + p;
        for_steps<Arch>(n, [&](std::size_t j, auto m) FOLD8_INLINE_LAMBDA {
          store_u8_saturated<Arch>(planes + k * kPixels + j, m,
                                   codes.unclamped(load<Arch>(x + j, m)));
        });
      }
      transpose_2d<Arch, std::uint8_t>(
          {reinterpret_cast<const std::byte*>(planes),
           reinterpret_cast<std::byte*>(args.q + i * args.channels + c), n, some, kPixels,
           args.channels});
    }
    i += n;
  }
}

}  // namespace fold8::kernels::simd
