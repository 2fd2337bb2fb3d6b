// Runs one graph: plans by input shape, arenas, inputs and outputs at the border. Session adds
// checks for people.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "runtime/exec/plan.h"

namespace fold8::exec {

class Executor {
 public:
  using Tap = std::function<Status(graph::ValueId, const TensorView&)>;

  // The graph must outlive the executor.
  Executor(const graph::Graph& g, std::vector<graph::NodeId> order, const PlanOptions& options,
           int plan_cache);

  // Inputs have the graph's dtypes and ranks, in any layout that copy_tensor() knows.
  Status run(std::span<const TensorView> inputs);
  const std::vector<TensorView>& outputs() const { return outputs_; }

  // Where a value of the last run lies; data is null if it is nowhere (any more).
  TensorView find(graph::ValueId v) const;
  const Plan* plan() const { return current_; }

  void set_tap(Tap tap) { tap_ = std::move(tap); }
  void set_profile(bool on) { profile_ = on; }
  std::size_t arena_bytes() const { return current_ == nullptr ? 0 : current_->arena_bytes(); }

 private:
  Status run_plan(std::span<const TensorView> inputs);
  Plan& find_plan(std::span<const TensorView> inputs);
  void forget_current();
  void set_inputs(std::span<const TensorView> inputs);
  void locate(std::size_t segment);
  Status run_segment(std::size_t segment);
  Status run_step(PlannedStep& step, std::byte* scratch);
  Status run_operator(PlannedStep& step, std::byte* scratch);
  Status run_control(PlannedStep& step);
  Status take_shape(graph::ValueId v, const std::optional<Shape>& reported);
  Status call_tap(const PlannedStep& step);
  void hand_over_outputs();
  TensorView view(graph::ValueId v) const;

  GraphInfo info_;
  ControlSteps controls_;
  PlanOptions options_;
  std::size_t plan_cache_;
  std::vector<std::unique_ptr<Plan>> plans_;  // most recently used first
  Plan* current_ = nullptr;
  std::vector<Arena> arenas_;  // of each segment
  std::vector<Arena> staged_inputs_, staged_outputs_;
  std::vector<TensorView> outputs_;
  std::vector<void*> step_inputs_, step_outputs_;  // operands of the running step
  std::vector<std::optional<Shape>> step_shapes_;
  std::vector<TensorView> control_inputs_, control_outputs_;
  Tap tap_;
  bool profile_ = false;
};

// 75 % of the physical memory.
std::size_t default_memory_limit();

}  // namespace fold8::exec
