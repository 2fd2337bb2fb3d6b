#include "fusion/score.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "quant/numbers.h"
#include "runtime/exec/session.h"

namespace fold8::fusion {

namespace {

// The reference's outputs on scored sample k: kept ones, or of a run.
class Reference {
 public:
  Reference(const ModelMaker& model, const exec::SessionOptions& options,
            const std::vector<std::size_t>& scored, FloatOutputs& kept)
      : model_(model), options_(options), scored_(scored), kept_(kept) {}

  Result<std::vector<TensorView>> outputs(std::size_t k, const std::vector<TensorView>& inputs) {
    if (k < kept_.samples.size()) {
      std::vector<TensorView> views;
      for (const Tensor& t : kept_.samples[k]) views.push_back(t.view());
      return views;
    }
    if (session_ == nullptr) {
      FOLD8_TRY(auto model, model_());
      FOLD8_TRY(session_, exec::Session::create(std::move(model), options_));
    }
    FOLD8_CHECK_OK(session_->run(inputs));
    const auto& outputs = session_->outputs();
    std::vector<TensorView> views(outputs.begin(), outputs.end());
    kept_.keep(scored_, scored_[k], views);
    return views;
  }

 private:
  const ModelMaker& model_;
  const exec::SessionOptions& options_;
  const std::vector<std::size_t>& scored_;
  FloatOutputs& kept_;
  std::unique_ptr<exec::Session> session_;
};

bool is_real(const TensorType& t) { return is_floating(t.dtype) || t.quant; }

// `type` of the candidate's.
Status add(const TensorView& x, const TensorView& y, const TensorType& type,
           quant::ErrorMeter& meter, quant::ClassMeter& classes) {
  const bool scores = x.shape.rank() == 2 && is_floating(x.dtype);
  const auto columns = scores ? static_cast<std::size_t>(x.shape.extent(1)) : 0;
  if (x.dtype == DType::f32 && y.dtype == DType::f32) {  // as they lie
    FOLD8_CHECK_OK(meter.add(x.as<const float>(), y.as<const float>()));
    if (scores) classes.add(x.as<const float>(), y.as<const float>(), columns);
    return ok_status();
  }
  const quant::Numbers a = quant::numbers_of(x, x.dtype == type.dtype ? type : TensorType()),
                       b = quant::numbers_of(y, type);
  FOLD8_CHECK_OK(meter.add(a, b));
  if (scores) classes.add(a.values, b.values, columns);
  return ok_status();
}

}  // namespace

std::vector<std::size_t> first_samples(std::size_t count, std::size_t most) {
  std::vector<std::size_t> chosen(std::min(count, most));
  std::iota(chosen.begin(), chosen.end(), std::size_t{0});
  return chosen;
}

std::vector<std::size_t> even_samples(std::size_t count, std::size_t most) {
  std::vector<std::size_t> chosen = first_samples(count, most);
  for (std::size_t k = 0; k < chosen.size(); ++k) chosen[k] = k * count / chosen.size();
  return chosen;
}

void FloatOutputs::keep(const std::vector<std::size_t>& scored, std::size_t i,
                        const std::vector<TensorView>& outputs) {
  if (samples.size() >= scored.size() || scored[samples.size()] != i) return;
  std::size_t more = 0;
  for (const TensorView& v : outputs) more += v.bytes();
  if (bytes + more > kMostBytes) return;
  std::vector<Tensor> copies;
  for (const TensorView& v : outputs) {
    copies.emplace_back(v.dtype, v.shape);
    if (v.bytes() > 0) std::memcpy(copies.back().view().data, v.data, v.bytes());
  }
  samples.push_back(std::move(copies));
  bytes += more;
}

Result<Score> score(const ModelMaker& reference, std::shared_ptr<const exec::Model> candidate,
                    quant::SampleSource& samples, const ScoreOptions& score_options,
                    FloatOutputs& kept) {
  exec::SessionOptions options;
  options.threads = score_options.threads;
  Reference a(reference, options, score_options.samples, kept);
  FOLD8_TRY(auto b, exec::Session::create(candidate, options));
  const graph::Graph& g = candidate->graph();
  const std::size_t outputs = g.outputs.size();
  std::vector<quant::ErrorMeter> meters(outputs);
  std::vector<quant::ClassMeter> classes(outputs);
  for (std::size_t k = 0; k < score_options.samples.size(); ++k) {
    const std::size_t i = score_options.samples[k];
    FOLD8_TRY(const std::vector<Tensor> inputs, samples.sample(i));
    std::vector<TensorView> views;
    for (const Tensor& t : inputs) views.push_back(t.view());
    FOLD8_TRY(const std::vector<TensorView> wanted, a.outputs(k, views));
    FOLD8_CHECK_OK(b->run(views));
    for (std::size_t o = 0; o < outputs; ++o) {
      const TensorView &x = wanted[o], &y = b->outputs()[o];
      if (!(x.shape == y.shape)) continue;
      if (const Status s = add(x, y, g.type(g.outputs[o]), meters[o], classes[o]); !s.ok())
        return in_context(
            "output '" + g.value(g.outputs[o]).name + "', sample " + std::to_string(i), s.error());
    }
  }
  Score result;
  const auto& judged = score_options.judged;
  const bool any_real = std::any_of(g.outputs.begin(), g.outputs.end(),
                                    [&](graph::ValueId v) { return is_real(g.type(v)); });
  for (std::size_t own = 0; own < (judged.empty() ? outputs : judged.size()); ++own) {
    const std::size_t o = judged.empty() ? own : judged[own];
    result.outputs.push_back(
        {g.value(g.outputs[own]).name, meters[own].summary(), classes[own].top1()});
    if (any_real && !is_real(g.type(g.outputs[o]))) continue;
    if (const auto db = meters[o].summary().sqnr_db)
      result.worst_sqnr_db = std::min(result.worst_sqnr_db.value_or(1e9), *db);
    if (const auto top1 = classes[o].top1())
      result.worst_top1 = std::min(result.worst_top1.value_or(1), *top1);
  }
  return result;
}

}  // namespace fold8::fusion
