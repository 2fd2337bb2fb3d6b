// The plain references as a selectable target: any bug report can be rerun with
// FOLD8_TARGET=reference.
#include "runtime/kernels/kernel_table.h"

namespace fold8::kernels::reference {

extern const KernelTable table;
#define FOLD8_KERNEL(name) &reference::name,
constinit const KernelTable table = {
    {
#include "runtime/kernels/families/int8_matrix.inc"
    },
    {
#include "runtime/kernels/families/int8_depthwise.inc"
    },
    {
#include "runtime/kernels/families/f32_matrix.inc"
    },
    {
#include "runtime/kernels/families/rows.inc"
    },
    {
#include "runtime/kernels/families/elementwise.inc"
    },
    {
#include "runtime/kernels/families/spatial.inc"
    },
};
#undef FOLD8_KERNEL

}  // namespace fold8::kernels::reference
