// Binding one segment, in the order of the functions below. Internal to plan.cc.
#pragma once

#include "runtime/exec/plan.h"

namespace fold8::exec {

struct Binding {
  const GraphInfo& info;
  const PlanOptions& options;
  Plan& plan;
  Segment segment;
  std::vector<bool> needed;     // [values]: somebody reads the bytes
  ops::PrepareContext context;  // room, kept from node to node
};

// Types of the nodes from segment.begin on, up to the first that cannot be known yet (segment.end).
// Folds nodes whose outputs are known integers.
Status infer_segment(Binding& b);

// Which of the nodes run, in order: those whose outputs somebody reads as data.
std::vector<graph::NodeId> choose_nodes(Binding& b);

// Appends the node's step.
Status prepare_step(Binding& b, graph::NodeId n);

// Its step, for the types in plan.facts.
Status prepare_operator(Binding& b, const graph::Node& n, PlannedStep& step);
bool writes_nothing(const Binding& b, const PlannedStep& step);  // such a step is not run

// Views and in-place operators share memory; everything else is packed by lifetime.
Status place_values(Binding& b);

// With the largest extents where they depend on data.
const Shape& planned_shape(const Facts& f);
std::string megabytes(std::size_t bytes);

// Known elements as the bytes of the value: room for as many as there are. false: they are not
// known any more.
bool write_folded(const Facts& f, std::byte* bytes);

// Operand i's elements are needed to know shapes, and planning knows them: the step does not read
// its bytes.
bool known_while_planning(const graph::Op& op, std::size_t i, const Facts& f);

}  // namespace fold8::exec
