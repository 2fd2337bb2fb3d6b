#include "runtime/exec/nested.h"

namespace fold8::exec {
namespace {

Status check_body(const std::shared_ptr<const graph::Graph>& body, const char* which,
                  std::size_t inputs, std::size_t outputs) {
  if (body == nullptr) return invalid_model(std::string("has no ") + which);
  if (body->inputs.size() != inputs)
    return invalid_model(std::string(which) + " takes " + std::to_string(body->inputs.size()) +
                         " inputs, the node gives " + std::to_string(inputs));
  if (body->outputs.size() != outputs)
    return invalid_model(std::string(which) + " gives " + std::to_string(body->outputs.size()) +
                         " outputs, the node needs " + std::to_string(outputs));
  return ok_status();
}

}  // namespace

Status check_control_flow(const graph::Node& n) {
  const std::size_t in = n.inputs.size(), out = n.outputs.size();
  if (const auto* op = std::get_if<graph::If>(&n.op)) {
    if (in < 1 || n.inputs[0] == graph::kNoValue) return invalid_model("has no condition");
    FOLD8_CHECK_OK(check_body(op->then_branch, "then_branch", in - 1, out));
    return check_body(op->else_branch, "else_branch", in - 1, out);
  }
  if (const auto* op = std::get_if<graph::Loop>(&n.op)) {
    if (in < 2) return invalid_model("has " + std::to_string(in) + " inputs, expected 2 or more");
    if (op->carried < 0 || static_cast<std::size_t>(op->carried) > in - 2 ||
        static_cast<std::size_t>(op->carried) > out)
      return invalid_model("carries " + std::to_string(op->carried) + " values, but has " +
                           std::to_string(in) + " inputs and " + std::to_string(out) + " outputs");
    return check_body(op->body, "body", in, out + 1);
  }
  const auto& op = std::get<graph::Scan>(n.op);
  if (op.scan_inputs < 1 || static_cast<std::size_t>(op.scan_inputs) > in)
    return invalid_model("has no scan inputs");
  const ScanShape s = scan_shape(n, op);
  if (op.output_axes.size() > out || s.states + s.scanned > in)
    return invalid_model("has " + std::to_string(in) + " inputs for " + std::to_string(s.states) +
                         " states and " + std::to_string(s.scanned) + " scan inputs");
  return check_body(op.body, "body", in, out);
}

ScanShape scan_shape(const graph::Node& n, const graph::Scan& op) {
  ScanShape s;
  s.op = &op;
  s.scanned = static_cast<std::size_t>(op.scan_inputs);
  s.stacked = op.output_axes.size();
  s.states = n.outputs.size() >= s.stacked ? n.outputs.size() - s.stacked : 0;
  return s;
}

}  // namespace fold8::exec
