#include "fusion/statistics.h"

#include <algorithm>
#include <optional>

#include "fusion/front.h"
#include "fusion/pipeline.h"

namespace fold8::fusion {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

// A tensor that was `from` when it was measured, times factor[c] along the axis its channels have.
struct Rescaled {
  std::string from;
  std::vector<double> factor;
};

// nullopt: v is no multiple of a measured tensor.
std::optional<Rescaled> rescaled(const Graph& g, ValueId v,
                                 const std::vector<graph::NodeId>& producers) {
  const graph::Value& value = g.value(v);
  Rescaled r;
  if (!value.rescale.empty()) {
    r.from = value.name;
    for (const float f : value.rescale) r.factor.push_back(1 / double{f});
    return r;
  }
  const graph::NodeId p = producers[static_cast<std::size_t>(v)];
  if (p == graph::kNoNode || !std::holds_alternative<graph::Affine>(g.node(p).op))
    return std::nullopt;
  const Node& affine = g.node(p);
  if (!g.is_constant(affine.inputs[1]) || !g.is_constant(affine.inputs[2])) return std::nullopt;
  for (const float shift : g.constant<float>(affine.inputs[2]))
    if (shift != 0) return std::nullopt;
  r.from = g.value(affine.inputs[0]).name;
  for (const float scale : g.constant<float>(affine.inputs[1])) r.factor.push_back(double{scale});
  return r;
}

std::optional<quant::Observer> ends_of(const quant::CalibrationTable& table, const Rescaled& r) {
  const quant::Observer* seen = table.find(r.from);
  if (seen == nullptr || seen->channel_max().empty() ||
      seen->channel_max().size() != r.factor.size())
    return std::nullopt;
  double lo = 0, hi = 0;
  for (std::size_t c = 0; c < r.factor.size(); ++c) {
    lo = std::min(lo, double{seen->channel_min()[c]} * r.factor[c]);
    hi = std::max(hi, double{seen->channel_max()[c]} * r.factor[c]);
  }
  return quant::Observer::of_range(static_cast<float>(lo), static_cast<float>(hi));
}

}  // namespace

Result<quant::Statistics> measure(Graph g, quant::SampleSource& samples,
                                  const ConvertOptions& options) {
  ConvertSummary summary;
  StageLog log(options, summary);
  FOLD8_CHECK_OK(run_front(g, &samples, options, log, summary));
  quant::Statistics statistics;
  statistics.model = quant::graph_id(g);
  Graph float_graph = g;
  FOLD8_CHECK_OK(log.run("emit", float_graph));
  FOLD8_TRY(auto model, exec::Model::from_graph(std::move(float_graph)));
  FOLD8_CHECK_OK(log.run("lower", g));
  quant::CalibrateOptions observation = observation_of(g, options.threads);
  observation.progress = [&](std::size_t done, std::size_t total) {
    log.progress("calibrate", done, total);
  };
  FOLD8_TRY(statistics.table, quant::calibrate(std::move(model), samples, observation));
  if (statistics.table.samples == 0)
    return invalid_model("the calibration data holds no samples; give at least one");
  return statistics;
}

Status check_statistics(const quant::Statistics& statistics, const Graph& front) {
  const std::uint64_t id = quant::graph_id(front);
  if (statistics.model == id) return ok_status();
  return invalid_argument(
      "the statistics belong to another model: they are of the folded network " +
      quant::id_text(statistics.model) + ", this one is " + quant::id_text(id) +
      "; `fold8 calibrate` needs the same .onnx file, the same --preprocess and "
      "--layernorm-to-rmsnorm, and the same version of fold8");
}

Result<quant::CalibrationTable> ranges_after_rescaling(const quant::Statistics& statistics,
                                                       std::shared_ptr<const exec::Model> model,
                                                       const Graph& lowered,
                                                       quant::SampleSource* samples, int threads) {
  quant::CalibrationTable table = statistics.table;
  quant::CalibrateOptions observation = observation_of(lowered, threads);
  std::map<std::string, ValueId> changed;
  for (ValueId v = 0; v < lowered.value_count(); ++v) {
    const graph::Value& value = lowered.value(v);
    if (observation.observe.count(value.name) != 0 &&
        (!value.rescale.empty() || table.find(value.name) == nullptr))
      changed.emplace(value.name, v);
  }
  if (samples != nullptr) {
    observation.observe.clear();
    for (const auto& [name, v] : changed) observation.observe.insert(name);
    FOLD8_TRY(quant::CalibrationTable measured,
              quant::calibrate(std::move(model), *samples, observation));
    for (auto& [name, observer] : measured.tensors)
      table.tensors.insert_or_assign(name, std::move(observer));
    return table;
  }
  const auto producers = lowered.producers();
  for (const auto& [name, v] : changed) {
    const auto from = rescaled(lowered, v, producers);
    auto ends = from ? ends_of(statistics.table, *from) : std::nullopt;
    if (!ends)
      return invalid_argument(
          "smoothing changes tensor '" + name +
          "', whose new range the statistics cannot tell: give --calib as well");
    table.tensors.insert_or_assign(name, *std::move(ends));
  }
  return table;
}

}  // namespace fold8::fusion
