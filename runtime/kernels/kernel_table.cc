// Compiled without ISA flags: a test for AVX-512 must not itself use AVX-512.
#include "runtime/kernels/kernel_table.h"

#include <array>
#include <cstdlib>
#include <string>

#include "runtime/kernels/cpu.h"

namespace fold8::kernels {

#define FOLD8_FAMILY(family) extern const families::family family;
namespace avx2 {
#include "runtime/kernels/families/families.inc"
}
// int8_depthwise of avx2: without VNNI, wider registers gain little there.
namespace avx512 {
#include "runtime/kernels/families/families.inc"
}
#undef FOLD8_FAMILY
// VNNI multiplies bytes; all else is as it was.
#define FOLD8_INT8_FAMILIES                       \
  extern const families::int8_matrix int8_matrix; \
  extern const families::int8_depthwise int8_depthwise;
namespace avx_vnni {
FOLD8_INT8_FAMILIES
}
namespace avx512_vnni {
FOLD8_INT8_FAMILIES
}
#undef FOLD8_INT8_FAMILIES
namespace reference {
extern const KernelTable table;
}

namespace {

#define FOLD8_TABLE(matrix, depthwise, others)                                        \
  {                                                                                   \
    matrix::int8_matrix, depthwise::int8_depthwise, others::f32_matrix, others::rows, \
        others::elementwise, others::spatial                                          \
  }

// The best first. avx_vnni before avx512, because it multiplies INT8 faster: one instruction for
// what takes AVX-512 two and a widening (1.2x on Zen 5; CPUs that have these two have avx512_vnni
// too, unless a hypervisor hides it). Made on first use: the families of other translation units
// are constants, but not to this one.
const std::array<Target, 5>& all_targets() {
  static const KernelTable avx512_vnni_table FOLD8_TABLE(avx512_vnni, avx512_vnni, avx512);
  static const KernelTable avx_vnni_table FOLD8_TABLE(avx_vnni, avx_vnni, avx2);
  static const KernelTable avx512_table FOLD8_TABLE(avx512, avx2, avx512);
  static const KernelTable avx2_table FOLD8_TABLE(avx2, avx2, avx2);
  static const std::array<Target, 5> all = {{
      {"avx512_vnni", [] { return cpu_features().avx512_vnni; }, &avx512_vnni_table},
      {"avx_vnni", [] { return cpu_features().avx_vnni; }, &avx_vnni_table},
      {"avx512", [] { return cpu_features().avx512; }, &avx512_table},
      {"avx2", [] { return cpu_features().avx2_fma; }, &avx2_table},
      {"reference", [] { return cpu_features().avx2_fma; }, &reference::table},
  }};
  return all;
}

template <class Wanted>
std::string names_of(Wanted&& wanted) {
  std::string names;
  for (const Target& t : all_targets())
    if (wanted(t)) names += (names.empty() ? "" : ", ") + std::string(t.name);
  return names.empty() ? "none" : names;
}

}  // namespace

std::span<const Target> targets() { return all_targets(); }

Result<const Target*> find_target(std::string_view wanted) {
  for (const Target& t : all_targets()) {
    if (t.name != wanted) continue;
    if (!t.cpu_can_run())
      return unsupported("target '" + std::string(wanted) +
                         "' cannot run on this CPU (it can run: " +
                         names_of([](const Target& t) { return t.cpu_can_run(); }) + ")");
    return &t;
  }
  return invalid_argument("unknown target '" + std::string(wanted) + "'; this build knows " +
                          names_of([](const Target&) { return true; }));
}

Result<const Target*> select_target() {
  if (!cpu_features().avx2_fma)
    return unsupported(
        "this CPU lacks AVX2 and FMA, which fold8 needs (Intel since Haswell 2013, AMD since "
        "Excavator 2015)");
  if (const char* forced = std::getenv("FOLD8_TARGET"); forced != nullptr && *forced != '\0') {
    auto target = find_target(forced);
    if (!target.ok()) return in_context("FOLD8_TARGET", target.error());
    return target;
  }
  for (const Target& t : all_targets())
    if (t.cpu_can_run()) return &t;
  return internal_error("no target");
}

}  // namespace fold8::kernels
