// The same plan for other extents: where states grow, most of a plan stays as it is from run to
// run. What does depend on the lengths (attention over the past, the arithmetic of masks and
// positions) gets new types and new steps; memory was planned for the largest lengths.
#include <algorithm>

#include "runtime/exec/bind.h"

namespace fold8::exec {
namespace {

std::size_t at(graph::ValueId v) { return static_cast<std::size_t>(v); }

}  // namespace

// What update_plan() remembers of a plan as it was bound.
struct Elastic {
  Elastic(const GraphInfo& info, const PlanOptions& options, Plan& plan)
      : binding{info, options, plan, {}, {}, {}} {}
  Binding binding;
  ops::InferContext infer;
  struct Before {
    Shape shape;
    bool ints = false;
  };
  std::vector<Before> before;  // of the outputs of a node
  ops::KnownInts ints;         // of its only output
  struct Position {
    graph::NodeId node;
    int step;  // in the segment; -1: none
    bool dirty;
  };
  std::vector<Position> positions;    // nodes behind the inputs, in order
  std::vector<std::size_t> room;      // [values]: bytes that were planned
  std::vector<graph::ValueId> root;   // [values]: whose memory it shares; kNoValue: its own
  std::vector<std::byte*> folded;     // [values]: bytes of known elements, or null
  std::vector<std::size_t> scratch;   // [steps]
  std::vector<std::uint8_t> views;    // [steps]: outputs are their inputs' bytes
  std::vector<std::uint8_t> changed;  // [values]: in this update
};

namespace {

class PlanUpdate {
 public:
  PlanUpdate(const GraphInfo& info, Plan& plan) : info_(info), plan_(plan), e_(*plan.elastic) {}

  // false: the plan does not fit these extents.
  Result<bool> run(std::span<const TensorView> inputs) {
    std::fill(e_.changed.begin(), e_.changed.end(), 0);
    bool any = false;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const graph::ValueId v = info_.g.inputs[i];
      Facts& f = plan_.facts.edit(v);
      if (f.type.shape == inputs[i].shape) continue;
      f.type.shape = inputs[i].shape;
      f.count_bytes();
      e_.changed[at(v)] = 1;
      any = true;
    }
    if (!any) return true;
    for (Elastic::Position& p : e_.positions) {
      const auto& in = info_.g.node(p.node).inputs;
      p.dirty = std::any_of(in.begin(), in.end(), [&](graph::ValueId v) {
        return v != graph::kNoValue && e_.changed[at(v)] != 0;
      });
      if (!p.dirty) continue;
      FOLD8_TRY(const bool fits, infer(p.node));
      if (!fits) return false;
    }
    for (const Elastic::Position& p : e_.positions) {
      if (!p.dirty || p.step < 0) continue;
      FOLD8_TRY(const bool fits, prepare(static_cast<std::size_t>(p.step)));
      if (!fits) return false;
    }
    return true;
  }

 private:
  Result<bool> infer(graph::NodeId id) {
    const graph::Node& n = info_.g.node(id);
    for (graph::ValueId v : n.outputs)
      if (v != graph::kNoValue) e_.changed[at(v)] = 0;
    // Known integers are remembered of single outputs only.
    const bool one = n.outputs.size() == 1;
    e_.before.clear();
    for (graph::ValueId v : n.outputs)
      e_.before.push_back(v == graph::kNoValue ? Elastic::Before{}
                                               : Elastic::Before{plan_.facts[v].type.shape,
                                                                 plan_.facts[v].ints != nullptr});
    if (one && e_.before[0].ints) e_.ints = *plan_.facts[n.outputs[0]].ints;
    FOLD8_CHECK_OK(infer_node(id, plan_.facts, e_.infer));
    for (std::size_t o = 0; o < n.outputs.size(); ++o) {
      const graph::ValueId v = n.outputs[o];
      if (v == graph::kNoValue) continue;
      const Facts& f = plan_.facts[v];
      if (f.bound || !f.type.shape.known() || !f.bytes || *f.bytes > e_.room[at(v)]) return false;
      if (e_.folded[at(v)] != nullptr && !write_folded(f, e_.folded[at(v)])) return false;
      const Elastic::Before& before = e_.before[o];
      const bool same = before.shape == f.type.shape && before.ints == (f.ints != nullptr) &&
                        (!before.ints || (one && same_ints(e_.ints, *f.ints)));
      e_.changed[at(v)] = !same;
    }
    return true;
  }

  static bool same_ints(const ops::KnownInts& a, const ops::KnownInts& b) {
    return a.real == b.real && a.values == b.values && a.reals == b.reals;
  }

  graph::ValueId root(graph::ValueId v) const {
    return e_.root[at(v)] == graph::kNoValue ? v : e_.root[at(v)];
  }

  // Steps whose output lies where an operand did still may write there.
  bool still_shares(const graph::Node& n) const {
    const graph::ValueId y = n.outputs[0];
    if (y == graph::kNoValue || e_.root[at(y)] == graph::kNoValue) return true;
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      const graph::ValueId x = n.inputs[i];
      if (x == graph::kNoValue || root(x) != root(y)) continue;
      if (plan_.facts[x].bytes != plan_.facts[y].bytes ||
          !ops::may_run_in_place(n.op, i, plan_.facts.type(x), plan_.facts.type(y)))
        return false;
    }
    return true;
  }

  Result<bool> prepare(std::size_t k) {
    PlannedStep& step = plan_.segments[0].steps[k];
    const graph::Node& n = info_.g.node(step.node);
    if (e_.views[k] != 0)
      return ops::is_view(n.op, plan_.facts.type(n.inputs[0]), plan_.facts.type(n.outputs[0]));
    if (!still_shares(n)) return false;
    step.idle = writes_nothing(e_.binding, step);
    if (step.idle) return true;
    step.step.reset();  // the new one takes its memory
    FOLD8_CHECK_OK(prepare_operator(e_.binding, n, step));
    return step.step->scratch_bytes() <= e_.scratch[k];
  }

  const GraphInfo& info_;
  Plan& plan_;
  Elastic& e_;
};

void find_positions(const GraphInfo& info, const Plan& plan, Elastic& e) {
  std::vector<std::uint8_t> reached(at(info.g.value_count()), 0);
  for (graph::ValueId v : info.g.inputs) reached[at(v)] = 1;
  std::vector<int> step_of(static_cast<std::size_t>(info.g.node_count()), -1);
  const auto& steps = plan.segments[0].steps;
  for (std::size_t k = 0; k < steps.size(); ++k)
    step_of[static_cast<std::size_t>(steps[k].node)] = static_cast<int>(k);
  for (graph::NodeId id : info.order) {
    const graph::Node& n = info.g.node(id);
    const bool behind = std::any_of(n.inputs.begin(), n.inputs.end(), [&](graph::ValueId v) {
      return v != graph::kNoValue && reached[at(v)] != 0;
    });
    if (!behind) continue;
    e.positions.push_back({id, step_of[static_cast<std::size_t>(id)], false});
    for (graph::ValueId v : n.outputs)
      if (v != graph::kNoValue) reached[at(v)] = 1;
  }
}

std::shared_ptr<Elastic> remember(const GraphInfo& info, const PlanOptions& options, Plan& plan) {
  auto e = std::make_shared<Elastic>(info, options, plan);
  const std::size_t values = at(info.g.value_count());
  const Segment& segment = plan.segments[0];
  e->room.assign(values, 0);
  for (graph::ValueId v = 0; v < info.g.value_count(); ++v)
    e->room[at(v)] = plan.facts[v].bytes.value_or(0);
  e->root.assign(values, graph::kNoValue);
  for (const auto& [v, source] : segment.aliases) e->root[at(v)] = source;
  e->folded.assign(values, nullptr);
  for (const auto& [v, bytes] : segment.folded) e->folded[at(v)] = const_cast<std::byte*>(bytes);
  e->changed.assign(values, 0);
  for (const PlannedStep& s : segment.steps) {
    e->scratch.push_back(s.step != nullptr ? s.step->scratch_bytes() : 0);
    e->views.push_back(s.idle && !s.outputs.empty() && s.outputs[0] != graph::kNoValue &&
                       e->root[at(s.outputs[0])] != graph::kNoValue);
  }
  find_positions(info, plan, *e);
  return e;
}

}  // namespace

bool can_update(const Plan& plan) {
  return plan.complete() && plan.segments.size() == 1 &&
         std::find(plan.dynamic.begin(), plan.dynamic.end(), true) == plan.dynamic.end();
}

Result<bool> update_plan(const GraphInfo& info, const PlanOptions& options,
                         std::span<const TensorView> inputs, Plan& plan) {
  if (plan.elastic == nullptr) plan.elastic = remember(info, options, plan);
  return PlanUpdate(info, plan).run(inputs);
}

bool shapes_agree(const GraphInfo& info, std::span<const Shape> inputs) {
  FactsTable facts(info.constants);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Facts& f = facts.edit(info.g.inputs[i]);
    f.type.shape = inputs[i];
    f.count_bytes();
  }
  ops::InferContext context;
  for (graph::NodeId id : info.order)
    if (is_control_flow(info.g.node(id).op) || !infer_node(id, facts, context).ok())
      return is_control_flow(info.g.node(id).op);
  return true;
}

}  // namespace fold8::exec
