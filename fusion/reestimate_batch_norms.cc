#include "fusion/reestimate_batch_norms.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "fusion/pipeline.h"
#include "fusion/rewrite/constants.h"
#include "quant/exact_sum.h"
#include "quant/overflow.h"
#include "quant/run_samples.h"
#include "runtime/exec/model.h"

namespace fold8::fusion {
namespace {

using graph::BatchNorm;
using graph::Graph;
using graph::kNoNode;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

constexpr std::size_t kMean = 3, kVariance = 4;  // operands

bool has_statistics(const Graph& g, const Node& n) {
  const auto* norm = n.dead ? nullptr : std::get_if<BatchNorm>(&n.op);
  return norm != nullptr && !norm->training && n.inputs.size() > kVariance &&
         g.is_constant(n.inputs[kMean]) && g.is_constant(n.inputs[kVariance]) &&
         g.type(n.inputs[kMean]).dtype == DType::f32 &&
         g.type(n.inputs[kVariance]).dtype == DType::f32 && g.type(n.inputs[0]).dtype == DType::f32;
}

// How many BatchNorms lie in front of each, on the longest way; -1 for other nodes.
Result<std::map<int, std::vector<NodeId>>> levels(const Graph& g) {
  FOLD8_TRY(const std::vector<NodeId> order, g.topological_order());
  std::vector<int> depth(static_cast<std::size_t>(g.value_count()), 0);
  std::map<int, std::vector<NodeId>> result;
  for (const NodeId id : order) {
    const Node& n = g.node(id);
    int in_front = 0;
    for (const ValueId v : n.inputs)
      if (v != graph::kNoValue) in_front = std::max(in_front, depth[static_cast<std::size_t>(v)]);
    const bool counts = has_statistics(g, n);
    if (counts) result[in_front].push_back(id);
    for (const ValueId v : n.outputs)
      if (v != graph::kNoValue) depth[static_cast<std::size_t>(v)] = in_front + counts;
  }
  return result;
}

struct ChannelSums {
  std::vector<quant::ExactSum> sum, squares;
  std::uint64_t count = 0;  // of a channel's values

  // x [N, C, ..]; element i of the memory belongs to channel i / inner % channels.
  void add(const TensorView& x) {
    if (x.dtype != DType::f32 || x.shape.rank() < 2) return;
    const auto values = x.as<const float>();
    const auto channels = static_cast<std::size_t>(x.shape.extent(1));
    const std::size_t inner =
        x.layout == Layout::plain ? static_cast<std::size_t>(x.shape.count(2, x.shape.rank())) : 1;
    if (channels == 0 || inner == 0) return;
    sum.resize(channels);
    squares.resize(channels);
    for (std::size_t i = 0; i < values.size(); i += inner) {
      const std::size_t c = i / inner % channels;
      for (std::size_t k = 0; k < inner; ++k) {
        const double v = values[i + k];
        sum[c].add(v);
        squares[c].add(v * v);  // exact: 48 bits
      }
    }
    count += values.size() / channels;
  }
};

// The part of the network in front of some BatchNorms; what they read are its outputs.
Result<std::shared_ptr<const exec::Model>> part_in_front(const Graph& g,
                                                         const std::vector<NodeId>& norms) {
  Graph part = g;
  part.outputs.clear();
  for (const NodeId n : norms) {
    const ValueId x = g.node(n).inputs[0];
    if (std::find(part.outputs.begin(), part.outputs.end(), x) == part.outputs.end())
      part.outputs.push_back(x);
  }
  FOLD8_CHECK_OK(part.compact());
  for (const char* stage : {"fold", "fuse", "emit"}) {
    FOLD8_TRY(const Tally tally, run(fusion::stage(stage), part));
    (void)tally;
  }
  return exec::Model::from_graph(std::move(part));
}

Error not_finite(const std::string& tensor, const Graph& g, const std::vector<TensorView>& inputs) {
  return invalid_model("tensor '" + tensor +
                       "', which a BatchNorm reads, holds NaN or an infinity; " +
                       quant::what_to_repair(g, inputs));
}

Result<std::map<std::string, ChannelSums>> measure(const Graph& g, const std::vector<NodeId>& norms,
                                                   quant::SampleSource& samples, int threads) {
  FOLD8_TRY(const auto model, part_in_front(g, norms));
  std::map<std::string, ChannelSums> sums;
  for (const NodeId n : norms) sums[g.value(g.node(n).inputs[0]).name];
  const Graph& part = model->graph();
  quant::RunOptions options;
  options.threads = threads;
  quant::RunCallbacks callbacks;
  const std::vector<TensorView>* given = nullptr;
  callbacks.begin = [&](std::size_t, const std::vector<TensorView>& inputs) {
    given = &inputs;
    return ok_status();
  };
  callbacks.see = [&](ValueId v, const TensorView& t) -> Status {
    const auto it = sums.find(part.value(v).name);
    if (it == sums.end() || t.dtype != DType::f32) return ok_status();
    if (!quant::extent_of(t.as<const float>()).finite) return not_finite(it->first, part, *given);
    it->second.add(t);
    return ok_status();
  };
  FOLD8_CHECK_OK(quant::run_samples(model, samples, options, callbacks));
  return sums;
}

// New statistics for one BatchNorm; its own constants, which others may share, stay.
std::optional<ReestimatedNorm> replace(Graph& g, NodeId id, const ChannelSums& sums) {
  const auto mean = doubles(g, g.node(id).inputs[kMean]),
             variance = doubles(g, g.node(id).inputs[kVariance]);
  if (!mean || !variance || mean->size() != sums.sum.size() || sums.count == 0) return std::nullopt;
  ReestimatedNorm r{g.node(id).name, mean->size(), 0, sums.count, 0, 0, 1, 1};
  std::vector<double> new_mean = *mean, new_variance = *variance;
  const double n = static_cast<double>(sums.count);
  for (std::size_t c = 0; c < new_mean.size(); ++c) {
    const double s = sums.sum[c].value(), m = s / n;
    const double v = std::max(0.0, (sums.squares[c].value() - s * m) / n);
    if (!(v > 0) || v < kLeastVarianceShare * (*variance)[c]) {
      ++r.kept;
      continue;
    }
    new_mean[c] = m;
    new_variance[c] = v;
    const double old = (*variance)[c] > 0 ? (*variance)[c] : v;
    const double shift = std::fabs(m - (*mean)[c]) / std::sqrt(old);
    r.most_shift = std::max(r.most_shift, shift);
    r.mean_shift += shift;
    r.least_ratio = std::min(r.least_ratio, v / old);
    r.most_ratio = std::max(r.most_ratio, v / old);
  }
  if (r.kept < r.channels) r.mean_shift /= static_cast<double>(r.channels - r.kept);
  const Shape along{static_cast<std::int64_t>(new_mean.size())};
  const std::string name = g.node(id).name;
  const ValueId m = add_floats(g, g.fresh_name(name + "_mean"), along, new_mean);
  const ValueId v = add_floats(g, g.fresh_name(name + "_variance"), along, new_variance);
  g.node(id).inputs[kMean] = m;
  g.node(id).inputs[kVariance] = v;
  return r;
}

}  // namespace

Status reestimate_batch_norms(Graph& g, quant::SampleSource& samples, int threads, StageLog& log,
                              ConvertSummary& summary) {
  const StageLog::Clock clock(log, "re-estimate BatchNorms");
  if (samples.count() == 0)
    return invalid_model("the calibration data holds no samples; give at least one");
  FOLD8_TRY(const auto by_level, levels(g));
  if (by_level.empty())
    return invalid_argument(
        "--reestimate-bn: the model has no BatchNorm with stored statistics (exporters often fold "
        "them: export in training mode, or with the folding of constants off)");
  std::size_t done = 0;
  for (const auto& [level, norms] : by_level) {
    FOLD8_TRY(const auto sums, measure(g, norms, samples, threads));
    for (const NodeId id : norms) {
      const auto& of = sums.at(g.value(g.node(id).inputs[0]).name);
      if (auto r = replace(g, id, of)) summary.reestimated.push_back(*std::move(r));
    }
    log.progress("re-estimate BatchNorms", ++done, by_level.size());
  }
  return g.compact();
}

}  // namespace fold8::fusion
