#include "quant/batch_norm_facts.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "quant/cause_text.h"
#include "quant/channel_words.h"
#include "quant/observer.h"
#include "quant/plain_f32.h"
#include "runtime/exec/session.h"
#include "runtime/kernels/math_double.h"

namespace fold8::quant {
namespace {

using graph::Graph;
using graph::kNoValue;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

constexpr double kMostDistance = 20;    // of one channel: a dead one must not speak for all
constexpr double kWrongDistance = 0.6;  // data like the training set stays below 0.3
constexpr double kExplained = 0.25;     // a guess must leave at most this part of the distance
constexpr std::size_t kGuessSamples = 4;
constexpr float kPastEnd = 1.01f;  // pixels that were resized may lie beyond their range

// Sums over everything a BatchNorm reads, by channel.
struct Moments {
  std::vector<double> sum, squares;
  double count = 0;  // values of one channel

  void add(const std::vector<float>& values, const Shape& shape) {
    const int axis = shape.rank() > 1 ? 1 : 0;
    const auto channels = static_cast<std::size_t>(shape.extent(axis)),
               inner = static_cast<std::size_t>(shape.count(axis + 1, shape.rank()));
    if (channels == 0 || inner == 0 || (!sum.empty() && sum.size() != channels)) return;
    sum.resize(channels);
    squares.resize(channels);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double v = static_cast<double>(values[i]);
      sum[i / inner % channels] += v;
      squares[i / inner % channels] += v * v;
    }
    count += static_cast<double>(values.size() / channels);
  }
};

struct Norm {
  NodeId node;
  std::vector<double> mean, variance;  // stored
  Moments seen;
};

std::optional<std::vector<double>> constant_of(const Graph& g, const Node& n, std::size_t i) {
  if (n.inputs.size() <= i || !g.is_constant(n.inputs[i]) ||
      g.type(n.inputs[i]).dtype != DType::f32)
    return std::nullopt;
  const auto values = g.constant<float>(n.inputs[i]);
  return std::vector<double>(values.begin(), values.end());
}

BatchNormFacts facts_of(const Graph& g, const Norm& n) {
  const Node& node = g.node(n.node);
  const double epsilon = static_cast<double>(std::get<graph::BatchNorm>(node.op).epsilon);
  BatchNormFacts f;
  f.node = node.name;
  f.tensor = g.value(node.outputs[0]).name;
  f.channels = n.mean.size();
  std::vector<double> shifts, spreads;
  for (std::size_t c = 0; c < n.mean.size(); ++c) {
    const double mean = n.seen.sum[c] / n.seen.count,
                 variance = std::max(n.seen.squares[c] / n.seen.count - mean * mean, 0.0) + epsilon,
                 stored = std::max(n.variance[c], 0.0) + epsilon;
    const double shift = std::abs(mean - n.mean[c]) / std::sqrt(stored);
    const double ratio = variance / stored;
    shifts.push_back(shift);
    spreads.push_back(std::sqrt(std::max(ratio, 1 / ratio)));
    if (shift > f.worst_shift) {
      f.worst_shift = shift;
      f.worst_channel = c;
    }
    const double d = (shift * shift + ratio - 1 - kernels::log_f64(ratio)) / 2;
    f.distance += std::min(d, kMostDistance) / static_cast<double>(n.mean.size());
  }
  f.median_shift = median(std::move(shifts));
  f.median_spread = median(std::move(spreads));
  return f;
}

// The sample with its pictures standardised in front of the network.
using Change = std::function<void(std::vector<Tensor>&)>;

class Meter {
 public:
  Meter(std::shared_ptr<const exec::Model> model, const BatchNormOptions& options)
      : model_(std::move(model)), options_(options) {}

  Result<std::vector<BatchNormFacts>> run(SampleSource& samples, const Change& change = {}) {
    find();
    if (norms_.empty()) return std::vector<BatchNormFacts>{};
    const Graph& g = model_->graph();
    exec::SessionOptions session_options;
    session_options.threads = options_.threads;
    FOLD8_TRY(auto session, exec::Session::create(model_, session_options));
    session->set_tap([&](ValueId v, const TensorView& t) { return see(v, t); });
    const std::size_t count = std::min(samples.count(), options_.most_samples);
    for (std::size_t i = 0; i < count; ++i) {
      FOLD8_TRY(std::vector<Tensor> inputs, samples.sample(i));
      if (change) change(inputs);
      std::vector<TensorView> views;
      for (const Tensor& t : inputs) views.push_back(t.view());
      waiting_ = norms_.size();
      for (std::size_t k = 0; k < views.size(); ++k) (void)see(g.inputs[k], views[k]);
      if (waiting_ == 0) continue;
      const Status s = session->run(views);
      if (!s.ok() && waiting_ > 0) return in_context("sample " + std::to_string(i), s.error());
    }
    std::vector<BatchNormFacts> facts;
    for (const Norm& n : norms_)
      if (n.seen.count > 0) facts.push_back(with_layer(facts_of(g, n), n));
    return facts;
  }

 private:
  void find() {
    const Graph& g = model_->graph();
    for (const NodeId id : model_->order()) {
      const Node& n = g.node(id);
      const auto* op = std::get_if<graph::BatchNorm>(&n.op);
      if (op == nullptr || op->training || n.inputs.size() < 5) continue;
      const auto mean = constant_of(g, n, 3), variance = constant_of(g, n, 4);
      if (!mean || !variance || mean->size() != variance->size() || mean->empty()) continue;
      reads_[n.inputs[0]].push_back(norms_.size());
      norms_.push_back({id, *mean, *variance, {}});
      if (options_.first_only) return;
    }
  }

  Status see(ValueId v, const TensorView& t) {
    const auto it = reads_.find(v);
    if (it == reads_.end() || t.dtype != DType::f32) return ok_status();
    const auto values = plain_f32(t, model_->graph().type(v));
    if (!values || first_not_finite(*values) < values->size()) return ok_status();
    for (const std::size_t n : it->second) {
      if (t.shape.rank() < 1 || static_cast<std::size_t>(t.shape.extent(
                                    t.shape.rank() > 1 ? 1 : 0)) != norms_[n].mean.size())
        continue;
      norms_[n].seen.add(*values, t.shape);
      --waiting_;
    }
    // What comes after the first one is of no interest then.
    return waiting_ == 0 && options_.first_only ? Status(invalid_argument("enough was seen"))
                                                : ok_status();
  }

  BatchNormFacts with_layer(BatchNormFacts f, const Norm& n) const {
    const Graph& g = model_->graph();
    const auto producers = g.producers();
    const NodeId p = producers[static_cast<std::size_t>(g.node(n.node).inputs[0])];
    if (p == graph::kNoNode) return f;
    const graph::Op& op = g.node(p).op;
    if (std::holds_alternative<graph::Conv>(op) || std::holds_alternative<graph::Linear>(op) ||
        std::holds_alternative<graph::MatMul>(op))
      f.layer = g.value(g.node(p).outputs[0]).name;
    return f;
  }

  std::shared_ptr<const exec::Model> model_;
  const BatchNormOptions& options_;
  std::vector<Norm> norms_;
  std::map<ValueId, std::vector<std::size_t>> reads_;
  std::size_t waiting_ = 0;
};

// ---- what is usual

struct Usual {
  const char* name;
  std::vector<float> mean, std;  // RGB, or one number
  float lowest, highest;         // of the data that it is for
};
const std::vector<Usual>& usual_preprocessing() {
  static const std::vector<Usual> list = {
      {"ImageNet mean and deviation of pictures in 0..255",
       {123.675f, 116.28f, 103.53f},
       {58.395f, 57.12f, 57.375f},
       0,
       255},
      {"ImageNet mean and deviation of pictures in 0..1",
       {0.485f, 0.456f, 0.406f},
       {0.229f, 0.224f, 0.225f},
       0,
       1},
      {"0..255 to -1..1", {127.5f}, {127.5f}, 0, 255},
      {"0..1 to -1..1", {0.5f}, {0.5f}, 0, 1},
      {"0..255 to 0..1", {0.0f}, {255.0f}, 0, 255},
      {"0..1 to 0..255", {0.0f}, {0.003921568627f}, 0, 1},
      {"ImageNet means of pictures in 0..255, not divided",
       {123.68f, 116.78f, 103.94f},
       {1.0f},
       0,
       255},
      {"-1..1 to ImageNet mean and deviation",
       {-0.03f, -0.088f, -0.188f},
       {0.458f, 0.448f, 0.45f},
       -1,
       1},
  };
  return list;
}

// The axis of three or one colours of a picture.
std::optional<int> colour_axis(const Shape& s) {
  if (s.rank() != 4) return std::nullopt;
  const auto fits = [&](int axis) {
    return s[axis].known() && (s.extent(axis) == 3 || s.extent(axis) == 1);
  };
  if (fits(1)) return 1;
  return fits(3) ? std::optional(3) : std::nullopt;
}

// Another tensor: the source may keep this one.
Tensor standardised(const Tensor& t, int axis, const Usual& u) {
  const auto colours = static_cast<std::size_t>(t.shape().extent(axis)),
             inner = static_cast<std::size_t>(t.shape().count(axis + 1, t.shape().rank()));
  Tensor result(t.dtype(), t.shape());
  const std::span<const float> given = t.as<const float>();
  const std::span<float> values = result.as<float>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t c = i / inner % colours;
    values[i] = (given[i] - u.mean[c % u.mean.size()]) / u.std[c % u.std.size()];
  }
  return result;
}

// The smallest and the largest value of an input.
Result<std::pair<float, float>> range_of(SampleSource& samples, std::size_t input,
                                         std::size_t most) {
  std::pair<float, float> range{0, 0};
  for (std::size_t i = 0; i < std::min(samples.count(), most); ++i) {
    FOLD8_TRY(const std::vector<Tensor> inputs, samples.sample(i));
    for (const float v : inputs[input].as<const float>())
      range = {std::min(range.first, v), std::max(range.second, v)};
  }
  return range;
}

std::string list_of(const std::vector<float>& v) {
  std::string text;
  for (const float x : v) {
    char buffer[32];
    const auto r = std::to_chars(buffer, buffer + sizeof buffer, x);
    text += (text.empty() ? "" : ",") + std::string(buffer, r.ptr);
  }
  return text;
}

}  // namespace

bool BatchNormFacts::disagrees() const { return distance > kWrongDistance; }

std::string PreprocessGuess::flag() const {
  return "--preprocess " + shell_word(input + ":mean=" + list_of(mean) + ",std=" + list_of(std));
}

Result<std::vector<BatchNormFacts>> batch_norm_facts(std::shared_ptr<const exec::Model> model,
                                                     SampleSource& samples,
                                                     const BatchNormOptions& options) {
  return Meter(std::move(model), options).run(samples);
}

Result<std::optional<PreprocessGuess>> guess_preprocessing(std::shared_ptr<const exec::Model> model,
                                                           SampleSource& samples,
                                                           const BatchNormOptions& options) {
  std::optional<PreprocessGuess> best;
  const Graph& g = model->graph();
  std::vector<std::size_t> pictures;
  for (std::size_t i = 0; i < g.inputs.size(); ++i)
    if (g.type(g.inputs[i]).dtype == DType::f32 && colour_axis(g.type(g.inputs[i]).shape))
      pictures.push_back(i);
  if (pictures.size() != 1) return best;
  const std::size_t input = pictures[0];
  const int axis = *colour_axis(g.type(g.inputs[input]).shape);
  BatchNormOptions first = options;
  first.first_only = true;
  first.most_samples = std::min(options.most_samples, kGuessSamples);
  FOLD8_TRY(const auto before, Meter(model, first).run(samples));
  if (before.empty() || !before[0].disagrees()) return best;
  FOLD8_TRY(const auto range, range_of(samples, input, options.most_samples));
  const auto measure = [&](const Usual& u, const BatchNormOptions& o) {
    return Meter(model, o).run(samples, [&](std::vector<Tensor>& inputs) {
      inputs[input] = standardised(inputs[input], axis, u);
    });
  };
  for (const Usual& u : usual_preprocessing()) {
    if (range.first < u.lowest * kPastEnd || range.second > u.highest * kPastEnd) continue;
    if (u.mean.size() > 1 && g.type(g.inputs[input]).shape.extent(axis) != 3) continue;
    const auto after = measure(u, first);
    if (!after.ok() || after->empty() || (*after)[0].disagrees()) continue;
    const double distance = (*after)[0].distance;
    if (distance > kExplained * before[0].distance || (best && distance >= best->after)) continue;
    // A few samples may agree by chance.
    BatchNormOptions all = first;
    all.most_samples = options.most_samples;
    const auto proof = measure(u, all);
    if (!proof.ok() || proof->empty() || (*proof)[0].disagrees()) continue;
    best = PreprocessGuess{
        g.value(g.inputs[input]).name, u.name, u.mean, u.std, before[0].distance, distance};
  }
  return best;
}

}  // namespace fold8::quant
