#include "quant/calibrate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>

#include "quant/overflow.h"
#include "quant/run_samples.h"
#include "runtime/format/layout.h"

namespace fold8::quant {
namespace {

// Observes tensors of one sample after the other.
class Watcher {
 public:
  Watcher(const graph::Graph& g, const CalibrateOptions& options, CalibrationTable& table) : g_(g) {
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

  // `inputs` stay until the sample has run.
  void begin(std::uint64_t sample, const std::vector<TensorView>& inputs) {
    sample_ = sample;
    inputs_ = &inputs;
  }

  Status see(graph::ValueId v, const TensorView& t) {
    const auto& w = watched_[static_cast<std::size_t>(v)];
    if (!w || t.dtype != DType::f32) return ok_status();
    const auto values = t.as<const float>();
    const Extent extent = extent_of(values);
    if (w->observer == nullptr)
      return extent.finite ? ok_status() : only_infinite(*w->name, values);
    if (!extent.finite) return bad_value(*w->name, values, first_not_finite(values));
    w->observer->add(values, extent, sample_);
    const bool last = t.layout == Layout::channels_last && w->channel_axis == 1;
    if (w->channel_axis >= 0 && w->channel_axis < t.shape.rank() &&
        (last || t.layout == Layout::plain))
      w->observer->add_channels(
          values, static_cast<std::size_t>(t.shape.extent(w->channel_axis)),
          last ? 1 : static_cast<std::size_t>(t.shape.count(w->channel_axis + 1, t.shape.rank())));
    return ok_status();
  }

 private:
  Error bad_value(const std::string& name, std::span<const float> values, std::size_t i) const {
    return invalid_model("tensor '" + name + "' holds " +
                         (std::isnan(values[i]) ? "NaN" : "an infinity") + " (element " +
                         std::to_string(i) + "); " + what_to_repair(g_, *inputs_));
  }

  Status only_infinite(const std::string& name, std::span<const float> values) const {
    for (std::size_t i = 0; i < values.size(); ++i)
      if (std::isnan(values[i])) return bad_value(name, values, i);
    return ok_status();
  }

  struct Watched {
    Observer* observer;  // null: only NaN is looked for
    int channel_axis;
    const std::string* name;
  };
  std::vector<std::optional<Watched>> watched_;
  const graph::Graph& g_;
  std::uint64_t sample_ = 0;
  const std::vector<TensorView>* inputs_ = nullptr;
};

// Every element has the bytes of the first.
bool is_uniform(const TensorView& t) {
  const std::size_t bytes = t.bytes(), size = size_of(t.dtype);
  return bytes <= size ||
         std::memcmp(t.data, static_cast<const char*>(t.data) + size, bytes - size) == 0;
}

bool is_blank(const std::vector<TensorView>& inputs) {
  bool tells = false;  // one number is no picture
  for (const TensorView& t : inputs) {
    if (!is_uniform(t)) return false;
    tells = tells || t.bytes() > size_of(t.dtype);
  }
  return tells;
}

std::vector<Shape> shapes_of(const std::vector<TensorView>& inputs) {
  std::vector<Shape> shapes;
  for (const TensorView& t : inputs) shapes.push_back(t.shape);
  return shapes;
}

// Total elements first, then extents in order: any two samples compare the same way everywhere.
std::vector<std::int64_t> size_key(const std::vector<Shape>& shapes) {
  std::vector<std::int64_t> key{0};
  for (const Shape& s : shapes) {
    key[0] += s.count();
    for (int i = 0; i < s.rank(); ++i) key.push_back(s.extent(i));
  }
  return key;
}

bool is_larger(const std::vector<Shape>& shapes, const std::vector<Shape>& largest) {
  return largest.empty() || size_key(largest) < size_key(shapes);
}

void remember_sample(const std::vector<TensorView>& inputs, std::size_t sample, std::uint64_t hash,
                     CalibrationTable& table) {
  ++table.samples;
  const bool batch = !inputs.empty() && inputs[0].shape.rank() > 1;
  table.rows += batch ? static_cast<std::uint64_t>(inputs[0].shape.extent(0)) : 1;
  table.blank += is_blank(inputs);
  table.seen.add(hash);
  const std::vector<Shape> shapes = shapes_of(inputs);
  if (!is_larger(shapes, table.largest)) return;
  table.largest = shapes;
  table.largest_sample = sample;
}

}  // namespace

void SampleSet::add(std::uint64_t hash, std::uint64_t times) {
  times_[hash] += times;
  if (times_.size() > kMost) times_.erase(std::prev(times_.end()));
}

void SampleSet::merge(const SampleSet& other) {
  for (const auto& [hash, times] : other.times_) add(hash, times);
}

std::uint64_t SampleSet::repeats() const {
  std::uint64_t sum = 0;
  for (const auto& [hash, times] : times_) sum += times - 1;
  return sum;
}

std::uint64_t hash_of(const std::vector<TensorView>& inputs) {
  std::vector<std::uint64_t> parts;
  for (const TensorView& t : inputs) {
    parts.push_back(static_cast<std::uint64_t>(t.dtype));
    for (int i = 0; i < t.shape.rank(); ++i)
      parts.push_back(static_cast<std::uint64_t>(t.shape.extent(i)));
    parts.push_back(format::checksum(t.data, t.bytes()));
  }
  return format::checksum(parts.data(), parts.size() * sizeof(std::uint64_t));
}

const Observer* CalibrationTable::find(const std::string& name) const {
  const auto it = tensors.find(name);
  return it == tensors.end() ? nullptr : &it->second;
}

Status CalibrationTable::merge(const CalibrationTable& other) {
  const auto same_name = [](const auto& a, const auto& b) { return a.first == b.first; };
  if (!std::equal(tensors.begin(), tensors.end(), other.tensors.begin(), other.tensors.end(),
                  same_name))
    return invalid_argument(
        "the statistics are of other tensors: not of the same model, or not "
        "gathered with the same options");
  for (auto& [name, observer] : tensors) observer.merge(other.tensors.at(name));
  samples += other.samples;
  rows += other.rows;
  blank += other.blank;
  seen.merge(other.seen);
  if (!other.largest.empty() && is_larger(other.largest, largest)) largest = other.largest;
  return ok_status();
}

Result<CalibrationTable> calibrate(std::shared_ptr<const exec::Model> model, SampleSource& samples,
                                   const CalibrateOptions& options) {
  CalibrationTable table;
  Watcher watcher(model->graph(), options, table);
  RunOptions run;
  run.threads = options.threads;
  run.progress = options.progress;
  std::size_t current = 0;
  RunCallbacks callbacks;
  callbacks.begin = [&](std::size_t i, const std::vector<TensorView>& inputs) {
    const std::uint64_t hash = hash_of(inputs);
    remember_sample(inputs, i, hash, table);
    watcher.begin(hash, inputs);
    current = i;
    return ok_status();
  };
  callbacks.see = [&](graph::ValueId v, const TensorView& t) {
    if (options.also) options.also(current, v, t);
    return watcher.see(v, t);
  };
  if (options.outputs)
    callbacks.end = [&](std::size_t i, const std::vector<TensorView>& outputs) {
      options.outputs(i, outputs);
      return ok_status();
    };
  FOLD8_CHECK_OK(run_samples(std::move(model), samples, run, callbacks));
  return table;
}

}  // namespace fold8::quant
