#include "fusion/passes/quantized_matmul.h"

#include <cstring>
#include <map>
#include <optional>

namespace fold8::fusion {
namespace {

using graph::Graph;
using graph::kNoNode;
using graph::kNoValue;
using graph::MatMul;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

// [K, N] codes of one byte, transposed.
std::shared_ptr<Buffer> transposed(const Buffer& codes, std::size_t rows, std::size_t columns) {
  auto out = Buffer::allocate(codes.size());
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < columns; ++c)
      out->mutable_data()[c * rows + r] = codes.data()[r * columns + c];
  return out;
}

class Pass {
 public:
  explicit Pass(Graph& g) : g_(g), producers_(g.producers()) {}

  Result<Tally> run() {
    for (NodeId n = 0, end = g_.node_count(); n < end; ++n)
      if (!g_.node(n).dead && std::holds_alternative<MatMul>(g_.node(n).op))
        FOLD8_CHECK_OK(rewrite(n));
    if (tally_.applied > 0) FOLD8_CHECK_OK(g_.compact());
    return std::move(tally_);
  }

 private:
  // The stored matrix behind operand 1; kNoValue if it is no dequantized constant of rank 2.
  ValueId stored_weight(const Node& n) const {
    const NodeId p = producers_[static_cast<std::size_t>(n.inputs[1])];
    if (p == kNoNode || !std::holds_alternative<graph::Dequantize>(g_.node(p).op) ||
        g_.node(p).inputs.size() != 1)
      return kNoValue;
    const ValueId w = g_.node(p).inputs[0];
    const TensorType& t = g_.type(w);
    return g_.is_constant(w) && is_quantizable(t.dtype) && t.quant && t.shape.rank() == 2 &&
                   t.layout == Layout::plain
               ? w
               : kNoValue;
  }

  void decline(const Node& n, std::string why) {
    tally_.declined.push_back({"quantized_matmul_to_linear", n.name, std::move(why)});
  }

  Status rewrite(NodeId id) {
    const MatMul op = std::get<MatMul>(g_.node(id).op);
    const Node& n = g_.node(id);
    const ValueId w = stored_weight(n);
    if (w == kNoValue || op.transpose_a || op.alpha != 1 || g_.type(n.inputs[0]).shape.rank() < 2)
      return ok_status();
    const QuantParams& q = *g_.type(w).quant;
    const int output_axis = op.transpose_b ? 0 : 1;
    if (q.granularity() == Granularity::per_group ||
        (q.granularity() == Granularity::per_channel && q.axis() != output_axis)) {
      decline(n, "its weight scales do not belong to output columns");
      return ok_status();
    }
    FOLD8_TRY(const ValueId dequantized, oriented(w, op.transpose_b));
    Node& node = g_.node(id);
    node.op = graph::Linear{};
    node.inputs = {node.inputs[0], dequantized};
    ++tally_.applied;
    take_bias(id);
    return ok_status();
  }

  // An Add of a constant per output column, if nothing else reads the product: it becomes the
  // layer's bias.
  void take_bias(NodeId id) {
    const ValueId y = g_.node(id).outputs[0];
    if (g_.is_output(y)) return;
    NodeId reader = kNoNode;
    for (NodeId n = 0; n < g_.node_count(); ++n) {
      if (g_.node(n).dead) continue;
      for (ValueId v : g_.node(n).inputs) {
        if (v != y) continue;
        if (reader != kNoNode) return;
        reader = n;
      }
    }
    if (reader == kNoNode) return;
    const auto* add = std::get_if<graph::Binary>(&g_.node(reader).op);
    if (add == nullptr || add->kind != graph::BinaryKind::add ||
        add->activation != Activation::none)
      return;
    const std::vector<ValueId>& operands = g_.node(reader).inputs;
    const ValueId bias = operands[operands[0] == y ? 1 : 0];
    const auto columns = g_.type(g_.node(id).inputs[1]).shape.extent(0);
    if (!g_.is_constant(bias) || g_.type(bias).dtype != DType::f32) return;
    const Shape& shape = g_.type(bias).shape;
    if (shape.rank() < 1 || shape.rank() > g_.type(g_.node(id).inputs[0]).shape.rank() ||
        shape.back() != Dim(columns) || shape.count() != columns)
      return;
    const ValueId flat = g_.add_constant(g_.fresh_name(g_.value(bias).name + "_vector"),
                                         TensorType{DType::f32, Shape{columns}, {}, Layout::plain},
                                         g_.value(bias).constant);
    Node& layer = g_.node(id);
    layer.inputs.push_back(flat);
    layer.inside.push_back(g_.node(reader).name);
    layer.inside.push_back(g_.value(y).name);
    layer.outputs[0] = g_.node(reader).outputs[0];
    g_.erase(reader);
  }

  // Dequantize of w as [N, K].
  Result<ValueId> oriented(ValueId w, bool already) {
    if (const auto it = made_.find({w, already}); it != made_.end()) return it->second;
    ValueId stored = w;
    if (!already) {
      TensorType type = g_.type(w);
      const auto rows = type.shape.extent(0), columns = type.shape.extent(1);
      type.shape = Shape{columns, rows};
      if (type.quant->granularity() == Granularity::per_channel) {
        FOLD8_TRY(type.quant,
                  QuantParams::per_channel(
                      0, {type.quant->scales().begin(), type.quant->scales().end()},
                      {type.quant->zero_points().begin(), type.quant->zero_points().end()}));
      }
      auto data = transposed(*g_.value(w).constant, static_cast<std::size_t>(rows),
                             static_cast<std::size_t>(columns));
      stored = g_.add_constant(g_.fresh_name(g_.value(w).name + "_transposed"), std::move(type),
                               std::move(data));
    }
    const std::string name = g_.fresh_name(g_.value(stored).name + "_dequantized");
    const ValueId y =
        g_.add_value(name, TensorType{DType::f32, g_.type(stored).shape, {}, Layout::plain});
    g_.add_node(graph::Dequantize{}, name, {stored}, {y});
    return made_[{w, already}] = y;
  }

  Graph& g_;
  std::vector<NodeId> producers_;
  std::map<std::pair<ValueId, bool>, ValueId> made_;
  Tally tally_;
};

Result<Tally> run(Graph& g, const Context&) { return Pass(g).run(); }

}  // namespace

constinit const GraphPass quantized_matmul_to_linear{"quantized_matmul_to_linear", run};

}  // namespace fold8::fusion
