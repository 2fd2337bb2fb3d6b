// Parts of `fold8 bench`.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/exec/session.h"
#include "tools/cli/common.h"

namespace fold8::cli {

// Inputs of the right types: extents of `shapes` ("name=1x3x224x224"), batches of one, floats and
// u8 codes that look like data, zeros for integers (always valid as indices).
Result<std::vector<Tensor>> made_up_inputs(std::span<const std::string> shapes,
                                           const graph::Graph& g);

// The most multiply-adds a second that one core does with the instructions a target's kernels use,
// measured in registers alone: what "% of peak" refers to.
struct Peaks {
  double int8 = 0, f32 = 0;
};
Peaks measure_peaks(std::string_view target);

// A step of the profile, its time the median of several runs.
struct StepTime {
  exec::StepProfile step;
  double gmac_per_s = 0, percent_of_peak = 0, gb_per_s = 0, share = 0;
};
// Runs the session again, profiled. In the order of execution.
Result<std::vector<StepTime>> profile_steps(exec::Session& session,
                                            const std::vector<TensorView>& inputs,
                                            const Peaks& peaks);
Json steps_json(const std::vector<StepTime>& steps);
std::string steps_table(std::vector<StepTime> steps, std::size_t most);  // the slowest first

}  // namespace fold8::cli
