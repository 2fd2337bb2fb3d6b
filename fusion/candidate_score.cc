#include "fusion/candidate_score.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "fusion/passes/movement.h"
#include "fusion/score.h"
#include "runtime/kernels/math_double.h"

namespace fold8::fusion {
namespace {

using graph::Graph;
using graph::kNoNode;
using graph::kNoValue;
using graph::ValueId;

constexpr std::size_t kNumbers = 8;  // of OutputSums
constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr std::size_t kFewest = 4;  // samples a bound can be given for
constexpr double kQuantile = 1.7;   // of Student's t, one-sided 95 %, rounded for 15 samples on
constexpr double kMostMissing =
    20;  // dB that leaving out one sample may add: one may have all error

std::size_t best_class(std::span<const float> row) {
  return static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

// f(sums of output o over all samples but one) for every output; the smallest result.
template <class F>
std::optional<double> worst_output(const Sums& sums, std::size_t without, const F& f) {
  std::optional<double> worst;
  const std::size_t outputs = sums.empty() ? 0 : sums[0].size();
  for (std::size_t o = 0; o < outputs; ++o) {
    OutputSums all;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (i == without) continue;
      all.ref2 += sums[i][o].ref2;
      all.err2 += sums[i][o].err2;
      all.got2 += sums[i][o].got2;
      all.dot += sums[i][o].dot;
    }
    if (!(all.ref2 > 0)) continue;
    const double v = f(all);
    worst = std::min(worst.value_or(v), v);
  }
  return worst;
}

ValueId last_softmax_operand(const Graph& g, const std::vector<graph::NodeId>& producers,
                             ValueId v) {
  for (graph::NodeId p = producers[static_cast<std::size_t>(v)]; p != kNoNode;
       p = producers[static_cast<std::size_t>(v)]) {
    const graph::Node& n = g.node(p);
    v = n.inputs.empty() ? kNoValue : n.inputs[0];
    if (v == kNoValue || g.is_constant(v)) return kNoValue;
    if (std::holds_alternative<graph::Softmax>(n.op)) return v;
    if (!is_movement(n.op)) return kNoValue;
  }
  return kNoValue;
}

}  // namespace

std::vector<double> flat(const Sums& sums) {
  std::vector<double> values;
  for (const auto& sample : sums)
    for (const OutputSums& o : sample)
      values.insert(values.end(),
                    {o.ref2, o.err2, o.got2, o.dot, o.rows, o.same, o.right_before, o.right_now});
  return values;
}

std::optional<Sums> sums_of(std::span<const double> values, std::size_t outputs) {
  if (outputs == 0 || values.size() % (outputs * kNumbers) != 0) return std::nullopt;
  Sums sums(values.size() / (outputs * kNumbers));
  const double* v = values.data();
  for (auto& sample : sums)
    for (std::size_t o = 0; o < outputs; ++o, v += kNumbers)
      sample.push_back({v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]});
  return sums;
}

std::optional<double> sqnr_db(const Sums& sums, std::size_t without) {
  return worst_output(sums, without, [](const OutputSums& o) {
    return o.err2 > 0 ? 10 * kernels::log_f64(o.ref2 / o.err2) / kernels::log_f64(10) : kInfinite;
  });
}

std::optional<double> cosine(const Sums& sums, std::size_t without) {
  return worst_output(sums, without, [](const OutputSums& o) {
    if (o.err2 == 0) return 1.0;
    return o.got2 > 0 ? o.dot / std::sqrt(o.ref2 * o.got2) : 0.0;
  });
}

std::optional<double> accuracy_drop(const Sums& sums, bool labels) {
  const std::size_t outputs = sums.empty() ? 0 : sums[0].size();
  std::optional<double> most;
  for (std::size_t o = 0; o < outputs; ++o) {
    double rows = 0, lost = 0;
    for (const auto& sample : sums) {
      rows += sample[o].rows;
      lost +=
          labels ? sample[o].right_before - sample[o].right_now : sample[o].rows - sample[o].same;
    }
    if (rows > 0) most = std::max(most.value_or(-1), lost / rows);
    if (labels) break;  // they are of the first output
  }
  return most;
}

std::optional<double> lower_bound(std::optional<double> (*statistic)(const Sums&, std::size_t),
                                  const Sums& sums) {
  const auto value = statistic(sums, kNone);
  if (!value || !std::isfinite(*value) || sums.size() < kFewest) return value;
  const auto n = static_cast<double>(sums.size());
  std::vector<double> v;
  double mean = 0, squares = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    v.push_back(std::min(statistic(sums, i).value_or(*value), *value + kMostMissing));
    mean += v.back() / n;
  }
  for (double x : v) squares += (x - mean) * (x - mean);
  return *value - kQuantile * std::sqrt((n - 1) / n * squares);
}

Sums first(const Sums& sums, std::size_t samples) {
  return {sums.begin(), sums.begin() + static_cast<std::ptrdiff_t>(std::min(samples, sums.size()))};
}

std::vector<std::string> judged_tensors(const Graph& g, bool at_outputs) {
  const auto producers = g.producers();
  std::vector<std::string> names;
  for (ValueId v : g.outputs) {
    const ValueId x = at_outputs ? kNoValue : last_softmax_operand(g, producers, v);
    const bool judged_before = x != kNoValue && !g.is_input(x) && g.type(x).dtype == DType::f32;
    names.push_back(g.value(judged_before ? x : v).name);
  }
  return names;
}

Result<std::shared_ptr<const exec::Model>> with_outputs(Graph g,
                                                        const std::vector<std::string>& names) {
  std::vector<ValueId> outputs;
  for (const std::string& name : names)
    if (const ValueId v = g.find_value(name); v != kNoValue) outputs.push_back(v);
  g.outputs = std::move(outputs);
  FOLD8_CHECK_OK(g.compact());
  return exec::Model::from_graph(std::move(g));
}

CandidateScorer::CandidateScorer(const Graph& reference, std::vector<std::string> judged,
                                 quant::SampleSource& samples, const Target& target, int threads)
    : judged_(std::move(judged)), samples_(samples), target_(target), threads_(threads) {
  auto model = with_outputs(reference, judged_);
  if (!model.ok()) {
    opened_ = model.error();
    return;
  }
  exec::SessionOptions options;
  options.threads = threads_;
  auto session = exec::Session::create(std::move(*model), options);
  if (session.ok())
    reference_ = std::move(*session);
  else
    opened_ = session.error();
}

// What the float model gives for the first sample, whether it was run for a score or all scores
// were remembered. Only types and shapes last.
Result<std::vector<TensorView>> CandidateScorer::first_results() {
  FOLD8_CHECK_OK(opened_);
  FOLD8_TRY(const std::vector<Tensor> inputs, samples_.sample(0));
  std::vector<TensorView> views;
  for (const Tensor& t : inputs) views.push_back(t.view());
  return wanted(0, views);
}

Result<std::size_t> CandidateScorer::numbers() {
  FOLD8_TRY(const std::vector<TensorView> outputs, first_results());
  std::size_t count = 1;
  for (const TensorView& t : outputs) count += static_cast<std::size_t>(t.shape.count());
  return count;
}

Result<std::int64_t> CandidateScorer::classes() {
  FOLD8_TRY(const std::vector<TensorView> outputs, first_results());
  if (outputs.empty() || outputs[0].dtype != DType::f32 || outputs[0].shape.rank() != 2)
    return std::int64_t{0};
  return outputs[0].shape.extent(1);
}

// What the float model gives, kept while it fits.
Result<std::vector<TensorView>> CandidateScorer::wanted(std::size_t sample,
                                                        const std::vector<TensorView>& inputs) {
  std::vector<TensorView> views;
  if (const auto kept = kept_.find(sample); kept != kept_.end()) {
    for (const Tensor& t : kept->second) views.push_back(t.view());
    return views;
  }
  FOLD8_CHECK_OK(reference_->run(inputs));
  std::size_t bytes = 0;
  for (const TensorView& t : reference_->outputs()) {
    views.push_back(t);
    bytes += t.bytes();
  }
  if (kept_bytes_ + bytes > FloatOutputs::kMostBytes) return views;
  kept_bytes_ += bytes;
  std::vector<Tensor>& copies = kept_[sample];
  for (const TensorView& t : views) {
    copies.emplace_back(t.dtype, t.shape);
    if (t.bytes() > 0) std::memcpy(copies.back().view().data, t.data, t.bytes());
  }
  return views;
}

Status CandidateScorer::add_accuracy(std::size_t sample, std::size_t output,
                                     const TensorView& before, const TensorView& now,
                                     OutputSums& sums) const {
  const auto classes = static_cast<std::size_t>(before.shape.extent(1));
  const auto rows = static_cast<std::size_t>(before.shape.extent(0));
  if (classes < 2) return ok_status();
  const std::size_t per_sample =
      target_.labels.empty() ? 0 : target_.labels.size() / samples_.count();
  const bool labels = output == 0 && !target_.labels.empty();
  if (labels && per_sample != rows)
    return invalid_argument("there are " + std::to_string(per_sample) +
                            " labels for its rows, which are " + std::to_string(rows));
  for (std::size_t r = 0; r < rows; ++r) {
    const auto a = best_class(before.as<const float>().subspan(r * classes, classes)),
               b = best_class(now.as<const float>().subspan(r * classes, classes));
    sums.rows += 1;
    sums.same += a == b;
    if (!labels) continue;
    const std::int64_t label = target_.labels[sample * rows + r];
    sums.right_before += static_cast<std::int64_t>(a) == label;
    sums.right_now += static_cast<std::int64_t>(b) == label;
  }
  return ok_status();
}

Result<Sums> CandidateScorer::score(const Graph& candidate, std::size_t from, std::size_t to) {
  FOLD8_CHECK_OK(opened_);
  FOLD8_TRY(auto model, with_outputs(candidate, judged_));
  if (model->graph().outputs.size() != judged_.size())
    return internal_error("a candidate lacks a tensor that it is judged by");
  exec::SessionOptions options;
  options.threads = threads_;
  FOLD8_TRY(auto session, exec::Session::create(model, options));
  Sums sums;
  for (std::size_t i = from; i < std::min(to, samples_.count()); ++i) {
    FOLD8_TRY(const std::vector<Tensor> inputs, samples_.sample(i));
    std::vector<TensorView> views;
    for (const Tensor& t : inputs) views.push_back(t.view());
    FOLD8_TRY(const std::vector<TensorView> before, wanted(i, views));
    FOLD8_CHECK_OK(session->run(views));
    sums.emplace_back(judged_.size());
    for (std::size_t o = 0; o < judged_.size(); ++o)
      if (const Status s = add(i, o, before[o], session->outputs()[o], sums.back()[o]); !s.ok())
        return in_context("tensor '" + judged_[o] + "', sample " + std::to_string(i), s.error());
  }
  return sums;
}

Status CandidateScorer::add(std::size_t sample, std::size_t output, const TensorView& x,
                            const TensorView& y, OutputSums& sums) const {
  if (x.dtype != DType::f32 || y.dtype != DType::f32 || !(x.shape == y.shape)) return ok_status();
  const auto r = x.as<const float>(), g = y.as<const float>();
  for (std::size_t i = 0; i < r.size(); ++i) {
    const double a = r[i], b = g[i];
    if (a == b) {
      sums.ref2 += std::isfinite(a) ? a * a : 0;
      sums.got2 += std::isfinite(a) ? a * a : 0;
      sums.dot += std::isfinite(a) ? a * a : 0;
      continue;
    }
    if (!std::isfinite(a) || !std::isfinite(b))
      return invalid_model(std::string(std::isfinite(a) ? "INT8" : "float") +
                           " gives a number that is not finite (element " + std::to_string(i) +
                           ")");
    sums.ref2 += a * a;
    sums.err2 += (a - b) * (a - b);
    sums.got2 += b * b;
    sums.dot += a * b;
  }
  return x.shape.rank() == 2 ? add_accuracy(sample, output, x, y, sums) : ok_status();
}

}  // namespace fold8::fusion
