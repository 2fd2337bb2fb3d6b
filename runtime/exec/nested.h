// Bodies of If, Loop and Scan: who feeds what.
//
//   If    node: condition, captured..            body: captured..                         -> outputs
//   Loop  node: trip_count?, condition?, carried.., captured..
//         body: iteration, condition, carried.., captured..  -> condition, carried.., scan outputs..
//   Scan  node: states.., scan inputs.., captured..     body: the same, scan inputs without their axis
//         -> states.., scan outputs..            states = outputs - number of output_axes
#pragma once

#include "runtime/core/result.h"
#include "runtime/graph/graph.h"

namespace fold8::exec {

// Bodies exist and have as many inputs and outputs as the node.
Status check_control_flow(const graph::Node& n);

struct ScanShape {
  const graph::Scan* op = nullptr;
  std::size_t states = 0, scanned = 0, stacked = 0;    // stacked: scan outputs
  std::int64_t input_axis(std::size_t i) const { return i < op->input_axes.size() ? op->input_axes[i] : 0; }
  std::int64_t output_axis(std::size_t o) const { return o < op->output_axes.size() ? op->output_axes[o] : 0; }
  bool input_reversed(std::size_t i) const { return i < op->input_directions.size() && op->input_directions[i] != 0; }
  bool output_reversed(std::size_t o) const { return o < op->output_directions.size() && op->output_directions[o] != 0; }
};
ScanShape scan_shape(const graph::Node& n, const graph::Scan& op);

}  // namespace fold8::exec
