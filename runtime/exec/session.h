// Runs one model, one thread at a time. A run allocates nothing once a shape has been seen.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/core/tensor.h"
#include "runtime/exec/model.h"

namespace fold8::exec {

struct SessionOptions {
  int threads = 1;               // 0: usable_cpus()
  std::string engine = "fold8";  // or "onednn": the second engine, loaded on demand
  int plan_cache = 16;           // shapes remembered (LRU)
  bool keep_all =
      false;  // no buffer is reused: every value can be read after run() (reports, --dump)
  std::size_t memory_limit = 0;  // bytes one plan may need; 0: 75 % of the physical memory
};

// Elements that a value is to have in place of those a run gave it.
struct Replacement {
  graph::ValueId value = graph::kNoValue;
  TensorView elements;  // plain layout, the value's element type and its shape in that run
};

// Called after each operator with each of its outputs (calibration, reports). Data is valid during
// the call.
using Tap = std::function<Status(graph::ValueId, const TensorView&)>;

struct StepProfile {
  graph::NodeId node;
  std::string name, op;
  std::string engine;       // who ran it: "fold8", "onednn"
  double microseconds = 0;  // of the last run
  double macs = 0;
  std::size_t bytes = 0;  // read and written, weights included
  bool integer = false;   // an INT8 kernel: its peak is another than that of floats
};

class Session {
 public:
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const Model> model,
                                                 SessionOptions options = {});
  ~Session();

  const Model& model() const;
  // Inputs in the graph's order, plain layout; checked against the model (rank, known extents,
  // dtype; equal symbols must be equal extents). Errors name the input, what was given and what is
  // expected. Without keep_all, aligned inputs are read where they lie: they must stay as long as
  // value() is asked for them.
  Status run(const std::vector<TensorView>& inputs);
  // The last run, had these values come out otherwise: runs the steps that depend on them, no
  // others (all of them where a shape depends on data), and outputs() are the new ones. Any number
  // of times; each starts from what run() left. Needs keep_all, a run that succeeded, and no
  // states; value() is then undefined until the next run. Errors name the value.
  Status rerun(const std::vector<Replacement>& replaced);
  // Outputs of the last run, in the graph's order, plain layout; valid until the next run. Those
  // that are states have no data here: state() copies them.
  const std::vector<TensorView>& outputs() const;
  // Any value of the last run, in plain layout (keep_all, or graph inputs/outputs/constants);
  // copies.
  Result<Tensor> value(graph::ValueId v) const;

  // From now on the output of a run is the input of the next; run() ignores what it is given for
  // that input. A state grows along one axis, from nothing, or is replaced, from zeros. While it
  // fits its capacity (extents along that axis; 0: a default; doubled when it is used up), runs
  // neither plan nor allocate. Names may hold up to three '*', which match the same in both:
  // "present.*", "past.*". Adds as many states as there are outputs of that name.
  Status add_state(const std::string& output, const std::string& input, std::int64_t capacity = 0);
  bool is_state(std::size_t input) const;  // run() ignores what it is given for this input
  std::size_t state_count() const;
  std::int64_t state_length(std::size_t i) const;  // along the axis that grows; 0 without one
  Result<Tensor> state(std::size_t i) const;       // a copy; an error before the first run
  void reset_states();                             // as in the beginning; capacities remain
  Status truncate_states(std::int64_t length);     // of all that grow; the rest is forgotten
  std::size_t plans_made() const;

  void set_tap(Tap tap);
  void enable_profile(bool on);
  std::vector<StepProfile> profile() const;
  std::size_t arena_bytes() const;        // of the current plan
  std::size_t least_arena_bytes() const;  // what of it lives at the same time: the lower bound

 private:
  Session();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fold8::exec
