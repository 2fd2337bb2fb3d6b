#include "tests/support/evaluate_graph.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

namespace fold8::testing_support {

using graph::BinaryKind;
using graph::Graph;
using graph::kNoValue;
using graph::Node;
using graph::UnaryKind;
using graph::ValueId;

namespace {

double gelu_erf(double x) { return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5))); }
double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double clamp01(double x) { return std::min(std::max(x, 0.0), 1.0); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

Result<double> unary(const graph::Unary& u, double x) {
  switch (u.kind) {
    case UnaryKind::relu:
      return std::max(x, 0.0);
    case UnaryKind::clip:
      return std::min(std::max(x, double(u.a)), double(u.b));
    case UnaryKind::leaky_relu:
      return x < 0 ? u.a * x : x;
    case UnaryKind::hard_sigmoid:
      return clamp01(u.a * x + u.b);
    case UnaryKind::hard_swish:
      return x * clamp01(u.a * x + u.b);
    case UnaryKind::sigmoid:
      return sigmoid(x);
    case UnaryKind::silu:
      return x * sigmoid(u.a * x);
    case UnaryKind::tanh:
      return std::tanh(x);
    case UnaryKind::gelu_erf:
      return gelu_erf(x);
    case UnaryKind::gelu_tanh:
      return gelu_tanh(x);
    case UnaryKind::elu:
      return x < 0 ? u.a * (std::exp(x) - 1) : x;
    case UnaryKind::neg:
      return -x;
    case UnaryKind::sqrt:
      return std::sqrt(x);
    case UnaryKind::exp:
      return std::exp(x);
    case UnaryKind::log:
      return std::log(x);
    case UnaryKind::reciprocal:
      return 1 / x;
    case UnaryKind::erf:
      return std::erf(x);
    case UnaryKind::softplus:
      return std::log1p(std::exp(x));
    case UnaryKind::mish:
      return x * std::tanh(std::log1p(std::exp(x)));
    case UnaryKind::square:
      return x * x;
    default:
      return unsupported("the oracle does not know this unary");
  }
}

// The fused activation of an operator, as the Unary it stands for.
Result<double> activation(Activation kind, float a, float b, double x) {
  switch (kind) {
    case Activation::none:
      return x;
    case Activation::clip:
      return unary({UnaryKind::clip, a, b}, x);
    case Activation::leaky_relu:
      return unary({UnaryKind::leaky_relu, a, b}, x);
    case Activation::hard_sigmoid:
      return unary({UnaryKind::hard_sigmoid, a, b}, x);
    case Activation::hard_swish:
      return unary({UnaryKind::hard_swish, a, b}, x);
    case Activation::sigmoid:
      return sigmoid(x);
    case Activation::silu:
      return unary({UnaryKind::silu, a, b}, x);
    case Activation::tanh:
      return std::tanh(x);
    case Activation::gelu_erf:
      return gelu_erf(x);
    case Activation::gelu_tanh:
      return gelu_tanh(x);
    case Activation::elu:
      return unary({UnaryKind::elu, a, b}, x);
  }
  return unsupported("the oracle does not know this activation");
}

Result<double> binary(BinaryKind kind, double a, double b) {
  switch (kind) {
    case BinaryKind::add:
      return a + b;
    case BinaryKind::sub:
      return a - b;
    case BinaryKind::mul:
      return a * b;
    case BinaryKind::div:
      return a / b;
    case BinaryKind::pow:
      return std::pow(a, b);
    case BinaryKind::min:
      return std::min(a, b);
    case BinaryKind::max:
      return std::max(a, b);
    default:
      return unsupported("the oracle does not know this binary");
  }
}

class Evaluator {
 public:
  Evaluator(const Graph& g, const std::map<std::string, Array>& inputs) : g_(g), inputs_(inputs) {}

  Result<std::map<std::string, Array>> run() {
    for (ValueId v : g_.inputs) {
      const auto it = inputs_.find(g_.value(v).name);
      if (it == inputs_.end()) return invalid_argument("no input '" + g_.value(v).name + "'");
      values_[v] = it->second;
    }
    FOLD8_TRY(const auto order, g_.topological_order());
    for (const graph::NodeId n : order) {
      node_ = &g_.node(n);
      Result<Array> y =
          std::visit([&](const auto& op) -> Result<Array> { return eval(op); }, node_->op);
      if (!y.ok()) return in_context("node '" + node_->name + "'", y.error());
      values_[node_->outputs[0]] = std::move(*y);
    }
    std::map<std::string, Array> results;
    for (ValueId v : g_.outputs) results[g_.value(v).name] = value(v);
    return results;
  }

 private:
  bool has(std::size_t i) const { return i < node_->inputs.size() && node_->inputs[i] != kNoValue; }
  const Array& in(std::size_t i) { return value(node_->inputs[i]); }
  Ints ints(std::size_t i) {
    const Array& a = in(i);
    return Ints(a.data.begin(), a.data.end());
  }

  const Array& value(ValueId v) {
    const auto it = values_.find(v);
    if (it != values_.end()) return it->second;
    Array a;
    for (const Dim d : g_.type(v).shape.dims()) a.shape.push_back(d.value());
    if (g_.type(v).dtype == DType::s64)
      for (const std::int64_t x : g_.constant<std::int64_t>(v))
        a.data.push_back(static_cast<double>(x));
    else
      for (const float x : g_.constant<float>(v)) a.data.push_back(x);
    return values_[v] = std::move(a);
  }

  template <class Op>
  Result<Array> eval(const Op&) {
    return unsupported(std::string("the oracle does not know ") + std::string(Op::kName));
  }

  Result<Array> eval(const graph::Identity&) { return in(0); }
  Result<Array> eval(const graph::Cast&) { return in(0); }

  Result<Array> eval(const graph::Unary& u) {
    Array y = in(0);
    for (double& x : y.data) {
      FOLD8_TRY(x, unary(u, x));
    }
    return y;
  }

  Result<Array> activated(Array y, Activation kind, float a, float b) {
    for (double& x : y.data) {
      FOLD8_TRY(x, activation(kind, a, b, x));
    }
    return y;
  }

  Result<Array> eval(const graph::Binary& op) {
    const Array &a = in(0), &b = in(1);
    const std::size_t rank = std::max(a.shape.size(), b.shape.size());
    const auto padded = [rank](const Ints& s) {
      Ints p(rank - s.size(), 1);
      p.insert(p.end(), s.begin(), s.end());
      return p;
    };
    const Ints sa = padded(a.shape), sb = padded(b.shape), ta = strides_of(sa), tb = strides_of(sb);
    Ints shape(rank);
    for (std::size_t i = 0; i < rank; ++i) shape[i] = sa[i] == 1 ? sb[i] : sa[i];
    Array y = filled(shape);
    std::size_t out = 0;
    Status status = ok_status();
    for_each_index(shape, [&](const Ints& index) {
      std::int64_t ia = 0, ib = 0;
      for (std::size_t i = 0; i < rank; ++i) {
        ia += sa[i] == 1 ? 0 : index[i] * ta[i];
        ib += sb[i] == 1 ? 0 : index[i] * tb[i];
      }
      const auto r = binary(op.kind, a.data[std::size_t(ia)], b.data[std::size_t(ib)]);
      if (!r.ok())
        status = r.error();
      else
        y.data[out++] = *r;
    });
    if (!status.ok()) return status.error();
    return activated(std::move(y), op.activation, op.a, op.b);
  }

  // y = x * scale[c] + shift[c] along an axis
  Array per_channel(const Array& x, std::size_t axis, const std::vector<double>& scale,
                    const std::vector<double>& shift) {
    Array y = x;
    const auto inner = static_cast<std::size_t>(count(x.shape, axis + 1)),
               channels = std::size_t(x.shape[axis]);
    for (std::size_t i = 0; i < y.data.size(); ++i) {
      const std::size_t c = i / inner % channels;
      y.data[i] = x.data[i] * scale[c] + shift[c];
    }
    return y;
  }

  Result<Array> eval(const graph::Affine& op) {
    return activated(per_channel(in(0), std::size_t(op.axis), in(1).data, in(2).data),
                     op.activation, op.a, op.b);
  }

  Result<Array> eval(const graph::BatchNorm& op) {
    if (op.training) return unsupported("training mode");
    std::vector<double> scale, shift;
    for (std::size_t c = 0; c < in(1).data.size(); ++c) {
      scale.push_back(in(1).data[c] / std::sqrt(in(4).data[c] + double(op.epsilon)));
      shift.push_back(in(2).data[c] - scale[c] * in(3).data[c]);
    }
    return per_channel(in(0), 1, scale, shift);
  }

  // What linear layers share behind the products: bias, residual, activation.
  template <class Op>
  Result<Array> finished(Array y, std::size_t axis, const Op& op) {
    if (has(2)) y = per_channel(y, axis, std::vector<double>(in(2).data.size(), 1.0), in(2).data);
    if (has(3))
      for (std::size_t i = 0; i < y.data.size(); ++i) y.data[i] += in(3).data[i];
    return activated(std::move(y), op.activation, op.a, op.b);
  }
  Result<Array> eval(const graph::Linear& op) {
    return finished(linear(in(0), in(1)), in(0).shape.size() - 1, op);
  }
  Result<Array> eval(const graph::Conv& op) {
    if (op.auto_pad != graph::AutoPad::none) return unsupported("auto_pad");
    return finished(convolution(op, in(0), in(1)), 1, op);
  }
  Result<Array> eval(const graph::MatMul& op) {
    if (in(0).shape.size() < 2 || in(1).shape.size() < 2)
      return unsupported("the oracle multiplies matrices only");
    return matmul(op, in(0), in(1));
  }

  Result<Array> eval(const graph::Norm& op) {
    const Array& x = in(0);
    Array y = x;
    const bool rows = op.kind == graph::NormKind::layer || op.kind == graph::NormKind::rms;
    const std::size_t rank = x.shape.size();
    const auto axis =
        static_cast<std::size_t>(op.axis < 0 ? op.axis + static_cast<std::int64_t>(rank) : op.axis);
    const std::int64_t groups = op.kind == graph::NormKind::instance ? x.shape[1] : op.groups;
    const auto d =
        static_cast<std::size_t>(rows ? count(x.shape, axis) : count(x.shape, 1) / groups);
    const auto space = static_cast<std::size_t>(count(x.shape, 2 > rank ? rank : 2));
    for (std::size_t row = 0; row * d < x.data.size(); ++row) {
      double mean = 0, square = 0;
      for (std::size_t i = 0; i < d; ++i) mean += x.data[row * d + i] / double(d);
      if (op.kind == graph::NormKind::rms) mean = 0;
      for (std::size_t i = 0; i < d; ++i)
        square += std::pow(x.data[row * d + i] - mean, 2) / double(d);
      for (std::size_t i = 0; i < d; ++i) {
        const std::size_t flat = row * d + i;
        const std::size_t c = rows                  ? i
                              : op.affine_per_group ? row % std::size_t(groups)
                                                    : flat / space % std::size_t(x.shape[1]);
        y.data[flat] = (x.data[flat] - mean) / std::sqrt(square + double(op.epsilon)) *
                           (has(1) ? in(1).data[c] : 1) +
                       (has(2) ? in(2).data[c] : 0);
      }
    }
    return y;
  }

  Result<Array> eval(const graph::Reduce& op) {
    if (op.kind != graph::ReduceKind::mean || !op.keep_dims)
      return unsupported("only means with kept axes");
    const Array& x = in(0);
    Ints shape = x.shape, axes = op.axes.empty() ? ints(1) : op.axes;
    for (std::int64_t& a : axes)
      shape[std::size_t(a < 0 ? a += std::int64_t(shape.size()) : a)] = 1;
    Array y = filled(shape);
    const Ints strides = strides_of(shape);
    const double share = double(y.data.size()) / double(x.data.size());
    std::size_t from = 0;
    for_each_index(x.shape, [&](const Ints& index) {
      std::int64_t at = 0;
      for (std::size_t i = 0; i < index.size(); ++i)
        at += shape[i] == 1 ? 0 : index[i] * strides[i];
      y.data[std::size_t(at)] += x.data[from++] * share;
    });
    return y;
  }

  // Indices are truncated; negative ones count from the end.
  Result<Array> eval(const graph::Gather& op) {
    const Array &x = in(0), &ids = in(1);
    const std::size_t axis =
        std::size_t(op.axis < 0 ? op.axis + std::int64_t(x.shape.size()) : op.axis);
    Ints shape(x.shape.begin(), x.shape.begin() + std::ptrdiff_t(axis));
    shape.insert(shape.end(), ids.shape.begin(), ids.shape.end());
    shape.insert(shape.end(), x.shape.begin() + std::ptrdiff_t(axis) + 1, x.shape.end());
    Array y = filled(shape);
    const std::int64_t inner = count(x.shape, axis + 1), extent = x.shape[axis],
                       outer = count(x.shape) / (inner * extent);
    std::size_t out = 0;
    for (std::int64_t o = 0; o < outer; ++o)
      for (const double id : ids.data) {
        const auto i = static_cast<std::int64_t>(id);
        for (std::int64_t k = 0; k < inner; ++k)
          y.data[out++] = x.data[std::size_t((o * extent + (i < 0 ? i + extent : i)) * inner + k)];
      }
    return y;
  }

  Result<Array> eval(const graph::Concat& op) {
    const std::size_t rank = in(0).shape.size(),
                      axis = std::size_t(op.axis < 0 ? op.axis + std::int64_t(rank) : op.axis);
    Ints shape = in(0).shape;
    for (std::size_t i = 1; i < node_->inputs.size(); ++i) shape[axis] += in(i).shape[axis];
    Array y = filled(shape);
    const std::int64_t outer = count(shape) / count(shape, axis);
    std::size_t out = 0;
    for (std::int64_t o = 0; o < outer; ++o)
      for (std::size_t i = 0; i < node_->inputs.size(); ++i) {
        const std::int64_t n = count(in(i).shape, axis);
        for (std::int64_t k = 0; k < n; ++k) y.data[out++] = in(i).data[std::size_t(o * n + k)];
      }
    return y;
  }

  Result<Array> eval(const graph::Transpose& op) {
    Ints perm = op.perm;
    if (perm.empty())
      for (std::size_t i = in(0).shape.size(); i-- > 0;)
        perm.push_back(static_cast<std::int64_t>(i));
    return permuted(in(0), perm);
  }
  Result<Array> eval(const graph::Reshape&) {
    Array y = in(0);
    Ints shape = ints(1);
    std::int64_t known = 1;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] == 0) shape[i] = y.shape[i];
      if (shape[i] > 0) known *= shape[i];
    }
    for (std::int64_t& d : shape)
      if (d < 0) d = count(y.shape) / known;
    y.shape = shape;
    return y;
  }
  Result<Array> eval(const graph::Flatten& op) {
    Array y = in(0);
    const std::int64_t behind = count(y.shape, std::size_t(op.axis));
    y.shape = {count(y.shape) / behind, behind};
    return y;
  }
  Result<Array> eval(const graph::Squeeze& op) {
    Array y = in(0);
    Ints shape;
    for (std::size_t i = 0; i < y.shape.size(); ++i)
      if (op.axes.empty()
              ? y.shape[i] != 1
              : std::find(op.axes.begin(), op.axes.end(), std::int64_t(i)) == op.axes.end())
        shape.push_back(y.shape[i]);
    y.shape = shape;
    return y;
  }
  Result<Array> eval(const graph::Unsqueeze& op) {
    Array y = in(0);
    Ints axes = op.axes;
    std::sort(axes.begin(), axes.end());
    for (const std::int64_t a : axes) y.shape.insert(y.shape.begin() + a, 1);
    return y;
  }

  const Graph& g_;
  const std::map<std::string, Array>& inputs_;
  std::map<ValueId, Array> values_;
  const Node* node_ = nullptr;
};

}  // namespace

Result<std::map<std::string, Array>> evaluate(const Graph& g,
                                              const std::map<std::string, Array>& inputs) {
  return Evaluator(g, inputs).run();
}

std::map<std::string, Array> random_inputs(const Graph& g, std::uint64_t seed,
                                           std::int64_t symbol_extent) {
  std::mt19937_64 engine(seed);
  std::map<std::string, Array> inputs;
  for (const ValueId v : g.inputs) {
    Ints shape;
    for (const Dim d : g.type(v).shape.dims())
      shape.push_back(d.known() ? d.value() : symbol_extent);
    Array a = filled(shape);
    // Floats, since that is what a model gets.
    for (double& x : a.data)
      x = static_cast<float>(static_cast<double>(engine() >> 40) / double(1 << 24) * 4 - 2);
    inputs[g.value(v).name] = std::move(a);
  }
  return inputs;
}

}  // namespace fold8::testing_support
