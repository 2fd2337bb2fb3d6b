// What this CPU and operating system can run. Own detection: cpuid and XGETBV (an OS that does not
// save AVX-512 state makes AVX-512 instructions fault, whatever cpuid says).
#pragma once

#include <string>

namespace fold8::kernels {

struct CpuFeatures {
  bool avx2_fma = false;     // AVX2, FMA, F16C, with the YMM state saved by the OS
  bool avx512 = false;       // F, CD, DQ, BW, VL, with the ZMM state saved by the OS
  bool avx512_vnni = false;  // avx512 and VNNI
  bool avx_vnni = false;     // avx2_fma and the 256-bit VNNI with VEX encoding
};

const CpuFeatures& cpu_features();  // detected once
std::string cpu_brand();            // "Intel(R) Xeon(R) ..." for reports

}  // namespace fold8::kernels
