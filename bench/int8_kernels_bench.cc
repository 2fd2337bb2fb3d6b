// INT8 matrix products and convolutions on one thread beside oneDNN, INT8 and f32. Every contender
// is run in turn, many times, and the ratios are medians over the rounds, so that a busy machine
// slows all alike.
//
//   FOLD8_TARGET=avx2 OMP_NUM_THREADS=1 int8_kernels_bench [part of a name] [--rounds N]
//   [--endings]
//
// FOLD8_TARGET chooses the target; oneDNN is held to the same instruction set. --endings measures
// the other epilogues, as multiples of the time with ReLU.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "bench/int8_cases.h"
#include "bench/int8_onednn.h"
#include "bench/int8_peak.h"

namespace fold8::bench {
namespace {

struct Options {
  std::string part;
  int rounds = 15;
  bool endings = false;
};

using Run = std::function<void()>;

double seconds(const Run& run, int times) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) run();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return took.count() / times;
}

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

// times[i][round] in seconds; empty where there is nothing to run.
std::vector<std::vector<double>> interleaved(const std::vector<Run>& runs, int rounds) {
  std::vector<std::vector<double>> times(runs.size());
  std::vector<int> repeats(runs.size(), 0);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i]) continue;
    seconds(runs[i], 2);
    repeats[i] = std::clamp(static_cast<int>(3e-4 / seconds(runs[i], 1)), 1, 10000);
  }
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < runs.size(); ++i)
      if (runs[i]) times[i].push_back(seconds(runs[i], repeats[i]));
  return times;
}

// The median over the rounds of a / b.
double ratio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> r;
  for (std::size_t i = 0; i < a.size(); ++i) r.push_back(a[i] / b[i]);
  return median(std::move(r));
}

struct Case {
  std::string name;
  double macs;
  std::function<Run(Ending)> own;
  Run int8, f32;
};

std::vector<Case> cases(const kernels::Target& target) {
  std::vector<Case> all;
  for (const MatrixCase& c : matrix_cases())
    all.push_back(
        {"gemm_" + std::to_string(c.m) + "x" + std::to_string(c.n) + "x" + std::to_string(c.k),
         static_cast<double>(c.m * c.n * c.k),
         [&target, c](Ending e) { return own_matmul(target, c, e); },
         onednn_matmul(c.m, c.n, c.k, Numbers::int8), onednn_matmul(c.m, c.n, c.k, Numbers::f32)});
  for (const LayerCase& l : layer_cases()) {
    const kernels::ConvShape s = shape_of(l);
    const double rows = static_cast<double>(s.transposed ? s.batch * s.in[0] * s.in[1] * s.in[2]
                                                         : kernels::conv_rows(s));
    all.push_back({l.name,
                   rows * static_cast<double>(kernels::conv_taps(s) * s.out_channels *
                                              s.in_channels / s.groups),
                   [&target, s](Ending e) { return own_conv(target, s, e); },
                   onednn_conv(s, Numbers::int8), onednn_conv(s, Numbers::f32)});
  }
  return all;
}

double best(const std::vector<double>& times) {
  return *std::min_element(times.begin(), times.end());
}

void compare(const Case& c, const Options& o, double peak) {
  const auto t = interleaved({c.own(Ending::u8_relu), c.int8, c.f32}, o.rounds);
  const double fastest = best(t[0]);
  std::printf("%-24s %9.1f %8.1f %6.1f", c.name.c_str(), fastest * 1e6, c.macs / fastest * 1e-9,
              100 * c.macs / fastest / peak);
  for (std::size_t i : {1u, 2u})
    if (t[i].empty())
      std::printf("        -     -");
    else
      std::printf(" %9.1f %5.2f", best(t[i]) * 1e6, ratio(t[i], t[0]));
  std::printf("\n");
}

void endings(const Case& c, const Options& o) {
  const auto t = interleaved({c.own(Ending::u8_relu), c.own(Ending::u8_hard_swish),
                              c.own(Ending::u8_residual), c.own(Ending::f32)},
                             o.rounds);
  std::printf("%-24s %9.1f %8.2f %8.2f %8.2f\n", c.name.c_str(), best(t[0]) * 1e6,
              ratio(t[1], t[0]), ratio(t[2], t[0]), ratio(t[3], t[0]));
}

// What oneDNN is held to; null: nothing.
const char* onednn_isa(std::string_view target) {
  if (target == "avx512_vnni") return nullptr;
  if (target == "avx512") return "AVX512_CORE";
  return target == "avx_vnni" ? "AVX2_VNNI" : "AVX2";
}

int run(const Options& o) {
  const auto target = kernels::select_target();
  if (!target.ok()) {
    std::fprintf(stderr, "%s\n", target.error().message.c_str());
    return 1;
  }
  const kernels::Target& t = **target;
  if (const char* isa = onednn_isa(t.name)) setenv("ONEDNN_MAX_CPU_ISA", isa, 0);
  const double peak = int8_peak_macs_per_second(t.name);
  std::printf("target %s, peak %.1f GMAC/s\n", std::string(t.name).c_str(), peak * 1e-9);
  if (o.endings)
    std::printf("%-24s %9s %8s %8s %8s\n", "layer", "ReLU us", "h_swish", "residual", "f32");
  else
    std::printf("%-24s %9s %8s %6s %9s %5s %9s %5s\n", "layer", "us", "GMAC/s", "%peak",
                "oneDNN i8", "x", "f32", "x");
  for (const Case& c : cases(t)) {
    if (c.name.find(o.part) == std::string::npos) continue;
    if (o.endings)
      endings(c, o);
    else
      compare(c, o, peak);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace fold8::bench

int main(int argc, char** argv) {
  fold8::bench::Options options;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--endings") == 0)
      options.endings = true;
    else if (std::strcmp(argv[i], "--rounds") == 0 && i + 1 < argc)
      options.rounds = std::max(1, std::atoi(argv[++i]));
    else
      options.part = argv[i];
  }
  return fold8::bench::run(options);
}
