// Cross-layer equalization (Nagel et al. 2019, arXiv 1906.04721, eq. 7 to 11): where a layer feeds
// nothing but the next one, a factor per channel may move from one to the other,
//   W2 f(W1 x + b1)  =  (W2 S) f((W1 x + b1) / S)          f: nothing, Relu, LeakyRelu
// so that the tensor between them, which has one scale for all channels, has channels of like size.
// S = sqrt(r1 / r2), r1 and r2 the largest weights of the channel on either side, as a power of
// two: the float network's results keep their bits. Kept to pairs whose channels differ much.
#include <algorithm>
#include <cmath>

#include "fusion/passes/affine.h"
#include "fusion/passes/fold_layer.h"
#include "fusion/passes/passes.h"
#include "fusion/rewrite/constants.h"
#include "fusion/rewrite/index.h"

namespace fold8::fusion {

using graph::Conv;
using graph::Graph;
using graph::kNoNode;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

namespace {

constexpr int kMostSweeps = 4;       // a factor may wander on to the next pair
constexpr double kLeastSpread = 16;  // largest S / smallest S worth a change
constexpr int kMostDoublings = 24;   // per channel, of 1

bool commutes_with_scaling(const graph::Op& op) {
  return std::visit(
      [](const auto& o) {
        if constexpr (requires { o.activation; })
          return o.activation == Activation::none || o.activation == Activation::leaky_relu ||
                 (o.activation == Activation::clip && o.a == 0 && std::isinf(o.b));
        else
          return false;
      },
      op);
}

bool is_float_layer(const Graph& g, const Node& n) {
  return !n.dead && is_linear_layer(n.op) && g.type(n.inputs[0]).dtype == DType::f32 &&
         !reads_more_than_bias(n);
}

std::vector<double> factors(const std::vector<double>& r1, const std::vector<double>& r2) {
  std::vector<double> s(r1.size(), 1.0);
  double log_sum = 0, count = 0;
  for (std::size_t c = 0; c < s.size(); ++c)
    if (r1[c] > 0 && r2[c] > 0) log_sum += std::ilogb(r1[c] / r2[c]), ++count;
  const double middle = count > 0 ? log_sum / count : 0;
  for (std::size_t c = 0; c < s.size(); ++c) {
    if (!(r1[c] > 0) || !(r2[c] > 0)) continue;  // a dead channel
    const double doublings = std::rint((std::ilogb(r1[c] / r2[c]) - middle) / 2);
    s[c] = std::ldexp(
        1.0, static_cast<int>(std::clamp<double>(doublings, -kMostDoublings, kMostDoublings)));
  }
  return s;
}

class Equalizer {
 public:
  explicit Equalizer(Graph& g) : g_(g) {}

  Result<Tally> run() {
    FOLD8_TRY(const std::vector<NodeId> order, g_.topological_order());
    const Index index(g_);
    Tally tally;
    for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
      int changed = 0;
      for (NodeId second : order) {
        if (!is_float_layer(g_, g_.node(second))) continue;
        const ValueId x = g_.node(second).inputs[0];
        const NodeId first = index.producer(x);
        if (first == kNoNode || !is_float_layer(g_, g_.node(first)) || g_.is_output(x) ||
            index.consumers(x).size() != 1 || !commutes_with_scaling(g_.node(first).op))
          continue;
        changed += equalize(first, second);
      }
      tally.applied += changed;
      if (changed == 0) break;
    }
    return tally;
  }

 private:
  bool equalize(NodeId first, NodeId second) {
    const ValueId x = g_.node(second).inputs[0];
    const Shape& shape = g_.type(x).shape;
    const bool conv = std::holds_alternative<Conv>(g_.node(first).op);
    if (conv != std::holds_alternative<Conv>(g_.node(second).op)) return false;
    const int axis = conv ? 1 : shape.rank() - 1;
    if (axis < 0 || axis >= shape.rank() || !shape[axis].known()) return false;
    const auto channels = static_cast<std::size_t>(shape.extent(axis));
    if (channels < 2) return false;
    const auto r1 = weight_ranges(g_, first, Side::output),
               r2 = weight_ranges(g_, second, Side::input);
    if (!r1 || !r2 || r1->size() != channels || r2->size() != channels) return false;
    const std::vector<double> s = factors(*r1, *r2);
    const auto [least, most] = std::minmax_element(s.begin(), s.end());
    if (*most / *least < kLeastSpread) return false;
    return apply(first, second, axis, s);
  }

  bool apply(NodeId first, NodeId second, int axis, const std::vector<double>& s) {
    const std::vector<double> none(s.size());
    std::vector<double> inverse;
    for (double f : s) inverse.push_back(1 / f);
    const FoldResult before = fold_behind(g_, first, {axis, inverse, none});
    const FoldResult after = fold_in_front(g_, second, {axis, s, none});
    const auto* a = std::get_if<FoldedLayer>(&before);
    const auto* b = std::get_if<FoldedLayer>(&after);
    if (a == nullptr || b == nullptr) return false;
    const ValueId x = g_.node(second).inputs[0];
    put(*a, g_.node(first).inputs);
    put(*b, g_.node(second).inputs);
    auto& value = g_.value(x);
    if (value.rescale.empty()) value.rescale.assign(s.size(), 1.0f);
    value.rescale_axis = axis;
    for (std::size_t c = 0; c < s.size(); ++c) value.rescale[c] *= static_cast<float>(s[c]);
    return true;
  }

  Graph& g_;
};

Result<Tally> run_equalize(Graph& g, const Context&) {
  FOLD8_TRY(Tally tally, Equalizer(g).run());
  FOLD8_CHECK_OK(g.compact());
  return tally;
}

}  // namespace

constinit const GraphPass equalize{"equalize", run_equalize};

}  // namespace fold8::fusion
