#include "quant/sample_rows.h"

#include <algorithm>

#include "quant/run_samples.h"

namespace fold8::quant {
namespace {

// At most `wanted` rows of t, evenly spaced.
void take_rows(const TensorView& t, std::size_t wanted, SampleRows& into) {
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

RowCollector::RowCollector(std::set<std::string> names, std::size_t rows, std::size_t samples)
    : names_(std::move(names)),
      samples_(samples),
      used_(std::min(samples, rows)),
      each_(used_ == 0 ? 0 : (rows + used_ - 1) / used_) {}

// Evenly spread: k * samples / used for k = 0, 1, ..
bool RowCollector::uses(std::size_t sample) const {
  const std::size_t k = (sample * used_ + samples_ - 1) / samples_;
  return k < used_ && k * samples_ / used_ == sample;
}

void RowCollector::see(std::size_t sample, const std::string& name, const TensorView& tensor) {
  if (names_.count(name) != 0 && uses(sample)) take_rows(tensor, each_, rows_[name]);
}

Result<std::map<std::string, SampleRows>> sample_rows(std::shared_ptr<const exec::Model> model,
                                                      SampleSource& samples,
                                                      const std::set<std::string>& names,
                                                      std::size_t rows, int threads) {
  RowCollector collector(names, rows, samples.count());
  const graph::Graph& g = model->graph();
  RunOptions options;
  options.most_samples = collector.samples_used();
  options.threads = threads;
  std::size_t current = 0;
  RunCallbacks callbacks;
  callbacks.begin = [&](std::size_t i, const std::vector<TensorView>&) {
    current = i;
    return ok_status();
  };
  callbacks.see = [&](graph::ValueId v, const TensorView& t) {
    collector.see(current, g.value(v).name, t);
    return ok_status();
  };
  FOLD8_CHECK_OK(run_samples(model, samples, options, callbacks));
  return collector.take();
}

}  // namespace fold8::quant
