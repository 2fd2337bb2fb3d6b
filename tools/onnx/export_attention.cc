// Attention and rotary embedding in operators every runtime knows: products, softmax, slices.
#include <limits>

#include "tools/onnx/export_writer.h"

namespace fold8::onnx_io {
namespace {

using graph::Ints;

constexpr double kInf = std::numeric_limits<double>::infinity();

std::string transposed(NodeWriter& n, const std::string& x, const Ints& perm) {
  const std::string y = n.w.fresh(n.n.name + "/transposed");
  n.w.add("Transpose", {x}, {y}).set("perm", perm);
  return y;
}
std::string reshaped(NodeWriter& n, const std::string& x, const Ints& shape) {
  return n.w.emit("Reshape", {x, n.w.ints(shape)}, "reshaped");
}
// Elements [begin, end) along an axis.
std::string cut(NodeWriter& n, const std::string& x, std::int64_t axis, std::int64_t begin,
                std::int64_t end, std::int64_t step = 1) {
  return n.w.emit(
      "Slice", {x, n.w.ints({begin}), n.w.ints({end}), n.w.ints({axis}), n.w.ints({step})}, "part");
}
std::string concatenated(NodeWriter& n, const Names& parts, std::int64_t axis) {
  const std::string y = n.w.fresh(n.n.name + "/concat");
  n.w.add("Concat", parts, {y}).set("axis", axis);
  return y;
}

struct Heads {
  bool rows;
  std::int64_t offset, heads, depth;
};

// [B, heads, S, depth]
std::string heads_first(NodeWriter& n, std::size_t operand, const Heads& h) {
  std::string x = n.real(operand);
  if (!h.rows) return x;
  const Dim width = n.type(operand).shape[2];
  const std::int64_t own = h.heads * h.depth;
  if (!width.known() || width.value() != own) x = cut(n, x, 2, h.offset, h.offset + own);
  return transposed(n, reshaped(n, x, {0, 0, h.heads, h.depth}), {0, 2, 1, 3});
}
void write_rows(NodeWriter& n, const std::string& heads, std::int64_t width) {
  n.w.add("Reshape", {transposed(n, heads, {0, 2, 1, 3}), n.w.ints({0, 0, width})}, {n.y[0]});
}

// Keys or values with their past, written as `present` where that has a name.
std::string with_past(NodeWriter& n, const std::string& fresh, std::size_t past,
                      std::size_t present) {
  const std::string name = present < n.y.size() ? n.y[present] : "";
  if (!n.has(past)) {
    if (!name.empty()) n.w.add("Identity", {fresh}, {name});
    return fresh;
  }
  if (name.empty()) return concatenated(n, {n.real(past), fresh}, 2);
  n.w.add("Concat", {n.real(past), fresh}, {name}).set("axis", std::int64_t{2});
  return name;
}

// A copy of each head of keys for each of its heads of queries.
std::string repeated(NodeWriter& n, const std::string& x, const graph::Attention& op,
                     std::int64_t depth) {
  if (op.heads == op.kv_heads) return x;
  const std::string group = n.w.emit("Unsqueeze", {x, n.w.ints({2})}, "group");
  const std::string each =
      n.w.emit("Expand", {group, n.w.ints({1, 1, op.heads / op.kv_heads, 1, 1})}, "each");
  return reshaped(n, each, {0, op.heads, -1, depth});
}

// The extent of axis 2 as a scalar.
std::string tokens(NodeWriter& n, const std::string& x) {
  const std::string shape = n.w.emit("Shape", {x}, "shape");
  return n.w.emit("Gather", {shape, n.w.scalar(DType::s64, 2)}, "tokens");
}
std::string counted(NodeWriter& n, const std::string& count) {
  return n.w.emit("Range", {n.w.scalar(DType::s64, 0), count, n.w.scalar(DType::s64, 1)}, "range");
}

// 0 where the condition holds, else -inf.
std::string bias_where(NodeWriter& n, const std::string& seen) {
  return n.w.emit("Where", {seen, n.w.scalar(DType::f32, 0), n.w.scalar(DType::f32, -kInf)},
                  "bias");
}

// [S, T]: query i sees the keys up to past + i.
std::string causal_bias(NodeWriter& n, const std::string& q, const std::string& k) {
  const std::string at =
      n.w.emit("Unsqueeze", {counted(n, tokens(n, q)), n.w.ints({1})}, "query_at");
  const std::string last = n.has(4) ? n.w.emit("Add", {at, tokens(n, n.real(4))}, "last_seen") : at;
  return bias_where(n, n.w.emit("LessOrEqual", {counted(n, tokens(n, k)), last}, "seen"));
}

Status write(NodeWriter& n, const graph::Attention& op) {
  if (op.int8) return n.refuse("its products are INT8");
  const std::string q = heads_first(n, 0, {op.q_rows, op.q_offset, op.heads, op.depth});
  const std::string k =
      with_past(n, heads_first(n, 1, {op.k_rows, op.k_offset, op.kv_heads, op.depth}), 4, 1);
  const std::string v =
      with_past(n, heads_first(n, 2, {op.v_rows, op.v_offset, op.kv_heads, op.value_depth}), 5, 2);
  const std::string keys = transposed(n, repeated(n, k, op, op.depth), {0, 1, 3, 2});
  std::string x = n.w.emit("MatMul", {q, keys}, "products");
  x = n.w.emit("Mul", {x, n.w.scalar(DType::f32, op.scale)}, "scores");
  if (op.softcap > 0) {
    const std::string cap = n.w.scalar(DType::f32, op.softcap);
    x = n.w.emit("Mul", {n.w.emit("Tanh", {n.w.emit("Div", {x, cap}, "ratio")}, "bent"), cap},
                 "capped");
  }
  Names biases;
  if (n.has(3))
    biases.push_back(n.type(3).dtype == DType::boolean ? bias_where(n, n.real(3)) : n.real(3));
  if (op.causal) biases.push_back(causal_bias(n, q, k));
  std::string bias = biases.empty() ? "" : biases[0];
  if (biases.size() > 1) bias = n.w.emit("Add", {biases[0], biases[1]}, "biases");
  if (!bias.empty()) x = n.w.emit("Add", {x, bias}, "biased");
  const std::string p = n.w.fresh(n.n.name + "/softmax");
  n.w.add("Softmax", {x}, {p}).set("axis", std::int64_t{-1});
  const std::string values = repeated(n, v, op, op.value_depth);
  if (!op.y_rows)
    n.w.add("MatMul", {p, values}, {n.y[0]});
  else
    write_rows(n, n.w.emit("MatMul", {p, values}, "heads"), op.heads * op.value_depth);
  return ok_status();
}

// A table as [.., 1, S, .], to stand beside [B, heads, S, D].
Result<std::string> table(NodeWriter& n, std::size_t operand) {
  const int rank = n.type(operand).shape.rank();
  if (rank == 2 || rank == 4) return n.real(operand);
  if (rank != 3) return n.refuse("its tables have rank " + std::to_string(rank));
  return n.w.emit("Unsqueeze", {n.real(operand), n.w.ints({1})}, "table");
}

Status write(NodeWriter& n, const graph::Rotary& op) {
  const std::string x = heads_first(n, 0, {op.rows, 0, op.heads, op.depth});
  FOLD8_TRY(const std::string cos, table(n, 1));
  FOLD8_TRY(const std::string sin, table(n, 2));
  const Shape& shape = n.type(1).shape;
  const Dim width = shape[shape.rank() - 1];
  if (!width.known()) return n.refuse("the width of its tables is not known");
  const bool full = width.value() == op.dims;
  // First or second of every pair, of x or of a full table.
  const auto half = [&](const std::string& from, std::int64_t axis, bool second) {
    return op.interleaved
               ? cut(n, from, axis, second, op.dims, 2)
               : cut(n, from, axis, second ? op.dims / 2 : 0, second ? op.dims : op.dims / 2);
  };
  const auto of_table = [&](const std::string& t, bool second) {
    return full ? half(t, -1, second) : t;
  };
  const std::string u = half(x, 3, false), w = half(x, 3, true);
  const auto product = [&](const std::string& a, const std::string& b) {
    return n.w.emit("Mul", {a, b}, "product");
  };
  const std::string u2 =
      n.w.emit("Sub", {product(u, of_table(cos, false)), product(w, of_table(sin, false))}, "real");
  const std::string w2 = n.w.emit(
      "Add", {product(w, of_table(cos, true)), product(u, of_table(sin, true))}, "imaginary");
  Names parts{u2, w2};
  if (op.interleaved) {
    const std::string last = n.w.ints({4});
    const std::string pairs = concatenated(
        n,
        {n.w.emit("Unsqueeze", {u2, last}, "first"), n.w.emit("Unsqueeze", {w2, last}, "second")},
        4);
    parts = {reshaped(n, pairs, {0, 0, 0, op.dims})};
  }
  if (op.dims < op.depth) parts.push_back(cut(n, x, 3, op.dims, op.depth));
  if (op.rows)
    write_rows(n, concatenated(n, parts, 3), op.heads * op.depth);
  else
    n.w.add("Concat", parts, {n.y[0]}).set("axis", std::int64_t{3});
  return ok_status();
}

}  // namespace

Status write_attention(NodeWriter& n, const graph::Op& op, bool& known) {
  known = true;
  if (const auto* a = std::get_if<graph::Attention>(&op)) return write(n, *a);
  if (const auto* r = std::get_if<graph::Rotary>(&op)) return write(n, *r);
  known = false;
  return ok_status();
}

}  // namespace fold8::onnx_io
