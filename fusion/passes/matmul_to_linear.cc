// A product with a constant right side is a linear layer:
//   matmul(x, B [K,N])        =>  linear(x, W [N,K])            W = alpha * B^T
//   matmul(x, B [B..,K,N])    =>  linear(x, W [B..,N,K])
// transpose_a becomes a Transpose in front. The Add of a bias is fold_bias's.
#include <algorithm>

#include "fusion/passes/passes.h"
#include "fusion/rewrite/constants.h"

namespace fold8::fusion {

using graph::Graph;
using graph::MatMul;
using graph::ValueId;

namespace {

std::vector<Pattern> patterns() { return {op<MatMul>("", {any("x"), constant("w")})}; }

// By way of a tile of its own: the columns of a matrix whose rows are a power of two long lie in
// the same few sets of the cache.
void transpose(const float* from, std::size_t rows, std::size_t cols, float alpha, float* to) {
  constexpr std::size_t kTile = 32;
  float tile[kTile][kTile];
  for (std::size_t c0 = 0; c0 < cols; c0 += kTile)
    for (std::size_t r0 = 0; r0 < rows; r0 += kTile) {
      const std::size_t height = std::min(kTile, rows - r0), width = std::min(kTile, cols - c0);
      for (std::size_t r = 0; r < height; ++r)
        for (std::size_t c = 0; c < width; ++c) tile[c][r] = alpha * from[(r0 + r) * cols + c0 + c];
      for (std::size_t c = 0; c < width; ++c)
        std::copy_n(tile[c], height, to + (c0 + c) * rows + r0);
    }
}

// [.., K, N] as [.., N, K], times alpha.
ValueId transposed(Graph& g, ValueId w, bool swap, float alpha) {
  const Shape from = g.type(w).shape;
  if (!swap && alpha == 1.0f) return w;
  const int rank = from.rank();
  const auto rows = static_cast<std::size_t>(from.extent(rank - 2)),
             cols = static_cast<std::size_t>(from.extent(rank - 1));
  Shape to = from;
  if (swap) std::swap(to[rank - 2], to[rank - 1]);
  const auto source = g.constant<float>(w);
  auto buffer = Buffer::allocate(source.size_bytes());
  auto* out = reinterpret_cast<float*>(buffer->mutable_data());
  if (!swap)
    for (std::size_t i = 0; i < source.size(); ++i) out[i] = alpha * source[i];
  else
    for (std::size_t matrix = 0; matrix < source.size(); matrix += rows * cols)
      transpose(source.data() + matrix, rows, cols, alpha, out + matrix);
  return g.add_constant(g.fresh_name(g.value(w).name + "_linear"),
                        TensorType{DType::f32, to, {}, Layout::plain}, std::move(buffer));
}

ValueId with_rows_in_front(Graph& g, const Match& m) {
  const TensorType type = g.type(m["x"]);
  const int rank = type.shape.rank();
  graph::Ints perm;
  for (int i = 0; i < rank; ++i) perm.push_back(i);
  std::swap(perm[static_cast<std::size_t>(rank - 2)], perm[static_cast<std::size_t>(rank - 1)]);
  TensorType result = type;
  std::swap(result.shape[rank - 2], result.shape[rank - 1]);
  const std::string name = g.node(m.root).name + "/transpose_a";
  const ValueId v = g.add_value(g.fresh_name(name), result);
  g.add_node(graph::Transpose{perm}, name, {m["x"]}, {v});
  return v;
}

Result<Outcome> apply(const Match& m, Graph& g, const Context&) {
  const MatMul op = std::get<MatMul>(g.node(m.root).op);
  const TensorType x = g.type(m["x"]), w = g.type(m["w"]);
  if (g.is_constant(m["x"])) return Outcome{NotMine{}};  // fold_constants takes it
  if (x.dtype != DType::f32 || x.quant || w.dtype != DType::f32 || w.quant ||
      w.layout != Layout::plain)
    return Outcome{NotMine{}};
  if (w.shape.rank() < 2)
    return Outcome{Decline{"its right side '" + g.value(m["w"]).name + "' is a vector"}};
  if (w.shape.count() == 0) return Outcome{NotMine{}};
  if (x.shape.rank() == 0 || (op.transpose_a && x.shape.rank() < 2)) return Outcome{NotMine{}};
  // More axes in the weight than in x would be new axes of the result.
  if (w.shape.rank() > 2 && w.shape.rank() > x.shape.rank())
    return Outcome{Decline{"its right side has more axes than its left"}};
  const ValueId left = op.transpose_a ? with_rows_in_front(g, m) : m["x"];
  return Outcome{
      Replace{graph::Linear{}, {left, transposed(g, m["w"], !op.transpose_b, op.alpha)}, {}}};
}

}  // namespace

const Rewrite matmul_to_linear{"matmul_to_linear", patterns, apply};

}  // namespace fold8::fusion
