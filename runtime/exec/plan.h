// A plan: the steps of a graph for given input shapes, and where every value lies.
//
// A plan is a list of segments. A segment ends in front of an operator whose shapes depend on data
// that an earlier step computes (NonZero, a body of If or Loop, a Reshape to computed extents); the
// next one binds when that data is there.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/exec/arena.h"
#include "runtime/exec/control_flow.h"
#include "runtime/exec/engine.h"
#include "runtime/exec/facts.h"
#include "runtime/kernels/kernel_table.h"

namespace fold8::exec {

// What planning needs to know about a graph, computed once.
struct GraphInfo {
  explicit GraphInfo(const graph::Graph& graph, std::vector<graph::NodeId> execution_order);
  const graph::Graph& g;
  std::vector<graph::NodeId> order;
  std::vector<int>
      last_use;  // [values]: position in `order` of the last reader; kForever for graph outputs
  std::vector<int> made_at;  // [values]: position of the producer; -1 for inputs and constants
  std::vector<bool> is_input;
  ConstantFacts constants;
  // [nodes]: what all plans share. Filled while planning, by one thread: an executor's info is its
  // own.
  mutable std::vector<ops::NodeMemo> memos;
};
inline constexpr int kForever = INT32_MAX;

class States;
using ControlSteps = std::unordered_map<graph::NodeId, std::unique_ptr<ControlStep>>;

struct PlanOptions {
  const kernels::KernelTable* kernels = nullptr;
  ThreadPool* pool = nullptr;
  ControlSteps* controls = nullptr;
  const Engine* engine = nullptr;  // null: fold8's own kernels only
  const States* states = nullptr;  // of this graph, some of them in place; or null
  bool keep_all = false;           // every value has memory of its own
  std::size_t memory_limit = 0;    // bytes a plan may need
};

struct PlannedStep {
  graph::NodeId node = graph::kNoNode;
  std::unique_ptr<ops::Step> step;  // null for control flow
  ControlStep* control = nullptr;   // owned by PlanOptions.controls: bodies keep their plans
  std::span<const graph::ValueId> inputs, outputs;  // the node's
  std::string_view engine = "fold8";                // who prepared it
  std::size_t scratch_offset = 0;
  bool reports_shapes = false;  // an output's extent is known only after running
  bool idle = false;            // all outputs are empty
  bool appends = false;         // States::find_places() finds some
  std::size_t bytes = 0;        // read and written
  double microseconds = 0;      // of the last run, if profiled
};

struct Segment {
  int begin = 0, end = 0;  // positions in GraphInfo::order
  std::vector<PlannedStep> steps;
  std::size_t arena_bytes = 0;
  std::vector<Lifetime> lifetimes;                             // of the buffers packed in it
  std::vector<std::pair<graph::ValueId, std::size_t>> placed;  // offsets in the segment's arena
  std::vector<std::pair<graph::ValueId, graph::ValueId>>
      aliases;  // value, the one whose bytes it is
  std::vector<std::pair<graph::ValueId, const std::byte*>>
      folded;  // elements known without running, in folded_bytes
  std::vector<std::shared_ptr<Buffer>> folded_bytes;
  std::vector<graph::ValueId> kept;  // of `placed`: outputs that states take over
  bool kept_known = false;
  // What the binding depends on beyond the plan's input shapes; it holds while they are the same.
  std::vector<std::pair<graph::ValueId, Shape>> read_shapes;
  std::vector<std::pair<graph::ValueId, std::shared_ptr<const Buffer>>> read_data;
};

struct Elastic;  // update_plan.cc

struct Plan {
  std::vector<Shape> input_shapes;  // the key
  FactsTable facts;                 // with numbers for extents, as far as segments are bound
  std::vector<void*> data;          // [values]: where each lies in the current run; null: nowhere
  std::vector<bool> dynamic;        // [values]: the shape comes from a step, each run anew
  std::vector<bool> writable;       // [values]: lies in an arena of ours
  std::vector<Segment> segments;
  std::shared_ptr<Elastic> elastic;  // once update_plan() has seen it
  bool complete() const;
  std::size_t arena_bytes() const;
  std::size_t least_arena_bytes() const;  // what lives at the same time: no arena is smaller
};

// A plan without segments. Types of inputs are the graph's with `input_shapes`.
std::unique_ptr<Plan> start_plan(const GraphInfo& info, std::vector<Shape> input_shapes);

// Binds the segment that begins where the last one ends. Values of earlier segments have data in
// plan.data.
Status bind_next_segment(const GraphInfo& info, const PlanOptions& options, Plan& plan);

// The plan is one segment, and no shape in it depends on data.
bool can_update(const Plan& plan);

// Makes a plan that can_update() fit inputs of other extents, none larger than those it was bound
// for: what depends on them is inferred and prepared again, everything else stays, and so does the
// place of every value. Allocates nothing that it has not allocated before. false: the plan cannot
// be made to fit (a buffer would be too small, an operand could not be shared); it and its facts
// are of no use any more. So they are after an error.
Result<bool> update_plan(const GraphInfo& info, const PlanOptions& options,
                         std::span<const TensorView> inputs, Plan& plan);

// Inference finds no contradiction between these extents, as far as it comes.
bool shapes_agree(const GraphInfo& info, std::span<const Shape> inputs);

// Forgets segments [from, ..) and what their binding found out.
void drop_segments(const GraphInfo& info, Plan& plan, std::size_t from);

// Shapes and bytes the segment was bound for are those of the current run.
bool still_bound(const Plan& plan, const Segment& segment);

}  // namespace fold8::exec
