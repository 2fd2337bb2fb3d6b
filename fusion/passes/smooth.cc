#include "fusion/passes/smooth.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "fusion/passes/affine.h"
#include "fusion/passes/fold_layer.h"
#include "fusion/passes/quantize.h"
#include "fusion/passes/scale_path.h"
#include "fusion/rewrite/constants.h"
#include "quant/smoothquant.h"

namespace fold8::fusion {
namespace {

using graph::Graph;
using graph::kNoNode;
using graph::Linear;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

constexpr const char* kPass = "smooth";
// Of a searched alpha, in the expected squared error of the layers behind.
constexpr double kLeastGain = 1.12;          // 0.5 dB
constexpr double kLeastGainMultiply = 1.58;  // 2 dB: another pass over the tensor

bool is_reader(const Graph& g, const Node& n) {
  return !n.dead && std::holds_alternative<Linear>(n.op) && is_quantizable_layer(g, n) &&
         g.type(n.inputs[1]).shape.rank() == 2;
}

class Smoother {
 public:
  Smoother(Graph& g, const SmoothOptions& options) : g_(g), options_(options) {}

  Result<SmoothOutcome> run() {
    FOLD8_TRY(const std::vector<NodeId> order, g_.topological_order());
    std::set<ValueId> seen;
    // From the outputs up: factors of a layer's rows come before those of its columns.
    for (std::size_t i = order.size(); i-- > 0;) {
      const Node& n = g_.node(order[i]);
      if (is_reader(g_, n) && seen.insert(n.inputs[0]).second) tensor(n.inputs[0]);
    }
    std::reverse(outcome_.smoothed.begin(), outcome_.smoothed.end());
    std::reverse(outcome_.declined.begin(), outcome_.declined.end());
    FOLD8_CHECK_OK(g_.compact());
    return std::move(outcome_);
  }

 private:
  void tensor(ValueId x) {
    const Index index(g_);
    std::set<NodeId> readers;
    for (const NodeId r : index.consumers(x))
      if (is_reader(g_, g_.node(r)) && g_.node(r).inputs[0] == x &&
          std::count(g_.node(r).inputs.begin(), g_.node(r).inputs.end(), x) == 1)
        readers.insert(r);
    const bool rounded = std::any_of(readers.begin(), readers.end(), [&](NodeId r) {
      return !options_.becomes_int8 || options_.becomes_int8(g_.node(r));
    });
    if (!rounded) return;
    const auto most = largest(x);
    if (!most) return;
    ScalePathResult found = find_scale_path(g_, index, x, readers);
    const auto* path = std::get_if<ScalePath>(&found);
    auto choice = choose(x, readers, *most, path);
    if (!choice) return;
    std::string why = path == nullptr ? std::get<std::string>(found) : std::string();
    std::vector<double> inverse;
    for (const double s : choice->factors) inverse.push_back(1 / s);
    if (!scale_readers(readers, choice->factors, why)) return decline(x, why);
    std::string into;
    if (path != nullptr) {
      into = g_.node(path->into).name;
      why = apply_scale(g_, *path, inverse);
    }
    if (!why.empty()) {
      decline(x, why + "; an explicit multiply takes the factors");
      multiply(x, readers, inverse);
      into.clear();
    }
    for (const auto& [reader, folded] : folded_) put(folded, g_.node(reader).inputs);
    report(x, readers, *choice, *most, into);
  }

  // Magnitudes per channel on the samples.
  std::optional<std::vector<double>> largest(ValueId x) const {
    const quant::Observer* seen = options_.calibration->find(g_.value(x).name);
    const Shape& shape = g_.type(x).shape;
    if (seen == nullptr || shape.rank() < 1 || !shape.back().known() ||
        seen->channel_max().size() != static_cast<std::size_t>(shape.back().value()))
      return std::nullopt;
    std::vector<double> most;
    for (std::size_t c = 0; c < seen->channel_max().size(); ++c)
      most.push_back(
          std::max({0.0, -double{seen->channel_min()[c]}, double{seen->channel_max()[c]}}));
    return most;
  }

  std::optional<quant::AlphaChoice> choose(ValueId x, const std::set<NodeId>& readers,
                                           const std::vector<double>& most,
                                           const ScalePath* path) const {
    quant::AlphaSearch search;
    search.x_max = most;
    search.per_token = options_.per_token;
    std::vector<quant::SmoothedReader> weights;
    for (const NodeId r : readers) weights.push_back({g_.constant<float>(g_.node(r).inputs[1])});
    search.readers = weights;
    std::vector<int> classes;
    if (path != nullptr)
      for (std::size_t c = 0; c < most.size(); ++c)
        classes.push_back(path->classes.of(static_cast<int>(c)));
    search.classes = classes;
    if (options_.alpha) {
      quant::AlphaChoice fixed;
      fixed.alpha = *options_.alpha;
      fixed.factors = quant::factors_of(search, fixed.alpha);
      return fixed;
    }
    if (options_.rows == nullptr) return std::nullopt;
    const auto rows = options_.rows->find(g_.value(x).name);
    if (rows == options_.rows->end() || rows->second.width != most.size() ||
        rows->second.values.empty())
      return std::nullopt;
    search.rows = rows->second.values;
    quant::AlphaChoice best = quant::choose_alpha(search);
    const double least = path != nullptr ? kLeastGain : kLeastGainMultiply;
    if (!(best.error * least < best.error_plain)) return std::nullopt;
    return best;
  }

  // Weights times s for every reader, kept in folded_; false if one cannot be.
  bool scale_readers(const std::set<NodeId>& readers, const std::vector<double>& s,
                     std::string& why) {
    folded_.clear();
    const std::vector<double> none(s.size(), 0.0);
    for (const NodeId r : readers) {
      const int axis = g_.type(g_.node(r).inputs[0]).shape.rank() - 1;
      const FoldResult folded = fold_in_front(g_, r, {axis, s, none});
      if (const auto* obstacle = std::get_if<std::string>(&folded)) {
        why = *obstacle;
        return false;
      }
      folded_.emplace_back(r, std::get<FoldedLayer>(folded));
    }
    return true;
  }

  void multiply(ValueId x, const std::set<NodeId>& readers, const std::vector<double>& inverse) {
    const std::string name = g_.fresh_name(g_.value(x).name + "_smoothed");
    const Shape along{static_cast<std::int64_t>(inverse.size())};
    const ValueId scale = add_floats(g_, name + "_scale", along, inverse);
    const ValueId shift =
        add_floats(g_, name + "_shift", along, std::vector<double>(inverse.size(), 0.0));
    const ValueId y = g_.add_value(name, g_.type(x));
    graph::Affine affine;
    affine.axis = g_.type(x).shape.rank() - 1;
    g_.add_node(affine, name, {x, scale, shift}, {y});
    for (const NodeId r : readers) g_.node(r).inputs[0] = y;
  }

  void report(ValueId x, const std::set<NodeId>& readers, const quant::AlphaChoice& choice,
              const std::vector<double>& most, std::string into) {
    SmoothedTensor t;
    t.tensor = g_.value(x).name;
    for (const NodeId r : readers) t.layers.push_back(g_.node(r).name);
    t.alpha = choice.alpha;
    t.into = std::move(into);
    for (std::size_t c = 0; c < most.size(); ++c) {
      if (most[c] > t.range_before) {
        t.range_before = most[c];
        t.widest_channel = c;
      }
      t.range_after = std::max(t.range_after, most[c] / choice.factors[c]);
    }
    outcome_.smoothed.push_back(std::move(t));
  }

  void decline(ValueId x, std::string why) {
    outcome_.declined.push_back({kPass, g_.value(x).name, std::move(why)});
  }

  Graph& g_;
  const SmoothOptions& options_;
  SmoothOutcome outcome_;
  std::vector<std::pair<NodeId, FoldedLayer>> folded_;
};

}  // namespace

std::map<std::string, int> values_to_smooth(const Graph& g) {
  std::map<std::string, int> axes;
  for (NodeId n = 0; n < g.node_count(); ++n)
    if (is_reader(g, g.node(n))) {
      const ValueId x = g.node(n).inputs[0];
      axes[g.value(x).name] = g.type(x).shape.rank() - 1;
    }
  return axes;
}

Result<SmoothOutcome> smooth(Graph& g, const SmoothOptions& options) {
  return Smoother(g, options).run();
}

}  // namespace fold8::fusion
