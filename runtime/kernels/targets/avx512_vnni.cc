// Compiled with AVX-512 F/CD/DQ/BW/VL and VNNI; see avx2.cc.
#define FOLD8_TARGET_NAME avx512_vnni
#define FOLD8_TARGET_ARCH Avx512Vnni
#include "runtime/kernels/targets/target.inc"
