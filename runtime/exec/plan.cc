#include "runtime/exec/plan.h"

#include <algorithm>
#include <cstring>

#include "runtime/exec/bind.h"

namespace fold8::exec {
namespace {

std::size_t at(graph::ValueId v) { return static_cast<std::size_t>(v); }

void set_shape(Facts& f, const Shape& shape) {
  f.type.shape = shape;
  f.count_bytes();
}

}  // namespace

GraphInfo::GraphInfo(const graph::Graph& graph, std::vector<graph::NodeId> execution_order)
    : g(graph),
      order(std::move(execution_order)),
      last_use(at(graph.value_count()), -1),
      made_at(at(graph.value_count()), -1),
      is_input(at(graph.value_count()), false),
      constants(graph),
      memos(static_cast<std::size_t>(graph.node_count())) {
  for (std::size_t p = 0; p < order.size(); ++p) {
    const graph::Node& n = g.node(order[p]);
    for (graph::ValueId v : n.inputs)
      if (v != graph::kNoValue) last_use[at(v)] = static_cast<int>(p);
    for (graph::ValueId v : n.outputs)
      if (v != graph::kNoValue) made_at[at(v)] = static_cast<int>(p);
  }
  for (graph::ValueId v : g.outputs) last_use[at(v)] = kForever;
  for (graph::ValueId v : g.inputs) is_input[at(v)] = true;
}

bool Plan::complete() const { return !segments.empty() && segments.back().end == kForever; }

std::size_t Plan::arena_bytes() const {
  std::size_t sum = 0;
  for (const Segment& s : segments) sum += s.arena_bytes;
  return sum;
}

std::size_t Plan::least_arena_bytes() const {
  std::size_t sum = 0;
  for (const Segment& s : segments) sum += least_bytes(s.lifetimes);
  return sum;
}

std::unique_ptr<Plan> start_plan(const GraphInfo& info, std::vector<Shape> input_shapes) {
  auto plan = std::make_unique<Plan>();
  plan->facts = FactsTable(info.constants);
  for (std::size_t i = 0; i < input_shapes.size(); ++i)
    set_shape(plan->facts.edit(info.g.inputs[i]), input_shapes[i]);
  plan->input_shapes = std::move(input_shapes);
  const std::size_t values = at(info.g.value_count());
  plan->data.assign(values, nullptr);
  plan->dynamic.assign(values, false);
  plan->writable.assign(values, false);
  for (graph::ValueId v = 0; v < info.g.value_count(); ++v)
    if (info.g.is_constant(v))
      plan->data[at(v)] = const_cast<std::byte*>(info.g.value(v).constant->data());
  return plan;
}

Status bind_next_segment(const GraphInfo& info, const PlanOptions& options, Plan& plan) {
  Binding b{info, options, plan, {}, {}, {}};
  b.segment.begin = plan.segments.empty() ? 0 : plan.segments.back().end;
  FOLD8_CHECK_OK(infer_segment(b));
  const std::vector<graph::NodeId> nodes = choose_nodes(b);
  b.segment.steps.reserve(nodes.size());
  for (graph::NodeId n : nodes) FOLD8_CHECK_OK(prepare_step(b, n));
  FOLD8_CHECK_OK(place_values(b));
  if (b.segment.end == static_cast<int>(info.order.size())) b.segment.end = kForever;
  plan.segments.push_back(std::move(b.segment));
  return ok_status();
}

void drop_segments(const GraphInfo& info, Plan& plan, std::size_t from) {
  while (plan.segments.size() > from) {
    const Segment& s = plan.segments.back();
    const int end = std::min(s.end, static_cast<int>(info.order.size()));
    for (int p = s.begin; p < end; ++p)
      for (graph::ValueId v : info.g.node(info.order[static_cast<std::size_t>(p)]).outputs) {
        if (v == graph::kNoValue) continue;
        plan.facts.reset(v);
        plan.data[at(v)] = nullptr;
        plan.dynamic[at(v)] = plan.writable[at(v)] = false;
      }
    for (const auto& read : s.read_data) plan.facts.edit(read.first).data = nullptr;
    plan.segments.pop_back();
  }
}

bool still_bound(const Plan& plan, const Segment& segment) {
  for (const auto& [v, shape] : segment.read_shapes)
    if (!(plan.facts[v].type.shape == shape)) return false;
  for (const auto& [v, bytes] : segment.read_data)
    if (plan.data[at(v)] == nullptr ||
        std::memcmp(plan.data[at(v)], bytes->data(), bytes->size()) != 0)
      return false;
  return true;
}

}  // namespace fold8::exec
