#include "fusion/score.h"

#include <algorithm>
#include <cstring>

#include "runtime/exec/session.h"

namespace fold8::fusion {

namespace {

// The reference's outputs on sample i: kept ones, or of a run.
class Reference {
 public:
  Reference(const ModelMaker& model, const exec::SessionOptions& options, FloatOutputs& kept)
      : model_(model), options_(options), kept_(kept) {}

  Result<std::vector<TensorView>> outputs(std::size_t i, const std::vector<TensorView>& inputs) {
    if (i < kept_.samples.size()) {
      std::vector<TensorView> views;
      for (const Tensor& t : kept_.samples[i]) views.push_back(t.view());
      return views;
    }
    if (session_ == nullptr) {
      FOLD8_TRY(auto model, model_());
      FOLD8_TRY(session_, exec::Session::create(std::move(model), options_));
    }
    FOLD8_CHECK_OK(session_->run(inputs));
    const auto& outputs = session_->outputs();
    std::vector<TensorView> views(outputs.begin(), outputs.end());
    kept_.keep(i, views);
    return views;
  }

 private:
  const ModelMaker& model_;
  const exec::SessionOptions& options_;
  FloatOutputs& kept_;
  std::unique_ptr<exec::Session> session_;
};

}  // namespace

void FloatOutputs::keep(std::size_t i, const std::vector<TensorView>& outputs) {
  if (i != samples.size()) return;
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
                    quant::SampleSource& samples, std::size_t at_most, int threads,
                    FloatOutputs& kept) {
  exec::SessionOptions options;
  options.threads = threads;
  Reference a(reference, options, kept);
  FOLD8_TRY(auto b, exec::Session::create(candidate, options));
  const graph::Graph& g = candidate->graph();
  const std::size_t outputs = g.outputs.size();
  std::vector<quant::ErrorMeter> meters(outputs);
  std::vector<quant::ClassMeter> classes(outputs);
  for (std::size_t i = 0; i < std::min(at_most, samples.count()); ++i) {
    FOLD8_TRY(const std::vector<Tensor> inputs, samples.sample(i));
    std::vector<TensorView> views;
    for (const Tensor& t : inputs) views.push_back(t.view());
    FOLD8_TRY(const std::vector<TensorView> wanted, a.outputs(i, views));
    FOLD8_CHECK_OK(b->run(views));
    for (std::size_t o = 0; o < outputs; ++o) {
      const TensorView &x = wanted[o], &y = b->outputs()[o];
      if (x.dtype != DType::f32 || y.dtype != DType::f32 || !(x.shape == y.shape)) continue;
      if (const Status s = meters[o].add(x.as<const float>(), y.as<const float>()); !s.ok())
        return in_context(
            "output '" + g.value(g.outputs[o]).name + "', sample " + std::to_string(i), s.error());
      if (x.shape.rank() == 2)
        classes[o].add(x.as<const float>(), y.as<const float>(),
                       static_cast<std::size_t>(x.shape.extent(1)));
    }
  }
  Score result;
  for (std::size_t o = 0; o < outputs; ++o) {
    if (g.type(g.outputs[o]).dtype != DType::f32) continue;
    OutputError e{g.value(g.outputs[o]).name, meters[o].summary(), classes[o].top1()};
    if (e.error.sqnr_db)
      result.worst_sqnr_db = std::min(result.worst_sqnr_db.value_or(1e9), *e.error.sqnr_db);
    if (e.top1) result.worst_top1 = std::min(result.worst_top1.value_or(1), *e.top1);
    result.outputs.push_back(std::move(e));
  }
  return result;
}

}  // namespace fold8::fusion
