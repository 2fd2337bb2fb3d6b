#include "fusion/rank_layers.h"

#include <algorithm>
#include <map>
#include <set>

#include "fusion/candidate_score.h"
#include "fusion/pipeline.h"
#include "quant/sensitivity.h"
#include "runtime/exec/session.h"
#include "runtime/kernels/math_double.h"

namespace fold8::fusion {
namespace {

constexpr std::size_t kMostRankSamples = 12;
constexpr std::size_t kRankNumbers = 1 << 14;  // judged numbers that are enough to rank by

using graph::Graph;
using graph::kNoValue;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

Result<std::map<std::string, double>> multiply_adds(std::shared_ptr<const exec::Model> model,
                                                    quant::SampleSource& samples) {
  const Graph& g = model->graph();
  FOLD8_TRY(auto session, exec::Session::create(model));
  session->enable_profile(true);
  FOLD8_TRY(const std::vector<Tensor> inputs, samples.sample(0));
  std::vector<TensorView> views;
  for (const Tensor& t : inputs) views.push_back(t.view());
  FOLD8_CHECK_OK(session->run(views));
  std::map<std::string, double> macs;
  for (const exec::StepProfile& p : session->profile())
    macs[g.value(g.node(p.node).outputs[0]).name] = p.macs;
  return macs;
}

bool is_multiplied(const Graph& g, const Node& n) {
  if (std::holds_alternative<graph::Attention>(n.op)) return true;
  return (std::holds_alternative<graph::Linear>(n.op) ||
          std::holds_alternative<graph::Conv>(n.op)) &&
         n.inputs.size() >= 2 && g.is_constant(n.inputs[1]);
}

// The choices that read a value, through operators that are none.
void readers(const Graph& g, const std::vector<std::vector<NodeId>>& consumers,
             const std::map<std::string, std::size_t>& choices, ValueId v, std::set<ValueId>& seen,
             std::set<std::size_t>& found) {
  std::vector<ValueId> left{v};
  while (!left.empty()) {
    const ValueId x = left.back();
    left.pop_back();
    for (NodeId id : consumers[static_cast<std::size_t>(x)])
      for (ValueId y : g.node(id).outputs) {
        if (y == kNoValue || !seen.insert(y).second) continue;
        if (const auto c = choices.find(g.value(y).name); c != choices.end())
          found.insert(c->second);
        else
          left.push_back(y);
      }
  }
}

double noise_of(const quant::LayerSensitivity& s) {
  double most = 0;
  for (const auto& db : s.alone_outputs_db)
    if (db) most = std::max(most, energy_ratio(-*db));
  return most;
}

}  // namespace

std::size_t rank_samples(std::size_t numbers, std::size_t least) {
  return std::clamp(kRankNumbers / std::max<std::size_t>(numbers, 1), least, kMostRankSamples);
}

double energy_ratio(double db) { return kernels::exp_f64(db / 10 * kernels::log_f64(10)); }

Result<std::vector<FloatChoice>> float_choices(const Graph& g,
                                               std::shared_ptr<const exec::Model> float_model,
                                               quant::SampleSource& samples,
                                               const QuantizeOptions& options) {
  FOLD8_TRY(const auto macs, multiply_adds(float_model, samples));
  FOLD8_TRY(const std::vector<NodeId> order, g.topological_order());
  std::vector<FloatChoice> choices;
  for (NodeId id : order) {
    const Node& n = g.node(id);
    if (!is_multiplied(g, n)) continue;
    FloatChoice c;
    c.name = g.value(n.outputs[0]).name;
    c.attention = std::holds_alternative<graph::Attention>(n.op);
    if (const auto known = macs.find(c.name); known != macs.end()) c.macs = known->second;
    c.imported = !c.attention && g.type(n.inputs[1]).dtype != DType::f32;
    c.fixed = kept_float_by(options, g, n) != nullptr || options.also_float.count(c.name) != 0 ||
              (!c.attention && !is_quantizable_layer(g, n));
    choices.push_back(std::move(c));
  }
  return choices;
}

Result<std::vector<double>> noises(const Graph& g, std::shared_ptr<const exec::Model> float_model,
                                   const QuantizeOptions& options,
                                   const std::vector<FloatChoice>& choices,
                                   quant::SampleSource& samples, const RankOptions& how) {
  // Not lowered: every layer gives its result as f32, and rounds what it reads itself.
  Graph int8 = g;
  FOLD8_TRY(const QuantizeOutcome quantized, quantize(int8, options));
  (void)quantized;
  FOLD8_TRY(const Tally emitted, run(fusion::stage("emit"), int8));
  (void)emitted;
  // The reference is this very network: what a pass rescaled is so in both.
  for (ValueId v = 0; v < int8.value_count(); ++v) {
    int8.value(v).rescale.clear();
    int8.value(v).rescale_axis = -1;
  }
  FOLD8_TRY(auto reference, with_outputs(float_model->graph(), how.judged));
  FOLD8_TRY(auto other, with_outputs(std::move(int8), how.judged));
  quant::SensitivityOptions o;
  o.gain = false;
  o.most_samples = how.samples;
  o.threads = how.threads;
  o.progress = how.progress;
  FOLD8_TRY(const auto layers, quant::sensitivity(reference, other, samples, o));
  std::map<std::string, std::size_t> positions;
  for (std::size_t i = 0; i < choices.size(); ++i) positions[choices[i].name] = i;
  std::vector<double> noise(choices.size());
  const auto consumers = g.consumers();
  for (const quant::LayerSensitivity& s : layers) {
    const double alone = noise_of(s);
    if (alone == 0) continue;
    if (const auto c = positions.find(s.name); c != positions.end()) {
      noise[c->second] += alone;
      continue;
    }
    const ValueId v = g.find_value(s.name);
    if (v == kNoValue) continue;
    std::set<ValueId> seen;
    std::set<std::size_t> behind;
    readers(g, consumers, positions, v, seen, behind);
    for (std::size_t c : behind) noise[c] += alone / static_cast<double>(behind.size());
  }
  return noise;
}

std::vector<std::size_t> ranking(const std::vector<FloatChoice>& choices,
                                 const std::vector<double>& noise) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < choices.size(); ++i)
    if (!choices[i].fixed && noise[i] > 0 && choices[i].macs > 0) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return noise[a] / choices[a].macs > noise[b] / choices[b].macs;
  });
  return order;
}

}  // namespace fold8::fusion
