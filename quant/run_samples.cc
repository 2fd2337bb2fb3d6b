#include "quant/run_samples.h"

#include <algorithm>

#include "runtime/exec/session.h"

namespace fold8::quant {

std::string sample_name(const SampleSource& samples, std::size_t i) {
  const std::string where = samples.describe(i);
  return std::to_string(i) + (where.empty() ? "" : " ('" + where + "')");
}

Status run_samples(std::shared_ptr<const exec::Model> model, SampleSource& samples,
                   const RunOptions& options, const RunCallbacks& callbacks) {
  exec::SessionOptions session_options;
  session_options.threads = options.threads;
  session_options.plan_cache = 2;
  FOLD8_TRY(auto session, exec::Session::create(model, session_options));
  const graph::Graph& g = model->graph();
  if (callbacks.see) session->set_tap(callbacks.see);
  const std::size_t used =
      options.most_samples == 0 ? samples.count() : std::min(samples.count(), options.most_samples);
  const auto run_one = [&](std::size_t i, const std::vector<TensorView>& views) -> Status {
    if (callbacks.begin) FOLD8_CHECK_OK(callbacks.begin(i, views));
    if (callbacks.see)
      for (std::size_t k = 0; k < views.size(); ++k)
        FOLD8_CHECK_OK(callbacks.see(g.inputs[k], views[k]));
    FOLD8_CHECK_OK(session->run(views));
    return callbacks.end ? callbacks.end(i, session->outputs()) : ok_status();
  };
  for (std::size_t k = 0; k < used; ++k) {
    const std::size_t i = k * samples.count() / used;
    FOLD8_TRY(const std::vector<Tensor> inputs, samples.sample(i));
    std::vector<TensorView> views;
    for (const Tensor& t : inputs) views.push_back(t.view());
    if (const Status s = run_one(i, views); !s.ok())
      return in_context("calibration sample " + sample_name(samples, i), s.error());
    if (options.progress) options.progress(k + 1, used);
  }
  return ok_status();
}

}  // namespace fold8::quant
