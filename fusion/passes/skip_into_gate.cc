// A gated feature map added to itself needs one pass over it, not two (squeeze and excitation with
// a shortcut, as in PaddleOCR's detectors):
//   add(x, mul(x, gate))  =>  mul(x, add(gate, 1))        gate [N, C, 1, ..] beside x [N, C, ..]
#include "fusion/passes/passes.h"
#include "fusion/rewrite/constants.h"

namespace fold8::fusion {

using graph::BinaryKind;
using graph::Graph;
using graph::ValueId;

namespace {

std::vector<Pattern> patterns() {
  return {binary(BinaryKind::add, any("x"), binary(BinaryKind::mul, any("x"), any("gate")))};
}

Result<Outcome> apply(const Match& m, Graph& g, const Context&) {
  const TensorType &x = g.type(m["x"]), &gate = g.type(m["gate"]);
  if (x.dtype != DType::f32 || gate.dtype != DType::f32 || x.quant || gate.quant ||
      !is_gate(gate.shape, x.shape))
    return Outcome{NotMine{}};
  const std::string name = g.fresh_name(g.value(m["gate"]).name + "_plus_1");
  const double unity = 1;
  const ValueId one = add_floats(g, name + "_one", Shape({}), std::span(&unity, 1));
  const ValueId more = g.add_value(name, g.type(m["gate"]));
  g.add_node(graph::Binary{BinaryKind::add}, name, {m["gate"], one}, {more});
  return Outcome{Replace{graph::Binary{BinaryKind::mul}, {m["x"], more}, {}}};
}

}  // namespace

const Rewrite skip_into_gate{"skip_into_gate", patterns, apply, nullptr, true};

}  // namespace fold8::fusion
