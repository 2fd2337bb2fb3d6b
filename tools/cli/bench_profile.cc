#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "tools/cli/bench.h"

namespace fold8::cli {
namespace {

constexpr int kRuns = 31;
constexpr double kSeconds = 1;  // slow models are profiled fewer times, but at least once

double rounded(double v) { return std::round(v * 1e3) / 1e3; }

}  // namespace

Result<std::vector<StepTime>> profile_steps(exec::Session& session,
                                            const std::vector<TensorView>& inputs,
                                            const Peaks& peaks) {
  session.enable_profile(true);
  std::vector<std::vector<double>> times;  // [steps][runs]
  std::vector<exec::StepProfile> last;
  const auto begin = std::chrono::steady_clock::now();
  for (int run = 0; run < kRuns; ++run) {
    FOLD8_CHECK_OK(session.run(inputs));
    last = session.profile();
    times.resize(last.size());
    for (std::size_t i = 0; i < last.size(); ++i) times[i].push_back(last[i].microseconds);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (took.count() > kSeconds) break;
  }
  session.enable_profile(false);
  double total = 0;
  std::vector<StepTime> steps(last.size());
  for (std::size_t i = 0; i < last.size(); ++i) {
    std::nth_element(times[i].begin(), times[i].begin() + times[i].size() / 2, times[i].end());
    steps[i].step = std::move(last[i]);
    total += steps[i].step.microseconds = times[i][times[i].size() / 2];
  }
  for (StepTime& s : steps) {
    if (s.step.microseconds <= 0) continue;
    s.gmac_per_s = s.step.macs / s.step.microseconds / 1e3;
    s.percent_of_peak = 100e9 * s.gmac_per_s / (s.step.integer ? peaks.int8 : peaks.f32);
    s.gb_per_s = static_cast<double>(s.step.bytes) / s.step.microseconds / 1e3;
    s.share = s.step.microseconds / total;
  }
  return steps;
}

Json steps_json(const std::vector<StepTime>& steps) {
  Json list = Json::array();
  for (const StepTime& s : steps)
    list.push_back({{"node", s.step.name},
                    {"op", s.step.op},
                    {"engine", s.step.engine},
                    {"us", rounded(s.step.microseconds)},
                    {"share", rounded(s.share)},
                    {"macs", s.step.macs},
                    {"gmac_per_s", rounded(s.gmac_per_s)},
                    {"percent_of_peak", rounded(s.percent_of_peak)},
                    {"bytes", s.step.bytes},
                    {"gb_per_s", rounded(s.gb_per_s)}});
  return list;
}

std::string steps_table(std::vector<StepTime> steps, std::size_t most) {
  std::stable_sort(steps.begin(), steps.end(), [](const StepTime& a, const StepTime& b) {
    return a.step.microseconds > b.step.microseconds;
  });
  std::string text = fmt::format("  {:>9} {:>6} {:>8} {:>6} {:>10} {:>7}  {:<18} {}\n", "us", "%",
                                 "GMAC/s", "peak%", "moved", "GB/s", "operator", "node");
  for (std::size_t i = 0; i < std::min(steps.size(), most); ++i) {
    const StepTime& s = steps[i];
    const std::string rate = s.step.macs > 0 ? fmt::format("{:.1f}", s.gmac_per_s) : "-",
                      peak = s.step.macs > 0 ? fmt::format("{:.1f}", s.percent_of_peak) : "-";
    text += fmt::format("  {:>9.2f} {:>6.1f} {:>8} {:>6} {:>10} {:>7.1f}  {:<18} {}\n",
                        s.step.microseconds, 100 * s.share, rate, peak,
                        readable_bytes(static_cast<double>(s.step.bytes)), s.gb_per_s, s.step.op,
                        s.step.name);
  }
  if (steps.size() > most)
    text += fmt::format("  ... and {} more steps (--json has them all)\n", steps.size() - most);
  return text;
}

}  // namespace fold8::cli
