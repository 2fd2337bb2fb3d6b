/* Preloaded into a process, hides CPU features from libraries whose cpuid instructions were
 * replaced.
 *
 * Some libraries cannot be told to use less than the CPU has (ONNX Runtime has no switch), but all
 * of them ask the cpuid instruction. Making cpuid itself fault needs a CPU and a hypervisor that
 * can. Instead mask.py writes copies of the libraries in which each cpuid (0f a2) is a ud2 (0f 0b),
 * an instruction of the same length that raises SIGILL; the handler here executes the cpuid, clears
 * feature bits in the answer, and continues behind the ud2.
 *
 * CPUID_MASK=avx2     no AVX-512, no VNNI of either kind: a Haswell with everything else
 * CPUID_MASK=novnni   AVX-512 as on Skylake servers, without VNNI
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define BIT(n) (1u << (n))

typedef struct {
  unsigned leaf, subleaf; /* of cpuid */
  unsigned a, b, c, d;    /* bits to clear in eax, ebx, ecx, edx */
} hidden_bits;

/* Intel SDM, volume 2, CPUID leaf 7 */
static const hidden_bits kNoVnni[] = {
    {7, 0, 0, 0, BIT(11) /* AVX512_VNNI */, 0},
    {7, 1, BIT(4) /* AVX-VNNI */, 0, 0, BIT(4) | BIT(10) /* AVX-VNNI-INT8, -INT16 */},
};
static const hidden_bits kNoAvx512[] = {
    {7, 0, 0,
     BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) |
         BIT(31), /* AVX512 F, DQ, IFMA, PF, ER, CD, BW, VL */
     BIT(1) | BIT(6) | BIT(12) | BIT(14) /* VBMI, VBMI2, BITALG, VPOPCNTDQ */,
     BIT(2) | BIT(3) | BIT(8) | BIT(23) | BIT(22) | BIT(24) |
         BIT(25) /* 4VNNIW, 4FMAPS, VP2INTERSECT, FP16, AMX BF16, TILE, INT8 */},
    {7, 1, BIT(5) /* AVX512_BF16 */, 0, 0, BIT(19) /* AVX10 */},
};

static int no_vnni, no_avx512;

static void hide(const hidden_bits* table, size_t count, unsigned leaf, unsigned subleaf,
                 unsigned r[4]) {
  for (size_t i = 0; i < count; ++i) {
    if (table[i].leaf != leaf || table[i].subleaf != subleaf) continue;
    r[0] &= ~table[i].a;
    r[1] &= ~table[i].b;
    r[2] &= ~table[i].c;
    r[3] &= ~table[i].d;
  }
}

static void on_illegal_instruction(int number, siginfo_t* info, void* context) {
  (void)info;
  greg_t* registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  const unsigned char* code = (const unsigned char*)registers[REG_RIP];
  if (code[0] != 0x0f || code[1] != 0x0b) { /* not ours: fault again, and end */
    signal(number, SIG_DFL);
    return;
  }
  unsigned leaf = (unsigned)registers[REG_RAX], subleaf = (unsigned)registers[REG_RCX], r[4];
  __cpuid_count(leaf, subleaf, r[0], r[1], r[2], r[3]);
  if (no_vnni || no_avx512) hide(kNoVnni, sizeof kNoVnni / sizeof *kNoVnni, leaf, subleaf, r);
  if (no_avx512) hide(kNoAvx512, sizeof kNoAvx512 / sizeof *kNoAvx512, leaf, subleaf, r);
  registers[REG_RAX] = r[0];
  registers[REG_RBX] = r[1];
  registers[REG_RCX] = r[2];
  registers[REG_RDX] = r[3];
  registers[REG_RIP] += 2;
}

static int chosen(const char* name, char** environment) {
  char wanted[32];
  snprintf(wanted, sizeof wanted, "CPUID_MASK=%s", name);
  while (*environment != NULL && strcmp(*environment, wanted) != 0) ++environment;
  return *environment != NULL;
}

/* Linked to run before all other constructors, the C library's too: getenv() finds nothing yet, but
 * glibc hands the environment to constructors. */
__attribute__((constructor)) static void install(int count, char** arguments, char** environment) {
  (void)count;
  (void)arguments;
  no_vnni = chosen("novnni", environment);
  no_avx512 = chosen("avx2", environment);
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_illegal_instruction;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  if (sigaction(SIGILL, &action, NULL) != 0) perror("cpuidmask");
}
