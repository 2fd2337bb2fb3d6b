#include "fusion/score.h"

#include <algorithm>

#include "runtime/exec/session.h"

namespace fold8::fusion {

Result<Score> score(std::shared_ptr<const exec::Model> reference,
                    std::shared_ptr<const exec::Model> candidate, quant::SampleSource& samples,
                    std::size_t at_most, int threads) {
  exec::SessionOptions options;
  options.threads = threads;
  FOLD8_TRY(auto a, exec::Session::create(reference, options));
  FOLD8_TRY(auto b, exec::Session::create(candidate, options));
  const std::size_t outputs = reference->graph().outputs.size();
  std::vector<quant::ErrorMeter> meters(outputs);
  std::vector<quant::ClassMeter> classes(outputs);
  for (std::size_t i = 0; i < std::min(at_most, samples.count()); ++i) {
    FOLD8_TRY(const std::vector<Tensor> inputs, samples.sample(i));
    std::vector<TensorView> views;
    for (const Tensor& t : inputs) views.push_back(t.view());
    FOLD8_CHECK_OK(a->run(views));
    FOLD8_CHECK_OK(b->run(views));
    for (std::size_t o = 0; o < outputs; ++o) {
      const TensorView &x = a->outputs()[o], &y = b->outputs()[o];
      if (x.dtype != DType::f32 || y.dtype != DType::f32 || !(x.shape == y.shape)) continue;
      if (const Status s = meters[o].add(x.as<const float>(), y.as<const float>()); !s.ok())
        return in_context("output '" +
                              reference->graph().value(reference->graph().outputs[o]).name +
                              "', sample " + std::to_string(i),
                          s.error());
      if (x.shape.rank() == 2)
        classes[o].add(x.as<const float>(), y.as<const float>(),
                       static_cast<std::size_t>(x.shape.extent(1)));
    }
  }
  Score result;
  for (std::size_t o = 0; o < outputs; ++o) {
    if (reference->graph().type(reference->graph().outputs[o]).dtype != DType::f32) continue;
    OutputError e{reference->graph().value(reference->graph().outputs[o]).name, meters[o].summary(),
                  classes[o].top1()};
    if (e.error.sqnr_db)
      result.worst_sqnr_db = std::min(result.worst_sqnr_db.value_or(1e9), *e.error.sqnr_db);
    if (e.top1) result.worst_top1 = std::min(result.worst_top1.value_or(1), *e.top1);
    result.outputs.push_back(std::move(e));
  }
  return result;
}

}  // namespace fold8::fusion
