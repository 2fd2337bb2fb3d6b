#include "fusion/passes/fuse_quantize.h"

#include <algorithm>
#include <optional>

#include "fusion/passes/shifted_codes.h"
#include "fusion/passes/u8_streams.h"
#include "fusion/rewrite/index.h"

namespace fold8::fusion {
namespace {

using graph::Binary;
using graph::BinaryKind;
using graph::Graph;
using graph::kNoNode;
using graph::kNoValue;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

// Kernels that can round their f32 result to u8 in the same pass.
bool rounds_in_its_epilogue(const graph::Op& op) {
  if (const auto* b = std::get_if<Binary>(&op))
    return b->kind == BinaryKind::add || b->kind == BinaryKind::sub || b->kind == BinaryKind::mul ||
           b->kind == BinaryKind::div;
  if (const auto* u = std::get_if<graph::Unary>(&op)) return u->kind <= graph::UnaryKind::elu;
  if (const auto* n = std::get_if<graph::Norm>(&op))
    return n->kind == graph::NormKind::layer || n->kind == graph::NormKind::rms;
  return std::holds_alternative<graph::Conv>(op) || std::holds_alternative<graph::Linear>(op) ||
         std::holds_alternative<graph::Affine>(op);
}

class Fuser {
 public:
  explicit Fuser(Graph& g) : g_(g), index_(g) {}

  Tally run() {
    for (bool changed = true; changed;) {
      changed = false;
      for (NodeId n = 0; n < g_.node_count(); ++n)
        if (!g_.node(n).dead && step(n)) changed = true;
    }
    return std::move(tally_);
  }

 private:
  bool step(NodeId n) {
    const graph::Op& op = g_.node(n).op;
    bool done = false;
    if (std::holds_alternative<graph::Quantize>(op))
      done = quantize(n);
    else if (std::holds_alternative<graph::DynamicQuantize>(op))
      done = dynamic_quantize(n);
    else if (std::holds_alternative<graph::Conv>(op) || std::holds_alternative<graph::Linear>(op))
      done = read_integers(n);
    else if (std::holds_alternative<graph::MatMul>(op))
      done = false;
    tally_.applied += done;
    return done;
  }

  // The node that makes `v` if `v` has no reader but one and is no graph output.
  NodeId sole_producer(ValueId v) const {
    if (v == kNoValue || g_.is_output(v) || index_.consumers(v).size() != 1) return kNoNode;
    return index_.producer(v);
  }

  static bool constant_params(const Graph& g, const Node& quantize_or_dequantize,
                              ValueId quantized) {
    return quantize_or_dequantize.inputs.size() == 1 && g.type(quantized).quant &&
           g.type(quantized).quant->is_per_tensor();
  }

  // Dequantize with constant per-tensor params of u8/s8: the integers it reads; kNoValue otherwise.
  ValueId integers_behind(ValueId v) const {
    const NodeId p = index_.producer(v);
    if (p == kNoNode || !std::holds_alternative<graph::Dequantize>(g_.node(p).op)) return kNoValue;
    const ValueId q = g_.node(p).inputs[0];
    return constant_params(g_, g_.node(p), q) && is_quantizable(g_.type(q).dtype) ? q : kNoValue;
  }

  bool quantize(NodeId id) {
    const Node& n = g_.node(id);
    const ValueId x = n.inputs[0], q = n.outputs[0];
    if (!constant_params(g_, n, q)) return false;
    if (const ValueId same = integers_behind(x); same != kNoValue &&
                                                 g_.type(same).dtype == g_.type(q).dtype &&
                                                 g_.type(same).quant == g_.type(q).quant)
      return forward(id, same);
    if (const ValueId twin = equal_quantizer(id, x); twin != kNoValue) return forward(id, twin);
    const NodeId p = sole_producer(x);
    if (p == kNoNode) return beside_f32(id, q, kNoValue);
    if (only_moves_values(g_.node(p))) return move_up(id, p);
    if (g_.type(q).dtype != DType::u8) return false;
    if (const auto* b = std::get_if<Binary>(&g_.node(p).op)) absorb_operands(p, *b);
    if (const auto* pool = std::get_if<graph::Pool>(&g_.node(p).op))
      return average_in_integers(id, p, *pool);
    if (shift_codes(id, p)) return true;
    if (!rounds_in_its_epilogue(g_.node(p).op) || g_.node(p).outputs.size() != 1) return false;
    return round_in_producer(id, p);
  }

  // What an earlier Quantize makes of x in the same way; kNoValue if there is none.
  ValueId equal_quantizer(NodeId id, ValueId x) const {
    const ValueId q = g_.node(id).outputs[0];
    for (NodeId other : index_.consumers(x)) {
      const Node& o = g_.node(other);
      if (other >= id || !std::holds_alternative<graph::Quantize>(o.op)) continue;
      if (constant_params(g_, o, o.outputs[0]) && g_.type(o.outputs[0]).dtype == g_.type(q).dtype &&
          g_.type(o.outputs[0]).quant == g_.type(q).quant)
        return o.outputs[0];
    }
    return kNoValue;
  }

  // The Quantize goes: its reader reads `same`.
  bool forward(NodeId id, ValueId same) {
    const ValueId q = g_.node(id).outputs[0];
    if (g_.is_output(q)) return false;
    const std::vector<NodeId> readers = index_.consumers(q);
    for (NodeId r : readers) index_.remove(g_.node(r), r);
    index_.remove(g_.node(id), id);
    g_.erase(id);
    for (NodeId r : readers)
      std::replace(g_.node(r).inputs.begin(), g_.node(r).inputs.end(), q, same);
    // A reader that reads q twice is listed twice; put it back once.
    std::vector<NodeId> once = readers;
    std::sort(once.begin(), once.end());
    once.erase(std::unique(once.begin(), once.end()), once.end());
    for (NodeId r : once) index_.insert(g_.node(r), r);
    return true;
  }

  // P writes q itself; q takes over the name of the f32 value that vanishes.
  bool round_in_producer(NodeId id, NodeId p) {
    const ValueId x = g_.node(id).inputs[0], q = g_.node(id).outputs[0];
    edit(id, [&](Node& n) { n.dead = true; });
    edit(p, [&](Node& n) { n.outputs[0] = q; });
    take_name(x, q);
    g_.value(q).rescale = g_.value(x).rescale;
    g_.value(q).rescale_axis = g_.value(x).rescale_axis;
    return true;
  }

  // Quantize(Affine(Conv), * 1 + t): t is a whole number of steps, so the Conv writes the codes.
  bool shift_codes(NodeId id, NodeId affine) {
    const float t =
        shift_behind_layer(g_, affine, [this](ValueId v) { return index_.producer(v); });
    const ValueId q = g_.node(id).outputs[0];
    const auto steps = whole_steps(t, g_.type(q).quant->scale());
    if (t == 0 || !steps) return false;
    const NodeId layer = sole_producer(g_.node(affine).inputs[0]);
    if (layer == kNoNode) return false;
    edit(affine, [](Node& n) { n.dead = true; });
    edit(layer, [&](Node& n) {
      std::get<graph::Conv>(n.op).shift = *steps;
      n.inside.push_back(g_.node(affine).name);
    });
    take_name(g_.node(id).inputs[0], q);
    edit(id, [](Node& n) { n.dead = true; });
    edit(layer, [&](Node& n) { n.outputs[0] = q; });
    return true;
  }

  // The f32 tensor x vanishes: q stands for it now. Only names of graph outputs are fixed.
  void take_name(ValueId x, ValueId q) {
    if (!g_.is_output(q)) std::swap(g_.value(x).name, g_.value(q).name);
  }

  // Quantize(Move(a, ..)) -> Move(Quantize(a), ..)
  bool move_up(NodeId id, NodeId p) {
    const ValueId x = g_.node(id).inputs[0], q = g_.node(id).outputs[0];
    const TensorType quantized = g_.type(q);
    std::vector<ValueId> inputs = g_.node(p).inputs;
    for (std::size_t i = 0; i < data_operands(g_.node(p)); ++i) {
      if (g_.type(inputs[i]).dtype != DType::f32 || g_.is_constant(inputs[i])) return false;
    }
    for (std::size_t i = 0; i < data_operands(g_.node(p)); ++i) {
      TensorType type = g_.type(inputs[i]);
      type.dtype = quantized.dtype;
      type.quant = quantized.quant;
      const std::string name = g_.fresh_name(g_.value(inputs[i]).name + "_u8");
      const ValueId twin = g_.add_value(name, std::move(type));
      g_.add_node(graph::Quantize{}, name, {inputs[i]}, {twin});
      inputs[i] = twin;
    }
    index_.grow(g_);
    edit(id, [&](Node& n) { n.dead = true; });
    edit(p, [&](Node& n) {
      n.inputs = inputs;
      n.outputs[0] = q;
    });
    take_name(x, q);
    return true;
  }

  // Add and Mul read the integers behind dequantized operands (their result is rounded to u8 by the
  // caller): of both, or of a feature map whose gates are f32.
  void absorb_operands(NodeId p, const Binary& b) {
    if (b.kind != BinaryKind::add && b.kind != BinaryKind::mul) return;
    std::vector<ValueId> in = g_.node(p).inputs;
    std::size_t found = 0;
    for (ValueId& v : in)
      if (const ValueId q = integers_behind(v); q != kNoValue && g_.type(q).dtype == DType::u8)
        v = q, ++found;
    if (found == 2 || (found == 1 && b.kind == BinaryKind::mul))
      edit(p, [&](Node& n) { n.inputs = in; });
  }

  // Average pooling from u8 to u8: exact integer sums.
  bool average_in_integers(NodeId id, NodeId p, const graph::Pool& pool) {
    if (pool.kind != graph::PoolKind::average) return false;
    const ValueId x = integers_behind(g_.node(p).inputs[0]);
    if (x == kNoValue || g_.type(x).dtype != DType::u8) return false;
    edit(p, [&](Node& n) { n.inputs[0] = x; });
    return round_in_producer(id, p);
  }

  // Factors of the last axis in front of a rounding per token (what smoothing leaves where nothing
  // takes them) become part of it.
  bool takes_factor(NodeId id) {
    const NodeId p = index_.producer(g_.node(id).inputs[0]);
    if (p == kNoNode || g_.node(id).inputs.size() > 1) return false;
    const Node& n = g_.node(p);
    const auto* affine = std::get_if<graph::Affine>(&n.op);
    if (affine == nullptr || affine->activation != Activation::none ||
        affine->axis != g_.type(n.inputs[0]).shape.rank() - 1 || g_.type(n.inputs[0]).quant ||
        !g_.is_constant(n.inputs[1]) || !g_.is_constant(n.inputs[2]))
      return false;
    for (const float shift : g_.constant<float>(n.inputs[2]))
      if (shift != 0.0f) return false;
    const ValueId x = n.inputs[0], factor = n.inputs[1];
    const bool last = index_.consumers(n.outputs[0]).size() == 1 && !g_.is_output(n.outputs[0]);
    if (last) edit(p, [&](Node& a) { a.dead = true; });
    edit(id, [&](Node& q) { q.inputs = {x, factor}; });
    return true;
  }

  // A norm of rows along the last axis: the row of a scale per token is the row of the norm.
  bool is_row_norm(NodeId p, ValueId x) const {
    const auto* norm = std::get_if<graph::Norm>(&g_.node(p).op);
    return norm != nullptr &&
           (norm->kind == graph::NormKind::layer || norm->kind == graph::NormKind::rms) &&
           (norm->axis == -1 || norm->axis == g_.type(x).shape.rank() - 1);
  }

  // A norm whose result is read as f32 too, as the residual of a post-norm block is, writes the
  // codes beside it.
  bool beside_f32(NodeId id, ValueId q, ValueId scale) {
    const ValueId x = g_.node(id).inputs[0];
    const NodeId p = index_.producer(x);
    if (p == kNoNode || !is_row_norm(p, x) || g_.node(p).outputs[0] != x ||
        g_.type(q).dtype != DType::u8 || g_.node(p).outputs.size() > 2)
      return false;
    const auto rounds = [this](NodeId r) {
      return std::holds_alternative<graph::Quantize>(g_.node(r).op) ||
             std::holds_alternative<graph::DynamicQuantize>(g_.node(r).op);
    };
    const std::vector<NodeId>& readers = index_.consumers(x);
    if (!g_.is_output(x) && std::all_of(readers.begin(), readers.end(), rounds)) return false;
    edit(id, [](Node& n) { n.dead = true; });
    edit(p, [&](Node& n) {
      n.outputs.resize(4, kNoValue);
      n.outputs[2] = scale;
      n.outputs[3] = q;
    });
    return true;
  }

  // A norm whose only reader rounds per token writes codes and scales itself.
  bool dynamic_quantize(NodeId id) {
    const Node& n = g_.node(id);
    if (std::get<graph::DynamicQuantize>(n.op).onnx) return false;
    if (takes_factor(id)) return true;
    if (n.inputs.size() > 1 || std::get<graph::DynamicQuantize>(n.op).rotated) return false;
    const ValueId x = n.inputs[0];
    if (n.outputs.size() < 2) return false;
    const ValueId q = n.outputs[0], scale = n.outputs[1];
    const NodeId p = sole_producer(x);
    if (p == kNoNode) return beside_f32(id, q, scale);
    if (!is_row_norm(p, x)) return false;
    edit(id, [&](Node& d) { d.dead = true; });
    edit(p, [&](Node& m) {
      m.outputs.resize(3, kNoValue);
      m.outputs[0] = q;
      m.outputs[2] = scale;
    });
    take_name(x, q);
    return true;
  }

  // Linear and Conv over dequantized integers and constant s8 weights read both directly.
  bool read_integers(NodeId id) {
    const Node& n = g_.node(id);
    const ValueId x = integers_behind(n.inputs[0]);
    const NodeId wp = index_.producer(n.inputs[1]);
    if (x == kNoValue || wp == kNoNode ||
        !std::holds_alternative<graph::Dequantize>(g_.node(wp).op))
      return false;
    const ValueId w = g_.node(wp).inputs[0];
    const TensorType& wt = g_.type(w);
    if (!g_.is_constant(w) || !wt.quant || g_.node(wp).inputs.size() != 1 ||
        !is_quantizable(wt.dtype))
      return false;
    if (wt.quant->granularity() == Granularity::per_group) {
      return decline(n, "weights are quantized in groups along K");
    }
    if (!wt.quant->is_per_tensor() && wt.quant->axis() != output_axis(n, wt.shape.rank()))
      return decline(n, "its weight scales lie along axis " + std::to_string(wt.quant->axis()) +
                            ", not along the output channels");
    edit(id, [&](Node& m) {
      m.inputs[0] = x;
      m.inputs[1] = w;
    });
    return true;
  }

  static int output_axis(const Node& n, int rank) {
    if (const auto* conv = std::get_if<graph::Conv>(&n.op)) return conv->transposed ? 1 : 0;
    return rank - 2;
  }

  bool decline(const Node& n, std::string why) {
    const Declined d{"fuse_quantize", n.name, std::move(why)};
    if (std::find(tally_.declined.begin(), tally_.declined.end(), d) == tally_.declined.end())
      tally_.declined.push_back(d);
    return false;
  }

  template <class F>
  void edit(NodeId id, F&& f) {
    index_.remove(g_.node(id), id);
    f(g_.node(id));
    if (!g_.node(id).dead) index_.insert(g_.node(id), id);
  }

  Graph& g_;
  Index index_;
  Tally tally_;
};

Result<Tally> run_fuse_quantize(Graph& g, const Context&) {
  Tally tally = Fuser(g).run();
  FOLD8_CHECK_OK(g.compact());
  return tally;
}

}  // namespace

constinit const GraphPass fuse_quantize{"fuse_quantize", run_fuse_quantize};

}  // namespace fold8::fusion
