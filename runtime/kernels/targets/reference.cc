// The plain references as a selectable target: any bug report can be rerun with
// FOLD8_TARGET=reference.
#include "runtime/kernels/kernel_table.h"

namespace fold8::kernels::reference {

extern const KernelTable table;
const KernelTable table = {
#define FOLD8_KERNEL(name) &reference::name,
#include "runtime/kernels/kernels.inc"
#undef FOLD8_KERNEL
};

}  // namespace fold8::kernels::reference
