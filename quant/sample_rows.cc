#include "quant/sample_rows.h"

#include <algorithm>

#include "quant/run_samples.h"

namespace fold8::quant {
namespace {

// At most `wanted` rows of t, evenly spaced.
void take(const TensorView& t, std::size_t wanted, SampleRows& into) {
  if (t.dtype != DType::f32 || t.layout != Layout::plain || t.shape.rank() < 1) return;
  const auto values = t.as<const float>();
  const auto width = static_cast<std::size_t>(t.shape.extent(t.shape.rank() - 1));
  if (width == 0 || values.empty() || (into.width != 0 && into.width != width)) return;
  into.width = width;
  const std::size_t rows = values.size() / width, count = std::min(rows, wanted);
  for (std::size_t i = 0; i < count; ++i) {
    const auto row = values.subspan(i * rows / count * width, width);
    into.values.insert(into.values.end(), row.begin(), row.end());
  }
}

}  // namespace

Result<std::map<std::string, SampleRows>> sample_rows(std::shared_ptr<const exec::Model> model,
                                                      SampleSource& samples,
                                                      const std::set<std::string>& names,
                                                      std::size_t rows, int threads) {
  std::map<std::string, SampleRows> result;
  if (samples.count() == 0) return result;
  const graph::Graph& g = model->graph();
  // With more samples than rows some of them give none.
  const std::size_t used = std::min(samples.count(), rows), each = (rows + used - 1) / used;
  RunOptions options;
  options.most_samples = used;
  options.threads = threads;
  RunCallbacks callbacks;
  callbacks.see = [&](graph::ValueId v, const TensorView& t) {
    if (names.count(g.value(v).name) != 0) take(t, each, result[g.value(v).name]);
    return ok_status();
  };
  FOLD8_CHECK_OK(run_samples(model, samples, options, callbacks));
  return result;
}

}  // namespace fold8::quant
