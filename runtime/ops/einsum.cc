// ONNX Einsum, f32: explicit or implicit output, ellipsis, repeated indices, any number of
// operands. The factors of one term are multiplied left to right except the last, which enters the
// sum by fma; terms ascend in row-major order of the summed indices (in the order the equation
// names them), from +0.
#include <cmath>

#include "runtime/ops/each_op.h"

namespace fold8::ops {
namespace {

// Index letters are 'A'-'Z', 'a'-'z'; the axes of an ellipsis get codes from 128 on.
struct Equation {
  std::vector<std::string> operands;
  std::string output;
};

Result<Equation> parse(const std::string& text, const std::vector<int>& ranks) {
  std::string s;
  for (char ch : text)
    if (ch != ' ') s += ch;
  const std::size_t arrow = s.find("->");
  std::string left = s.substr(0, arrow);
  Equation e;
  for (std::size_t at = 0; at <= left.size();) {
    const std::size_t comma = std::min(left.find(',', at), left.size());
    e.operands.push_back(left.substr(at, comma - at));
    at = comma + 1;
  }
  if (e.operands.size() != ranks.size())
    return invalid_model("equation '" + text + "' has " + std::to_string(e.operands.size()) +
                         " operands, " + std::to_string(ranks.size()) + " are given");
  int dots = 0;
  const auto expand = [&](std::string& term, int count) {
    if (const std::size_t at = term.find("..."); at != std::string::npos) {
      std::string axes;
      for (int i = 0; i < count; ++i) axes += static_cast<char>(128 + dots - count + i);
      term.replace(at, 3, axes);
    }
  };
  for (std::size_t i = 0; i < e.operands.size(); ++i)
    if (e.operands[i].find("...") != std::string::npos)
      dots = std::max(dots, ranks[i] + 3 - static_cast<int>(e.operands[i].size()));
  for (std::size_t i = 0; i < e.operands.size(); ++i) {
    expand(e.operands[i], std::max(0, ranks[i] + 3 - static_cast<int>(e.operands[i].size())));
    for (char ch : e.operands[i])
      if (static_cast<unsigned char>(ch) < 128 &&
          !((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z')))
        return invalid_model("equation '" + text + "' holds the character '" + std::string(1, ch) +
                             "'");
    if (static_cast<int>(e.operands[i].size()) != ranks[i])
      return invalid_model("equation '" + text + "': operand " + std::to_string(i) + " has rank " +
                           std::to_string(ranks[i]));
  }
  if (arrow != std::string::npos) {
    e.output = s.substr(arrow + 2);
    expand(e.output, dots);
    for (char ch : e.output) {
      bool found = false;
      for (const std::string& o : e.operands) found |= o.find(ch) != std::string::npos;
      if (!found || std::count(e.output.begin(), e.output.end(), ch) != 1)
        return invalid_model("equation '" + text + "' has a bad output");
    }
    return e;
  }
  for (int i = 0; i < dots; ++i) e.output += static_cast<char>(128 + i);
  std::string all;
  for (const std::string& o : e.operands) all += o;
  for (int ch = 'A'; ch <= 'z'; ++ch)
    if (std::count(all.begin(), all.end(), static_cast<char>(ch)) == 1)
      e.output += static_cast<char>(ch);
  return e;
}

Result<Equation> equation_of(const graph::Einsum& op, std::span<const Shape> shapes) {
  std::vector<int> ranks;
  for (const Shape& s : shapes) ranks.push_back(s.rank());
  return parse(op.equation, ranks);
}

// Extent of each index; 1 broadcasts.
Result<std::vector<Dim>> extents_of(const Equation& e, std::span<const Shape> shapes) {
  std::vector<Dim> extent(256, Dim(1));
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    for (int a = 0; a < shapes[i].rank(); ++a) {
      Dim& d = extent[static_cast<unsigned char>(e.operands[i][static_cast<std::size_t>(a)])];
      const Dim n = shapes[i][a];
      if (n == Dim(1) || same(d, n)) continue;
      if (d == Dim(1) || !d.known())
        d = n.known() || d == Dim(1) ? n : d;
      else if (n.known())
        return invalid_model("input " + std::to_string(i) + " is " + to_string(shapes[i]) +
                             ": axis " + std::to_string(a) + " disagrees with an extent of " +
                             std::to_string(d.value()));
    }
  }
  return extent;
}

struct Sum {
  std::vector<std::int64_t> extent;  // output indices, then summed ones
  std::size_t outputs = 0;
  std::vector<std::vector<std::int64_t>> stride;  // [operand][index]
};

// Walks indices [from, to) of s in row-major order; f(offsets).
template <class F>
void walk(const Sum& s, std::size_t from, std::size_t to, std::int64_t* offsets, const F& f) {
  if (from == to) return f();
  for (std::int64_t i = 0; i < s.extent[from]; ++i) {
    walk(s, from + 1, to, offsets, f);
    for (std::size_t o = 0; o < s.stride.size(); ++o) offsets[o] += s.stride[o][from];
  }
  for (std::size_t o = 0; o < s.stride.size(); ++o)
    offsets[o] -= s.stride[o][from] * s.extent[from];
}

constexpr std::size_t kMaxOperands = 16;

}  // namespace

Status infer_op(const graph::Einsum& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 1, kMaxOperands));
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    if (!c.has(i)) return invalid_model("input " + std::to_string(i) + " is missing");
    if (!c.type(i).quant) FOLD8_CHECK_OK(expect_dtype(c, i, {DType::f32}));
    shapes.push_back(c.shape(i));
  }
  FOLD8_TRY(const Equation e, equation_of(op, shapes));
  FOLD8_TRY(const auto extent, extents_of(e, shapes));
  FOLD8_CHECK_OK(expect_rank_fits(static_cast<int>(std::min<std::size_t>(e.output.size(), 99))));
  Shape y;
  for (char ch : e.output) y.push_back(extent[static_cast<unsigned char>(ch)]);
  c.set(0, DType::f32, y);
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::Einsum& op, const PrepareContext& c) {
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) shapes.push_back(c.type(i).shape);
  FOLD8_TRY(const Equation e, equation_of(op, shapes));
  FOLD8_TRY(const auto extent, extents_of(e, shapes));
  std::string order = e.output;
  for (const std::string& o : e.operands)
    for (char ch : o)
      if (order.find(ch) == std::string::npos) order += ch;
  Sum s;
  s.outputs = e.output.size();
  s.stride.resize(shapes.size());
  double macs = 1;
  for (char ch : order) {
    s.extent.push_back(extent[static_cast<unsigned char>(ch)].value());
    macs *= static_cast<double>(s.extent.back());
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const Strides own = strides_of(shapes[i], Layout::plain);
      std::int64_t step = 0;  // a repeated index walks the diagonal
      for (int a = 0; a < shapes[i].rank(); ++a)
        if (e.operands[i][static_cast<std::size_t>(a)] == ch && shapes[i].extent(a) != 1)
          step += own[static_cast<std::size_t>(a)];
      s.stride[i].push_back(step);
    }
  }
  return make_step(
      [s = std::move(s)](const RunContext& run) {
        std::int64_t at[kMaxOperands] = {};
        const std::size_t n = s.stride.size();
        float* y = out<float>(run, 0);
        walk(s, 0, s.outputs, at, [&] {
          float sum = 0;
          walk(s, s.outputs, s.extent.size(), at, [&] {
            float p = n == 1 ? 1.0f : in<float>(run, 0)[at[0]];
            for (std::size_t o = 1; o + 1 < n; ++o) p = p * in<float>(run, o)[at[o]];
            sum = std::fma(p, in<float>(run, n - 1)[at[n - 1]], sum);
          });
          *y++ = sum;
        });
        return ok_status();
      },
      0, macs);
}

}  // namespace fold8::ops
