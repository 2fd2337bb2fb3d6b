// One table of function pointers per instruction set, filled from kernels.inc, chosen once,
// forceable by name.
#pragma once

#include <span>
#include <string_view>

#include "runtime/core/result.h"
#include "runtime/kernels/all_kernels.h"

namespace fold8::kernels {

// The kernels of one family (families/*.inc); a family is one translation unit per target.
namespace families {
#define FOLD8_KERNEL(name) name##_fn* name;
struct int8_matrix {
#include "runtime/kernels/families/int8_matrix.inc"
};
struct int8_depthwise {
#include "runtime/kernels/families/int8_depthwise.inc"
};
struct f32_matrix {
#include "runtime/kernels/families/f32_matrix.inc"
};
struct rows {
#include "runtime/kernels/families/rows.inc"
};
struct elementwise {
#include "runtime/kernels/families/elementwise.inc"
};
struct spatial {
#include "runtime/kernels/families/spatial.inc"
};
#undef FOLD8_KERNEL
}  // namespace families

struct KernelTable : families::int8_matrix,
                     families::int8_depthwise,
                     families::f32_matrix,
                     families::rows,
                     families::elementwise,
                     families::spatial {};

struct Target {
  std::string_view name;  // "avx512_vnni", "avx_vnni", "avx512", "avx2" or "reference"
  bool (*cpu_can_run)();
  const KernelTable* kernels;
};

std::span<const Target> targets();  // best first; the last is reference

// The target FOLD8_TARGET names (an error if unknown or not runnable here), else the best this CPU
// can run. reference, too, requires AVX2 and FMA: fold8 does not run on older CPUs, and says so.
Result<const Target*> select_target();
Result<const Target*> find_target(std::string_view name);

}  // namespace fold8::kernels
