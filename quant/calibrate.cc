#include "quant/calibrate.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "runtime/exec/session.h"

namespace fold8::quant {
namespace {

// Observes tensors of one sample; what went wrong is said with the sample's number and the tensor's
// name.
class Watcher {
 public:
  Watcher(const graph::Graph& g, const CalibrateOptions& options, CalibrationTable& table) {
    watched_.resize(static_cast<std::size_t>(g.value_count()));
    for (graph::ValueId v = 0; v < g.value_count(); ++v) {
      const std::string& name = g.value(v).name;
      if (g.type(v).dtype != DType::f32) continue;
      const bool only_nan =
          options.observe.count(name) == 0 && options.look_for_nan.count(name) != 0;
      if (only_nan) watched_[static_cast<std::size_t>(v)] = Watched{nullptr, -1, &name};
      if (options.observe.count(name) == 0) continue;
      const auto axis = options.channel_axis.find(name);
      watched_[static_cast<std::size_t>(v)] = Watched{
          &table.tensors[name], axis == options.channel_axis.end() ? -1 : axis->second, &name};
    }
  }

  Status see(graph::ValueId v, const TensorView& t, std::size_t sample) {
    const auto& w = watched_[static_cast<std::size_t>(v)];
    if (!w || t.dtype != DType::f32) return ok_status();
    const auto values = t.as<const float>();
    if (w->observer == nullptr) {
      const auto nan =
          std::find_if(values.begin(), values.end(), [](float x) { return std::isnan(x); });
      return nan == values.end()
                 ? ok_status()
                 : Status(bad_value(sample, *w->name, values,
                                    static_cast<std::size_t>(nan - values.begin())));
    }
    if (const std::size_t bad = first_not_finite(values); bad < values.size())
      return bad_value(sample, *w->name, values, bad);
    w->observer->add(values);
    const bool last = t.layout == Layout::channels_last && w->channel_axis == 1;
    if (w->channel_axis >= 0 && w->channel_axis < t.shape.rank() &&
        (last || t.layout == Layout::plain))
      w->observer->add_channels(
          values, static_cast<std::size_t>(t.shape.extent(w->channel_axis)),
          last ? 1 : static_cast<std::size_t>(t.shape.count(w->channel_axis + 1, t.shape.rank())));
    return ok_status();
  }

 private:
  static Error bad_value(std::size_t sample, const std::string& name, std::span<const float> values,
                         std::size_t i) {
    return invalid_model("calibration sample " + std::to_string(sample) + ": tensor '" + name +
                         "' holds " + (std::isnan(values[i]) ? "NaN" : "an infinity") +
                         " (element " + std::to_string(i) +
                         "); remove the sample or repair the data");
  }

  struct Watched {
    Observer* observer;  // null: only NaN is looked for
    int channel_axis;
    const std::string* name;
  };
  std::vector<std::optional<Watched>> watched_;
};

}  // namespace

const Observer* CalibrationTable::find(const std::string& name) const {
  const auto it = tensors.find(name);
  return it == tensors.end() ? nullptr : &it->second;
}

Result<CalibrationTable> calibrate(std::shared_ptr<const exec::Model> model, SampleSource& samples,
                                   const CalibrateOptions& options) {
  CalibrationTable table;
  exec::SessionOptions session_options;
  session_options.threads = options.threads;
  session_options.plan_cache = 2;
  FOLD8_TRY(auto session, exec::Session::create(model, session_options));
  const graph::Graph& g = model->graph();
  Watcher watcher(g, options, table);
  std::size_t current = 0;
  session->set_tap(
      [&](graph::ValueId v, const TensorView& t) { return watcher.see(v, t, current); });
  for (current = 0; current < samples.count(); ++current) {
    FOLD8_TRY(const std::vector<Tensor> inputs, samples.sample(current));
    std::vector<TensorView> views;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      views.push_back(inputs[i].view());
      FOLD8_CHECK_OK(watcher.see(g.inputs[i], views.back(), current));
    }
    if (const Status s = session->run(views); !s.ok())
      return s.error().message.find("sample ") != std::string::npos
                 ? s.error()
                 : in_context("calibration sample " + std::to_string(current), s.error());
    ++table.samples;
    if (options.progress) options.progress(current + 1, samples.count());
  }
  return table;
}

}  // namespace fold8::quant
