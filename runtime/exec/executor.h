// Runs one graph: plans by input shape, arenas, inputs and outputs at the border. Session adds
// checks for people.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "runtime/exec/plan.h"
#include "runtime/exec/session.h"
#include "runtime/exec/states.h"

namespace fold8::exec {

class Executor {
 public:
  using Tap = std::function<Status(graph::ValueId, const TensorView&)>;

  // The graph must outlive the executor.
  Executor(const graph::Graph& g, std::vector<graph::NodeId> order, const PlanOptions& options,
           int plan_cache);

  // Inputs have the graph's dtypes and ranks, in any layout that copy_tensor() knows; those of
  // states are what States::bind() gave.
  Status run(std::span<const TensorView> inputs);
  // After a run with keep_all: the steps that depend on a replaced value once more, nothing else;
  // outputs() are of what follows from it. Where shapes depend on data everything runs once more.
  // Contract in Session::rerun(). rerun.cc
  Status rerun(std::span<const Replacement> replaced);
  // Data is null where an output is kept as a state.
  const std::vector<TensorView>& outputs() const { return outputs_; }

  // Plans of before are forgotten.
  Status add_state(graph::ValueId output, graph::ValueId input, std::int64_t capacity);
  bool is_state(std::size_t input) const {
    return input < state_inputs_.size() && state_inputs_[input];
  }
  States& states() { return states_; }
  const States& states() const { return states_; }
  std::size_t plans_made() const { return plans_made_; }

  // Where a value of the last run lies; data is null if it is nowhere (any more).
  TensorView find(graph::ValueId v) const;
  const Plan* plan() const { return current_; }
  std::size_t memory_limit() const { return options_.memory_limit; }
  // What find() does not know: a state's input or output that has lain in place.
  std::optional<Tensor> copy_in_place(graph::ValueId v) const;

  void set_tap(Tap tap) { tap_ = std::move(tap); }
  void set_profile(bool on) { profile_ = on; }
  std::size_t arena_bytes() const { return current_ == nullptr ? 0 : current_->arena_bytes(); }

 private:
  // An axis of an input whose extent goes with the lengths of states (a mask over all tokens).
  struct Follower {
    std::size_t input;
    int axis;
  };

  Status run_plan(std::span<const TensorView> inputs);
  Plan& find_plan(std::span<const Shape> key);
  Status plan_for_states(std::span<const TensorView> inputs);
  void set_key(std::span<const TensorView> inputs, bool capacities);
  std::vector<std::vector<Follower>> open_axes() const;
  void find_followers(std::span<const TensorView> inputs);
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
  Status take_replacements(std::span<const Replacement> replaced);
  Status check_replacement(const Replacement& r) const;
  Status run_dependents();
  Status run_all_again();
  void put_replaced(const PlannedStep& step);
  TensorView view(graph::ValueId v) const;

  GraphInfo info_;
  ControlSteps controls_;
  PlanOptions options_;
  std::size_t plan_cache_, plans_made_ = 0;
  States states_;
  std::vector<bool> state_inputs_;  // [inputs]; empty without states
  std::vector<Follower> followers_;
  bool followers_known_ = false;
  bool exact_ = false;      // this graph is planned for lengths, not for capacities
  std::vector<Shape> key_;  // of the plan that is looked for
  std::vector<std::unique_ptr<Plan>> plans_;  // most recently used first
  Plan* current_ = nullptr;
  std::vector<Arena> arenas_;  // of each segment
  std::vector<Arena> staged_inputs_, staged_outputs_;
  Arena rerun_arena_;                                    // what dependents write
  std::vector<Arena> replacements_;                      // elements in the values' layouts
  std::vector<std::pair<graph::ValueId, void*>> given_;  // replaced values, theirs
  std::vector<TensorView> outputs_;
  std::vector<void*> step_inputs_, step_outputs_;  // operands of the running step
  std::vector<std::optional<Shape>> step_shapes_;
  std::vector<ops::AppendPlace> step_places_;
  std::vector<TensorView> control_inputs_, control_outputs_;
  Tap tap_;
  bool profile_ = false;
};

// 75 % of the physical memory.
std::size_t default_memory_limit();

}  // namespace fold8::exec
