#include "fusion/round_weights.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "fusion/passes/quantize.h"
#include "quant/rotate.h"
#include "quant/round_weights.h"
#include "quant/second_moments.h"

namespace fold8::fusion {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

struct Job {
  quant::LayerRows rows;
  std::set<ValueId> weights;  // that meet these rows, and no others
};

std::vector<Job> jobs_of(const Graph& g, const std::function<bool(const Node&)>& becomes_int8) {
  std::map<ValueId, std::optional<quant::LayerRows>> rows;  // of a weight; none: several
  for (graph::NodeId n = 0; n < g.node_count(); ++n) {
    const Node& node = g.node(n);
    if (node.dead || !is_quantizable_layer(g, node)) continue;
    auto own = !becomes_int8 || becomes_int8(node) ? rows_of(g, node) : std::nullopt;
    const auto [known, is_new] = rows.try_emplace(node.inputs[1], own);
    if (!is_new && !(own && known->second && quant::same_rows(*own, *known->second)))
      known->second.reset();
  }
  std::vector<Job> jobs;
  for (auto& [w, own] : rows) {
    if (!own || g.constant<float>(w).empty()) continue;
    const auto same = std::find_if(jobs.begin(), jobs.end(),
                                   [&](const Job& j) { return quant::same_rows(j.rows, *own); });
    if (same != jobs.end())
      same->weights.insert(w);
    else
      jobs.push_back({*std::move(own), {w}});
  }
  return jobs;
}

}  // namespace

std::optional<quant::LayerRows> rows_of(const Graph& g, const Node& n) {
  const std::string& tensor = g.value(n.inputs[0]).name;
  const Shape& w = g.type(n.inputs[1]).shape;
  if (const auto* conv = std::get_if<graph::Conv>(&n.op))
    return quant::rows_of_conv(tensor, *conv, w);
  if (w.rank() != 2) return std::nullopt;
  return quant::rows_of_linear(tensor, static_cast<std::size_t>(w.extent(1)));
}

Result<RoundedWeights> round_weights(const Graph& g, std::shared_ptr<const exec::Model> model,
                                     quant::SampleSource& samples,
                                     const RoundWeightsOptions& options) {
  const std::vector<Job> jobs = jobs_of(g, options.becomes_int8);
  std::vector<quant::LayerRows> rows;
  for (const Job& j : jobs) rows.push_back(j.rows);
  ThreadPool pool(options.threads);
  RoundedWeights rounded;
  std::size_t done = 0;
  const auto take = [&](std::size_t job, std::vector<quant::Moments> moments) -> Status {
    const DefaultFloatMode mode;  // not around the runs of sessions that end meanwhile
    std::vector<quant::RoundingFactor> factors;
    const bool rotated = !rows[job].conv && quant::can_rotate(rows[job].width) &&
                         options.rotated_inputs.count(rows[job].tensor) != 0;
    for (quant::Moments& m : moments) {
      if (rotated) quant::rotate_moments(m);
      auto factor = quant::RoundingFactor::of(m, pool);
      if (!factor.ok()) return in_context("tensor '" + rows[job].tensor + "'", factor.error());
      factors.push_back(*std::move(factor));
      m = {};
    }
    for (const ValueId w : jobs[job].weights) {
      std::span<const float> values = g.constant<float>(w);
      std::vector<float> turned;
      if (rotated) values = turned = quant::rotated_weights(values, rows[job].width);
      auto q = quant::round_for_outputs(values, g.type(w).shape, factors, options.weights, pool,
                                        rows[job].conv ? 0 : options.weight_group);
      if (!q.ok()) return in_context("weight '" + g.value(w).name + "'", q.error());
      const std::string& name = g.value(w).name;
      rounded.emplace(rotated ? rotated_name(name) : name, *std::move(q));
    }
    if (options.progress) options.progress(++done, jobs.size());
    return ok_status();
  };
  quant::MomentOptions moment_options;
  moment_options.threads = options.threads;
  FOLD8_CHECK_OK(quant::second_moments(std::move(model), samples, rows, moment_options, take));
  return rounded;
}

}  // namespace fold8::fusion
