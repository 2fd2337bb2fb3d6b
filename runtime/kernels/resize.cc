#include "runtime/kernels/resize.h"

#include "runtime/core/aligned.h"

namespace fold8::kernels {

std::size_t resize_f32_scratch_bytes(const ResizeF32Args& args) {
  if (args.axis[2].taps == 0) return 0;
  const std::size_t lines = (args.axis[0].taps > 0 ? args.axis[0].taps : 1) *
                            (args.axis[1].taps > 0 ? args.axis[1].taps : 1);
  return lines * round_up(args.axis[2].out * args.inner * sizeof(float), kAlignment);
}

}  // namespace fold8::kernels
