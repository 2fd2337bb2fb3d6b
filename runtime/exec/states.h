// Tensors that a session keeps from one run to the next: an output of a run is an input of the
// following one. Most grow along one axis (keys and values of a decoder); a state without such an
// axis is replaced (recurrent networks).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/exec/plan.h"

namespace fold8::exec {

struct State {
  graph::ValueId output = graph::kNoValue, input = graph::kNoValue;
  std::size_t input_index = 0;  // among the graph's inputs
  int axis = -1;                // that grows; -1: none does
  std::int64_t capacity = 0;    // extents along the axis that plans and memory are made for
  bool started = false;         // shape is known: from the first run on
  Shape shape;                  // the input's, as the next run sees it
  Arena now, next;              // dense: what the run reads, and where it writes

  std::int64_t length() const { return axis < 0 || !started ? 0 : shape.extent(axis); }
};

class States {
 public:
  static constexpr std::int64_t kFirstCapacity = 64;

  // Which axis grows is read from the operators that make `output`, or from the declared shapes.
  // capacity 0: kFirstCapacity; it doubles when it is used up.
  Status add(const GraphInfo& info, graph::ValueId output, graph::ValueId input,
             std::int64_t capacity);
  bool empty() const { return states_.empty(); }
  std::span<const State> all() const { return states_; }
  const State* of_output(graph::ValueId v) const;

  // Gives the states that have not started their shapes: declared extents, or those of the symbols
  // that other inputs have given (`symbols`, < 0: not given). Empty along the growing axis, zeros
  // otherwise. views[i] of a state's input becomes its contents.
  Status bind(const graph::Graph& g, std::span<const std::int64_t> symbols,
              std::span<TensorView> views);

  // What plans are found by: capacities where the views have lengths.
  void set_capacities(std::vector<Shape>& key) const;
  // Every output of the updated plan fits the memory. If not, the memory has grown now and another
  // plan is needed: false.
  bool make_room(const Plan& plan);
  // Where the run finds and leaves them.
  void place(Plan& plan);
  // Outputs that the segment writes to memory of their own are written where they are kept.
  void redirect(Plan& plan, Segment& segment) const;
  // After a run.
  void keep(const Plan& plan);

  void reset();
  // The first `length` of each growing state remain; an error if one is shorter.
  Status truncate(const graph::Graph& g, std::int64_t length);
  TensorView view(const graph::Graph& g, std::size_t i) const;  // null data before the first run

 private:
  std::vector<State> states_;
};

// "past_key.*", "present.*": each `*` of `input` stands for what the same `*` of `output` matched.
// Pairs in the order of the graph's outputs; an error if there are none, or an input is missing.
Result<std::vector<std::pair<graph::ValueId, graph::ValueId>>> match_states(
    const graph::Graph& g, const std::string& output, const std::string& input);

}  // namespace fold8::exec
