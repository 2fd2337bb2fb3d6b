#include "quant/kept_run.h"

#include <algorithm>
#include <cstring>

#include "quant/layers.h"
#include "quant/observer.h"

namespace fold8::quant {

using graph::kNoValue;
using graph::ValueId;

Status KeptRun::open(std::shared_ptr<const exec::Model> model, int threads) {
  exec::SessionOptions options;
  options.threads = threads;
  options.keep_all = true;
  options.plan_cache = 1;
  FOLD8_TRY(session_, exec::Session::create(std::move(model), options));
  return ok_status();
}

Status KeptRun::run(const std::vector<TensorView>& inputs) {
  tensors_.clear();
  FOLD8_CHECK_OK(session_->run(inputs));
  for (ValueId v : wanted_) {
    FOLD8_TRY(Tensor t, session_->value(v));
    tensors_.emplace(v, std::move(t));
  }
  return ok_status();
}

Status KeptRun::rerun(const std::vector<exec::Replacement>& replaced, const Seen& seen) {
  if (!seen) return session_->rerun(replaced);
  session_->set_tap([&seen](ValueId v, const TensorView& t) {
    seen(v, t);
    return ok_status();
  });
  const Status status = session_->rerun(replaced);
  session_->set_tap(nullptr);
  return status;
}

Numbers KeptRun::output(std::size_t i) const {
  return numbers_of(session_->outputs()[i], graph().type(graph().outputs[i]));
}

Outputs outputs_of(const KeptRun& run, const OutputPairs& pairs, bool second) {
  Outputs outputs;
  for (const auto& [i, j] : pairs) outputs.push_back(run.output(second ? j : i));
  return outputs;
}

Status measure(const Outputs& wanted, const Outputs& got, const OutputPairs& pairs,
               const graph::Graph& reference, std::size_t sample, Meters& meters) {
  for (std::size_t p = 0; p < pairs.size(); ++p) {
    const auto failed = [&](const Error& e) {
      return in_context("tensor '" + reference.value(reference.outputs[pairs[p].first]).name +
                            "', sample " + std::to_string(sample),
                        e);
    };
    if (wanted[p].size() != got[p].size())
      return failed(invalid_model("the two models' shapes differ"));
    if (const Status s = meters[p].add(wanted[p], got[p]); !s.ok()) return failed(s.error());
  }
  return ok_status();
}

std::optional<double> worst_sqnr_db(const Meters& meters) {
  std::optional<double> db;
  for (const ErrorMeter& m : meters)
    if (const auto s = m.summary().sqnr_db) db = std::min(db.value_or(*s), *s);
  return db;
}

Result<Substitute> substitute(const KeptRun& run, graph::NodeId node,
                              const std::vector<ValueId>& writes,
                              std::vector<std::vector<float>> values) {
  const graph::Graph& g = run.graph();
  Substitute result;
  const auto add = [&](ValueId v, const Tensor& t) {
    const TensorView old = run.tensor(v).view(), now = t.view();
    result.differs = result.differs || std::memcmp(old.data, now.data, now.bytes()) != 0;
    result.replaced.push_back({v, now});
  };
  result.kept.reserve(values.size());
  for (std::size_t w = 0; w < values.size(); ++w) {
    const ValueId v = writes[w];
    const Shape& shape = run.tensor(v).shape();
    if (values[w].size() != static_cast<std::size_t>(shape.count()))
      return invalid_model("the two models' shapes differ");
    if (g.type(v).dtype != DType::f32 && first_not_finite(values[w]) < values[w].size())
      return invalid_model("the float layer gives a number that is not finite");
    apply_rescale(g.value(v), shape, values[w]);
    auto s = stored(values[w], shape, g.type(v));
    if (!s) {
      result.cannot = "'" + g.value(v).name + "' cannot be stored from real numbers";
      return result;
    }
    result.kept.push_back(std::move(*s));
    add(v, result.kept.back().elements);
    const auto& outputs = g.node(node).outputs;
    if (result.kept.back().row_scales && outputs.size() > 2 && outputs[2] != kNoValue)
      add(outputs[2], *result.kept.back().row_scales);
  }
  return result;
}

}  // namespace fold8::quant
