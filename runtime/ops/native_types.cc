// Two questions per operator: which order of elements, and what becomes of quantized operands.
#include "runtime/ops/native_types.h"

#include "runtime/ops/reduce_axes.h"

namespace fold8::ops {
namespace {

enum class Order {
  any,     // as they are, each operand by its own strides
  follow,  // all like input 0
  plain,
  channels_last,
};
enum class Codes {
  keep,  // bytes are moved, or the operator knows all its 8-bit types
  u8,    // u8 codes; s8 is turned into u8 (code and zero point + 128)
  real,  // dequantize before, quantize behind
};
struct Rule {
  Order order = Order::plain;
  Codes codes = Codes::keep;
};

template <class... Os>
bool is_one_of(const graph::Op& op) {
  return (std::holds_alternative<Os>(op) || ...);
}

bool per_tensor(const TensorType& t) {
  return t.quant && is_quantizable(t.dtype) && t.quant->is_per_tensor();
}

bool follows_channels_last_reduction(const graph::Reduce& op, const PrepareContext& c) {
  const int rank = c.type(0).shape.rank();
  const auto axes = reduced_axes(op, c.ints(1), c.has(1), rank);
  return axes.ok() && *axes && is_spatial_reduction(**axes, rank);
}

Rule rule_of(const graph::Op& op, const PrepareContext& c) {
  using namespace graph;
  if (is_one_of<Transpose, Concat, Split, Slice, Pad, Expand, Tile, DepthToSpace, SpaceToDepth,
                Relayout, Identity, ShapeOf, SizeOf>(op))
    return {Order::any, Codes::keep};
  if (is_one_of<Reshape, Flatten, Squeeze, Unsqueeze>(op)) {
    const bool both =
        c.type(0).layout == Layout::channels_last && c.out(0).layout == Layout::channels_last;
    return {both && !(c.type(0).shape == c.out(0).shape) ? Order::plain : Order::any, Codes::keep};
  }
  if (is_one_of<Where>(op))
    return {Order::any, c.type(1).quant == c.type(2).quant && c.type(1).quant == c.out(0).quant
                            ? Codes::keep
                            : Codes::real};
  if (is_one_of<Binary>(op)) return {Order::any, Codes::u8};
  if (is_one_of<Cast, Quantize, Dequantize, Lookup>(op)) return {Order::follow, Codes::keep};
  if (is_one_of<Unary>(op)) return {Order::follow, Codes::u8};
  if (is_one_of<Affine, BatchNorm>(op)) return {Order::follow, Codes::real};
  if (const auto* pool = std::get_if<Pool>(&op)) {
    if (pool->kind == PoolKind::lp) return {Order::follow, Codes::real};
    if (pool->kind == PoolKind::max && c.wants(1)) return {Order::plain, Codes::keep};
    return {Order::follow, pool->kind == PoolKind::max && c.type(0).quant != c.out(0).quant
                               ? Codes::real
                               : Codes::u8};
  }
  if (const auto* r = std::get_if<Resize>(&op))
    return {Order::follow, r->mode == ResizeMode::nearest && c.type(0).quant == c.out(0).quant
                               ? Codes::keep
                               : Codes::real};
  if (const auto* r = std::get_if<Reduce>(&op))
    return {follows_channels_last_reduction(*r, c) ? Order::follow : Order::plain, Codes::real};
  if (const auto* n = std::get_if<Norm>(&op)) {
    if (n->kind == NormKind::group || n->kind == NormKind::instance)
      return {Order::follow, Codes::real};
    return {Order::plain, c.has(3) || (c.wants(1)) ? Codes::real : Codes::u8};
  }
  if (is_one_of<Conv>(op)) return {Order::channels_last, Codes::u8};
  if (is_one_of<Linear>(op)) return {Order::plain, Codes::u8};
  if (is_one_of<Softmax, Lrn, CumSum, Einsum, Attention, Rotary>(op))
    return {Order::plain, Codes::real};
  return {Order::plain, Codes::keep};
}

// Adds operand i's type to `changes` unless it would be t itself. `first`: the order of operand 0.
void adapt(std::size_t i, const TensorType& t, const Rule& rule, Layout first,
           std::vector<NativeTypes::Change>& changes) {
  if (t.layout != Layout::plain && t.layout != Layout::channels_last) return;
  Layout layout = t.layout;
  if (t.shape.rank() >= 3 || t.layout == Layout::channels_last) {
    if (rule.order == Order::plain) layout = Layout::plain;
    if (rule.order == Order::channels_last) layout = Layout::channels_last;
    if (rule.order == Order::follow) layout = first;
  }
  const bool real = rule.codes == Codes::real && per_tensor(t);
  const bool flip = rule.codes == Codes::u8 && per_tensor(t) && t.dtype == DType::s8;
  if (layout == t.layout && !real && !flip) return;
  TensorType& n = changes.emplace_back(NativeTypes::Change{i, t}).type;
  n.layout = layout;
  if (flip) {
    n.dtype = DType::u8;
    n.quant = *QuantParams::per_tensor(t.quant->scale(), t.quant->zero_point() + 128);
  }
  if (real) {
    n.dtype = DType::f32;
    n.quant.reset();
  }
}

}  // namespace

NativeTypes native_types(const graph::Op& op, const PrepareContext& c) {
  const Rule rule = rule_of(op, c);
  const bool weighted =
      std::holds_alternative<graph::Linear>(op) || std::holds_alternative<graph::Conv>(op);
  const Layout first =
      c.has(0) && c.type(0).layout == Layout::channels_last ? Layout::channels_last : Layout::plain;
  const bool quantizes = std::holds_alternative<graph::Affine>(op) ||
                         std::holds_alternative<graph::BatchNorm>(op) ||
                         std::holds_alternative<graph::Norm>(op);
  NativeTypes n;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    // Operands other than activations (weights, per-channel vectors, indices) stay as they are.
    const bool fixed =
        i > 0 && ((weighted && i != 3) ||
                  (rule.order == Order::follow && !std::holds_alternative<graph::Where>(op)));
    if (c.has(i) && !fixed) adapt(i, c.type(i), rule, first, n.inputs);
  }
  for (std::size_t o = 0; o < c.outputs.size(); ++o) {
    if (!c.wants(o)) continue;
    // Kernels of norms and affines quantize their outputs themselves: their quantizer divides, too.
    Rule output = rule;
    if (quantizes && rule.codes == Codes::real && (o == 0 || o == 3)) output.codes = Codes::u8;
    adapt(o, c.out(o), output, first, n.outputs);
  }
  return n;
}

}  // namespace fold8::ops
