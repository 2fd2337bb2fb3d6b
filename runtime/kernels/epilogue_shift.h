// An epilogue seen from another corner of its matrix: row 0, column 0 of the result is row m,
// column n of `e`, and neighbouring rows of the result are row_step rows of `e` apart. row_scale is
// left alone.
#pragma once

#include "runtime/kernels/epilogue.h"

namespace fold8::kernels {

[[gnu::always_inline]] static inline Epilogue epilogue_at(Epilogue e, std::size_t m, std::size_t n,
                                                          std::size_t row_step = 1) {
  const auto shifted = [](const void* p, std::size_t elements, std::size_t size) {
    return static_cast<const std::uint8_t*>(p) + elements * size;
  };
  e.multiplier += n;
  if (e.offset) e.offset += n;
  if (e.residual_kind != ResidualKind::none)
    e.residual = shifted(e.residual, m * e.residual_stride + n,
                         e.residual_kind == ResidualKind::u8 ? 1 : sizeof(float));
  e.y = const_cast<std::uint8_t*>(
      shifted(e.y, m * e.y_stride + n, e.output_kind == OutputKind::u8 ? 1 : sizeof(float)));
  e.residual_stride *= row_step;
  e.y_stride *= row_step;
  return e;
}

}  // namespace fold8::kernels
