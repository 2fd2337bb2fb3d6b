#include "fusion/passes/norm_from_accumulators.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "fusion/rewrite/index.h"

namespace fold8::fusion {
namespace {

using graph::Graph;
using graph::kNoNode;
using graph::kNoValue;
using graph::Linear;
using graph::Node;
using graph::NodeId;
using graph::Norm;
using graph::NormKind;
using graph::ValueId;

constexpr std::int64_t kLongestExactSum = 65793;  // 255 * 128 * K < 2^31

ValueId operand(const Node& n, std::size_t i) {
  return i < n.inputs.size() ? n.inputs[i] : kNoValue;
}

class Pass {
 public:
  explicit Pass(Graph& g) : g_(g), index_(g) {}

  Result<Tally> run() {
    for (NodeId n = 0, end = g_.node_count(); n < end; ++n)
      if (!g_.node(n).dead && std::holds_alternative<Norm>(g_.node(n).op)) FOLD8_CHECK_OK(norm(n));
    if (tally_.applied > 0) FOLD8_CHECK_OK(g_.compact());
    return std::move(tally_);
  }

 private:
  bool rows_are_last_axis(const Node& n) const {
    const auto& op = std::get<Norm>(n.op);
    const int rank = g_.type(n.inputs[0]).shape.rank();
    return (op.kind == NormKind::layer || op.kind == NormKind::rms) &&
           (op.axis == -1 || op.axis == rank - 1);
  }

  // Scales of the output columns; nullopt if the layer's sums do not fit INT32 or its weights have
  // zero points.
  std::optional<std::vector<float>> multipliers(const Node& layer) const {
    const TensorType &x = g_.type(layer.inputs[0]), &w = g_.type(layer.inputs[1]);
    if (x.dtype != DType::u8 || !x.quant || w.dtype != DType::s8 || !w.quant || w.shape.rank() != 2)
      return std::nullopt;
    if (!x.quant->is_per_tensor() && x.quant->granularity() != Granularity::per_token)
      return std::nullopt;
    const bool per_channel =
        w.quant->granularity() == Granularity::per_channel && w.quant->axis() == 0;
    if ((!per_channel && !w.quant->is_per_tensor()) || w.quant->has_zero_points() ||
        w.shape.extent(1) > kLongestExactSum)
      return std::nullopt;
    std::vector<float> m;
    for (std::int64_t n = 0; n < w.shape.extent(0); ++n) {
      const float scale = w.quant->scales()[per_channel ? static_cast<std::size_t>(n) : 0];
      m.push_back(x.quant->is_per_tensor()
                      ? static_cast<float>(static_cast<double>(x.quant->scale()) * scale)
                      : scale);
    }
    return m;
  }

  Status norm(NodeId id) {
    const Node& n = g_.node(id);
    const ValueId v = n.inputs[0];
    if (g_.type(v).dtype != DType::f32 || !rows_are_last_axis(n) || operand(n, 3) != kNoValue)
      return ok_status();
    const NodeId maker = index_.producer(v);
    if (maker == kNoNode || !std::holds_alternative<Linear>(g_.node(maker).op)) return ok_status();
    const Node& layer = g_.node(maker);
    if (std::get<Linear>(layer.op).activation != Activation::none) return ok_status();
    // Kernels of norms add f32 residuals only.
    if (operand(layer, 3) != kNoValue && g_.type(operand(layer, 3)).dtype != DType::f32)
      return ok_status();
    const auto m = multipliers(layer);
    if (!m) return ok_status();
    const auto norms = std::count_if(index_.consumers(v).begin(), index_.consumers(v).end(),
                                     [&](NodeId r) { return r == id; });
    const bool others =
        g_.is_output(v) || static_cast<std::ptrdiff_t>(index_.consumers(v).size()) > norms;
    if (norms != 1 || (others && n.outputs.size() > 1 && n.outputs[1] != kNoValue))
      return ok_status();
    fuse(id, maker, *m, others);
    return ok_status();
  }

  void fuse(NodeId id, NodeId maker, const std::vector<float>& m, bool sum_is_read) {
    const ValueId v = g_.node(id).inputs[0];
    const Node layer = g_.node(maker);
    TensorType type = g_.type(v);
    type.dtype = DType::s32;
    const ValueId acc = g_.add_value(g_.fresh_name(g_.value(v).name + "_acc"), std::move(type));
    const ValueId multiplier =
        g_.add_constant<float>(g_.fresh_name(g_.value(v).name + "_multiplier"),
                               Shape{static_cast<std::int64_t>(m.size())}, m);
    index_.grow(g_);
    edit(maker, [&](Node& l) {
      const ValueId rows = operand(l, 4);  // the scales of a per-token operand stay beside it
      l.inputs.resize(2);
      if (rows != kNoValue) l.inputs.insert(l.inputs.end(), {kNoValue, kNoValue, rows});
      l.outputs[0] = acc;
    });
    edit(id, [&](Node& n) {
      n.inputs.resize(7, kNoValue);
      n.inputs[0] = acc;
      n.inputs[3] = operand(layer, 3);
      n.inputs[4] = multiplier;
      n.inputs[5] = operand(layer, 2);
      n.inputs[6] = operand(layer, 4);
      while (n.inputs.back() == kNoValue) n.inputs.pop_back();
      if (sum_is_read) {
        n.outputs.resize(std::max<std::size_t>(n.outputs.size(), 2), kNoValue);
        n.outputs[1] = v;
      } else {
        n.inside.push_back(g_.value(v).name);
      }
    });
    ++tally_.applied;
  }

  template <class F>
  void edit(NodeId id, F&& f) {
    index_.remove(g_.node(id), id);
    f(g_.node(id));
    index_.insert(g_.node(id), id);
  }

  Graph& g_;
  Index index_;
  Tally tally_;
};

Result<Tally> run_pass(Graph& g, const Context&) { return Pass(g).run(); }

}  // namespace

constinit const GraphPass norm_from_accumulators{"norm_from_accumulators", run_pass};

}  // namespace fold8::fusion
