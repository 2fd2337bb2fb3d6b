// Compiled with -mavx2 -mfma -mf16c; together with its siblings here the only code that may use
// such instructions.
#define FOLD8_TARGET_NAME avx2
#define FOLD8_TARGET_ARCH Avx2
#include "runtime/kernels/targets/target.inc"
