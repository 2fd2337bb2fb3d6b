#include "fusion/passes/dequantize_constants.h"

#include <algorithm>
#include <vector>

namespace fold8::fusion {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

// Which scale element i of a tensor has.
class ScaleIndex {
 public:
  ScaleIndex(const Shape& shape, const QuantParams& q) {
    if (q.is_per_tensor()) return;
    axis_ = static_cast<std::size_t>(shape.extent(q.axis()));
    inner_ = static_cast<std::size_t>(shape.count(q.axis() + 1, shape.rank()));
    group_ = q.granularity() == Granularity::per_group ? static_cast<std::size_t>(q.group()) : 1;
    grouped_ = q.granularity() == Granularity::per_group;
  }
  std::size_t operator()(std::size_t i) const {
    if (axis_ == 0) return 0;
    const std::size_t in = i % inner_, a = i / inner_ % axis_, out = i / inner_ / axis_;
    if (!grouped_) return a;
    const std::size_t groups = (axis_ + group_ - 1) / group_;
    return (out * groups + a / group_) * inner_ + in;
  }

 private:
  std::size_t axis_ = 0, inner_ = 1, group_ = 1;
  bool grouped_ = false;
};

template <class T>
std::vector<float> dequantized(std::span<const T> codes, const Shape& shape, const QuantParams& q) {
  std::vector<float> out(codes.size());
  const ScaleIndex scale_of(shape, q);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const std::size_t s = scale_of(i);
    out[i] = static_cast<float>(static_cast<std::int64_t>(codes[i]) - q.zero_point(s)) * q.scales()[s];
  }
  return out;
}

std::vector<float> reals(const Graph& g, ValueId v) {
  const TensorType& t = g.type(v);
  switch (t.dtype) {
    case DType::u8: return dequantized(g.constant<std::uint8_t>(v), t.shape, *t.quant);
    case DType::s8: return dequantized(g.constant<std::int8_t>(v), t.shape, *t.quant);
    case DType::s32: return dequantized(g.constant<std::int32_t>(v), t.shape, *t.quant);
    default: return {};
  }
}

bool applies(const Graph& g, const Node& n, bool biases_only) {
  if (n.dead || !std::holds_alternative<graph::Dequantize>(n.op) || n.inputs.size() != 1 || !g.is_constant(n.inputs[0])) return false;
  const TensorType& t = g.type(n.inputs[0]);
  return t.quant && t.layout == Layout::plain && t.quant->granularity() != Granularity::per_token &&
         (t.dtype == DType::s32 || (!biases_only && is_quantizable(t.dtype)));
}

Result<Tally> run(Graph& g, bool biases_only) {
  Tally tally;
  for (NodeId n = 0; n < g.node_count(); ++n) {
    if (!applies(g, g.node(n), biases_only)) continue;
    const ValueId q = g.node(n).inputs[0], y = g.node(n).outputs[0];
    const std::vector<float> values = reals(g, q);
    auto data = Buffer::allocate(values.size() * sizeof(float));
    std::copy(values.begin(), values.end(), reinterpret_cast<float*>(data->mutable_data()));
    g.value(y).type = TensorType{DType::f32, g.type(q).shape, {}, Layout::plain};
    g.value(y).has_type = true;
    g.value(y).constant = std::move(data);
    g.erase(n);
    ++tally.applied;
  }
  if (tally.applied > 0) FOLD8_CHECK_OK(g.compact());
  return tally;
}

}  // namespace

constinit const GraphPass dequantize_constants{"dequantize_constants", [](Graph& g, const Context&) { return run(g, false); }};
constinit const GraphPass dequantize_biases{"dequantize_biases", [](Graph& g, const Context&) { return run(g, true); }};

}  // namespace fold8::fusion
