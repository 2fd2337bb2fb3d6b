// If, Loop and Scan at run time: an executor for each body, whose plans are cached like any other.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/core/tensor.h"
#include "runtime/graph/graph.h"

namespace fold8::exec {

struct PlanOptions;

class ControlStep {
 public:
  virtual ~ControlStep() = default;
  // Inputs as the node's (data null: absent). Outputs are valid until the next run.
  virtual Status run(std::span<const TensorView> inputs, std::span<TensorView> outputs) = 0;
};

Result<std::unique_ptr<ControlStep>> make_control_step(const graph::Node& n,
                                                       const PlanOptions& options);

}  // namespace fold8::exec
