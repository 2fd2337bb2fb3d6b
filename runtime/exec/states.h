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

  // In place: `keeper` appends to `now`, whose rows along the axis are `stride` from one head to
  // the next, and `next` is not used.
  graph::NodeId keeper = graph::kNoNode;  // kNoNode: apart
  std::size_t append = 0;                 // which of ops::appends()
  std::int64_t stride = 0, ready = 0;     // ready: rows that `made` holds
  Arena made;                             // ops::append_bytes()

  bool in_place() const { return keeper != graph::kNoNode; }
  std::int64_t length() const { return axis < 0 || !started ? 0 : shape.extent(axis); }
};

class States {
 public:
  static constexpr std::int64_t kFirstCapacity = 64;

  // Which axis grows is read from the operators that make `output`, or from the declared shapes.
  // capacity 0: kFirstCapacity; it doubles when it is used up. in_place: where the operators can.
  Status add(const GraphInfo& info, graph::ValueId output, graph::ValueId input,
             std::int64_t capacity, bool in_place);
  bool empty() const { return states_.empty(); }
  std::span<const State> all() const { return states_; }
  const State* of_output(graph::ValueId v) const;
  bool in_place(graph::ValueId v) const;  // an input or output of such a state
  // States that are to be in place no longer are.
  void separate(const graph::Graph& g);
  // Of node n's appends; empty if none is in place. Good until states grow.
  void find_places(const graph::Graph& g, graph::NodeId n,
                   std::vector<ops::AppendPlace>& places) const;

  // Gives the states that have not started their shapes: declared extents, or those of the symbols
  // that other inputs have given (`symbols`, < 0: not given). Empty along the growing axis, zeros
  // otherwise. views[i] of a state's input becomes its contents. memory_limit: bytes of all of
  // them.
  Status bind(const graph::Graph& g, std::span<const std::int64_t> symbols,
              std::span<TensorView> views, std::size_t memory_limit);

  // What plans are found by: capacities where the views have lengths.
  void set_capacities(std::vector<Shape>& key) const;
  // Every output of the updated plan fits the memory. If not, the memory has grown now and another
  // plan is needed: false.
  bool make_room(const Plan& plan);
  // Where the run finds and leaves them.
  void place(const graph::Graph& g, Plan& plan);
  // Outputs that the segment writes to memory of their own are written where they are kept.
  void redirect(Plan& plan, Segment& segment) const;
  // After a run: what it has made can be the input of another one.
  Status check(const graph::Graph& g, const Plan& plan) const;
  // What it has made is.
  void keep(const Plan& plan);

  void reset();
  // The first `length` of each growing state remain; an error if one is shorter.
  Status truncate(const graph::Graph& g, std::int64_t length);
  // The first `rows` of a state that grows, all of another; it has started.
  Tensor copy(const graph::Graph& g, const State& s, std::int64_t rows) const;

 private:
  std::vector<State> states_;
};

// "past_key.*", "present.*": each `*` of `input` stands for what the same `*` of `output` matched.
// Pairs in the order of the graph's outputs; an error if there are none, or an input is missing.
Result<std::vector<std::pair<graph::ValueId, graph::ValueId>>> match_states(
    const graph::Graph& g, const std::string& output, const std::string& input);

}  // namespace fold8::exec
