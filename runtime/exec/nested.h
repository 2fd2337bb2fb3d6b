// Bodies of If, Loop and Scan: who feeds what.
//
//   If    node: condition, captured..            body: captured..                         ->
//   outputs Loop  node: trip_count?, condition?, carried.., captured..
//         body: iteration, condition, carried.., captured..  -> condition, carried.., scan
//         outputs..
//   Scan  node: states.., scan inputs.., captured..     body: the same, scan inputs without their
//   axis
//         -> states.., scan outputs..            states = outputs - number of output_axes
#pragma once

#include "runtime/core/result.h"
#include "runtime/graph/graph.h"

namespace fold8::exec {

// Bodies exist and have as many inputs and outputs as the node.
Status check_control_flow(const graph::Node& n);

// f(body) -> Status for every body of every node; stops at the first error, which then names the
// node.
template <class F>
Status for_each_body(const graph::Graph& g, F f) {
  for (graph::NodeId id = 0; id < g.node_count(); ++id) {
    const graph::Node& n = g.node(id);
    Status status = ok_status();
    graph::each_field(n.op, [&](std::string_view, const auto& field) {
      if constexpr (std::is_same_v<std::decay_t<decltype(field)>,
                                   std::shared_ptr<const graph::Graph>>)
        if (field != nullptr && !n.dead && status.ok()) status = f(*field);
    });
    if (!status.ok()) return in_context("node '" + n.name + "'", std::move(status).error());
  }
  return ok_status();
}

struct ScanShape {
  const graph::Scan* op = nullptr;
  std::size_t states = 0, scanned = 0, stacked = 0;  // stacked: scan outputs
  std::int64_t input_axis(std::size_t i) const {
    return i < op->input_axes.size() ? op->input_axes[i] : 0;
  }
  std::int64_t output_axis(std::size_t o) const {
    return o < op->output_axes.size() ? op->output_axes[o] : 0;
  }
  bool input_reversed(std::size_t i) const {
    return i < op->input_directions.size() && op->input_directions[i] != 0;
  }
  bool output_reversed(std::size_t o) const {
    return o < op->output_directions.size() && op->output_directions[o] != 0;
  }
};
ScanShape scan_shape(const graph::Node& n, const graph::Scan& op);

}  // namespace fold8::exec
