#include "quant/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <unordered_map>

#include "quant/layers.h"
#include "quant/numbers.h"
#include "quant/observer.h"
#include "quant/overflow.h"
#include "quant/plain_f32.h"
#include "quant/single_layer.h"
#include "runtime/exec/session.h"

namespace fold8::quant {
namespace {

using graph::Graph;
using graph::kNoValue;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

// Tensors that a run of the reference computes or is given and that stand for real numbers: floats,
// and codes whose scales are known beforehand (an INT8 model can be the reference, too).
std::set<std::string> real_tensors(const Graph& g) {
  std::set<std::string> names = float_tensors(g);
  for (ValueId v = 0; v < g.value_count(); ++v) {
    const TensorType& t = g.type(v);
    if (!g.is_constant(v) && is_quantizable(t.dtype) && t.quant &&
        t.quant->granularity() != Granularity::per_token)
      names.insert(g.value(v).name);
  }
  return names;
}

// The reference's float tensors of one sample, by name. Kept for the tensors somebody asks for
// only.
using Tensors = std::unordered_map<std::string, std::pair<Shape, std::vector<float>>>;

struct Layer {
  LayerError error;
  ValueId value;
  ErrorMeter own, accumulated;
  std::optional<SingleLayer> alone;
  std::uint64_t seen = 0, clipped = 0;
  std::vector<std::uint64_t> codes;  // 256, or none
  std::optional<LayerPlotter> plotter;
  // A per-token tensor waits here for its scales, which are another result of the same operator.
  std::optional<Tensor> waiting;
};

class Comparer {
 public:
  Comparer(std::shared_ptr<const exec::Model> reference, std::shared_ptr<const exec::Model> other,
           const CompareOptions& options)
      : reference_(std::move(reference)), other_(std::move(other)), options_(options) {}

  Result<Comparison> run(SampleSource& samples) {
    FOLD8_TRY(pairs_, matching_outputs(reference_->graph(), other_->graph()));
    meters_.resize(pairs_.size());
    classes_.resize(pairs_.size());
    if (options_.layers) FOLD8_CHECK_OK(find_layers(samples.count()));
    exec::SessionOptions session_options;
    session_options.threads = options_.threads;
    FOLD8_TRY(a_, exec::Session::create(reference_, session_options));
    FOLD8_TRY(b_, exec::Session::create(other_, session_options));
    if (options_.layers) watch();
    for (sample_ = 0; sample_ < samples.count(); ++sample_) {
      FOLD8_TRY(const std::vector<Tensor> inputs, samples.sample(sample_));
      if (const Status s = one_sample(inputs); !s.ok())
        return with_cause(s.error(), samples, inputs);
      if (options_.progress) options_.progress(sample_ + 1, samples.count());
    }
    return summary(samples.count());
  }

 private:
  Error at_sample(const Error& e, const std::string& tensor) const {
    return in_context("tensor '" + tensor + "', sample " + std::to_string(sample_), e);
  }

  // A comparison that NaN in the data spoiled says which file brought it.
  Error with_cause(const Error& e, const SampleSource& samples,
                   const std::vector<Tensor>& inputs) const {
    const Graph& g = reference_->graph();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!is_floating(inputs[i].dtype())) continue;
      const Numbers numbers = numbers_of(inputs[i].view(), {});
      const auto nan = std::find_if(numbers.values.begin(), numbers.values.end(),
                                    [](double v) { return std::isnan(v); });
      if (nan == numbers.values.end()) continue;
      return in_context("sample " + sample_name(samples, sample_) + ": input '" +
                            g.value(g.inputs[i]).name + "' is NaN at element " +
                            std::to_string(nan - numbers.values.begin()) +
                            ": repair that sample or leave it out",
                        e);
    }
    return e;
  }

  // Numbers that are not finite in the reference itself are not what the other model did.
  template <class Range>
  Error told(Error e, const Range& reference) const {
    const auto finite = [](auto v) { return std::isfinite(v); };
    if (std::all_of(reference.begin(), reference.end(), finite)) return e;
    const std::string why = first_overflow(reference_, inputs_);
    if (!why.empty()) e.message += "; in the reference itself, " + why;
    return e;
  }

  Status find_layers(std::size_t samples) {
    const Graph& g = other_->graph();
    const std::vector<NodeId> producers = g.producers();
    reference_names_ = real_tensors(reference_->graph());
    const std::function<bool(const std::string&)> known = [this](const std::string& n) {
      return reference_names_.count(n) != 0;
    };
    for (NodeId n : layers_of(*other_, reference_names_)) {
      const Node& node = g.node(n);
      const ValueId out = node.outputs[0];
      Layer layer;
      layer.value = out;
      layer.error.name = layer_name(g, n);
      layer.error.node = node.name;
      layer.error.op = graph::display_name(node.op);
      layer.error.inside = node.inside;
      const auto* attention = std::get_if<graph::Attention>(&node.op);
      layer.error.int8 =
          is_quantizable(g.type(out).dtype) || (attention && attention->int8) ||
          (node.inputs[0] != kNoValue && is_quantizable(g.type(node.inputs[0]).dtype));
      auto alone = SingleLayer::cut(g, n, producers, known, {.threads = options_.threads});
      if (alone.ok()) {
        layer.alone.emplace(std::move(alone).value());
        wanted_.insert(layer.alone->reads().begin(), layer.alone->reads().end());
      } else {
        layer.error.own_missing = alone.error().message;
      }
      wanted_.insert(layer.error.name);
      if (g.type(out).dtype == DType::u8) layer.codes.resize(256);
      layer.error.range = range_of(g.value(out));
      if (options_.plots) {
        const int axis = plotted_axis(node.op, g.type(out).shape);
        layer.plotter.emplace(
            axis, axis < 0 ? 0 : static_cast<std::size_t>(g.type(out).shape.extent(axis)), samples);
      }
      by_value_[out] = layers_.size();
      if (g.type(out).quant && g.type(out).quant->granularity() == Granularity::per_token &&
          node.outputs.size() > 2 && node.outputs[2] != kNoValue)
        by_scale_[node.outputs[2]] = layers_.size();
      layers_.push_back(std::move(layer));
    }
    return ok_status();
  }

  // The smallest and largest real number that codes of one scale stand for.
  static std::optional<std::pair<double, double>> range_of(const graph::Value& v) {
    if (v.type.dtype != DType::u8 || !v.type.quant || !v.type.quant->is_per_tensor() ||
        !v.rescale.empty())
      return std::nullopt;
    const double scale = v.type.quant->scale(), zero = v.type.quant->zero_point();
    return std::pair{(0 - zero) * scale, (255 - zero) * scale};
  }

  void watch() {
    a_->set_tap([this](ValueId v, const TensorView& t) {
      keep(reference_->graph(), v, t);
      return ok_status();
    });
    b_->set_tap([this](ValueId v, const TensorView& t) { return accumulate(v, t); });
  }

  void keep(const Graph& g, ValueId v, const TensorView& t) {
    const std::string& name = g.value(v).name;
    if (wanted_.count(name) == 0) return;
    auto values = plain_f32(t, g.type(v));
    if (!values) return;
    undo_rescale(g.value(v), t.shape, *values);
    tensors_[name] = {t.shape, std::move(*values)};
  }

  Status accumulate(ValueId v, const TensorView& t) {
    const Graph& g = other_->graph();
    if (const auto scale = by_scale_.find(v); scale != by_scale_.end()) {
      Layer& layer = layers_[scale->second];
      if (!layer.waiting) return ok_status();
      const Tensor codes = std::move(*layer.waiting);
      layer.waiting.reset();
      return accumulate(layer, layer.value, codes.view(), t.as<const float>());
    }
    const auto it = by_value_.find(v);
    if (it == by_value_.end()) return ok_status();
    Layer& layer = layers_[it->second];
    if (g.type(v).quant && g.type(v).quant->granularity() == Granularity::per_token) {
      layer.waiting.emplace(t.dtype, t.shape);
      std::memcpy(layer.waiting->view().data, t.data, t.bytes());
      return ok_status();
    }
    return accumulate(layer, v, t, {});
  }

  Status accumulate(Layer& layer, ValueId v, const TensorView& t,
                    std::span<const float> row_scales) {
    const Graph& g = other_->graph();
    const auto ref = tensors_.find(layer.error.name);
    if (ref == tensors_.end()) return ok_status();
    const std::vector<float>& reference = ref->second.second;
    auto got = plain_f32(t, g.type(v), row_scales);
    if (!got || got->size() != reference.size()) return ok_status();
    undo_rescale(g.value(v), t.shape, *got);
    if (const Status s = layer.accumulated.add(reference, *got); !s.ok())
      return at_sample(told(s.error(), reference), layer.error.name);
    if (layer.plotter) layer.plotter->add(sample_, t.shape, reference, *got);
    if (!layer.codes.empty()) count_codes(layer, g.value(v), t, reference);
    return ok_status();
  }

  static void count_codes(Layer& layer, const graph::Value& v, const TensorView& t,
                          std::vector<float> reference) {
    for (std::uint8_t code : t.as<const std::uint8_t>()) ++layer.codes[code];
    if (!v.type.quant->is_per_tensor()) return;
    const QuantParams& q = *v.type.quant;
    apply_rescale(v, t.shape, reference);
    const double lo = (-0.5 - q.zero_point()) * static_cast<double>(q.scale()),
                 hi = (255.5 - q.zero_point()) * static_cast<double>(q.scale());
    for (float r : reference) layer.clipped += r < lo || r > hi;
    layer.seen += reference.size();
  }

  Status one_sample(const std::vector<Tensor>& inputs) {
    tensors_.clear();
    const Graph &a = reference_->graph(), &b = other_->graph();
    inputs_.resize(inputs.size());
    std::vector<TensorView>& views = inputs_;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      views[i] = inputs[i].view();
      keep(a, a.inputs[i], views[i]);
    }
    FOLD8_TRY(const std::vector<TensorView> reordered, inputs_for(b, a, views));
    if (const Status s = a_->run(views); !s.ok()) return at_sample(s.error(), "first model");
    if (const Status s = b_->run(reordered); !s.ok()) return at_sample(s.error(), "second model");
    FOLD8_CHECK_OK(compare_outputs());
    for (Layer& layer : layers_)
      if (layer.alone) FOLD8_CHECK_OK(run_alone(layer));
    return ok_status();
  }

  Status compare_outputs() {
    const Graph& a = reference_->graph();
    const Graph& b = other_->graph();
    for (std::size_t p = 0; p < pairs_.size(); ++p) {
      const TensorView &x = a_->outputs()[pairs_[p].first], &y = b_->outputs()[pairs_[p].second];
      const std::string& name = a.value(a.outputs[pairs_[p].first]).name;
      const Numbers u = numbers_of(x, a.type(a.outputs[pairs_[p].first])),
                    v = numbers_of(y, b.type(b.outputs[pairs_[p].second]));
      if (!(x.shape == y.shape))
        return at_sample(
            invalid_model("shapes differ: " + to_string(x.shape) + " and " + to_string(y.shape)),
            name);
      if (const Status s = meters_[p].add(u, v); !s.ok())
        return at_sample(told(s.error(), u.values), name);
      if (options_.on_output)
        if (const Status s = options_.on_output({name, x.dtype, x.shape, u.values, v.values});
            !s.ok())
          return at_sample(s.error(), name);
      if (is_floating(x.dtype) && x.shape.rank() == 2)
        classes_[p].add(u.values, v.values, static_cast<std::size_t>(x.shape.extent(1)));
    }
    return ok_status();
  }

  Status run_alone(Layer& layer) {
    std::vector<TensorView> inputs;
    for (const std::string& name : layer.alone->reads()) {
      const auto it = tensors_.find(name);
      if (it == tensors_.end()) return ok_status();
      inputs.push_back({DType::f32, it->second.first, it->second.second.data(), Layout::plain});
    }
    const auto ref = tensors_.find(layer.error.name);
    if (ref == tensors_.end()) return ok_status();
    auto got = layer.alone->run(inputs);
    if (!got.ok()) return at_sample(got.error(), layer.error.name);
    if (got->size() != ref->second.second.size()) return ok_status();
    undo_rescale(other_->graph().value(layer.value), ref->second.first, *got);
    if (const Status s = layer.own.add(ref->second.second, *got); !s.ok())
      return at_sample(told(s.error(), ref->second.second), layer.error.name);
    return ok_status();
  }

  Comparison summary(std::size_t samples) {
    Comparison c;
    c.samples = samples;
    const Graph& a = reference_->graph();
    for (std::size_t p = 0; p < pairs_.size(); ++p)
      c.outputs.push_back({a.value(a.outputs[pairs_[p].first]).name, meters_[p].summary(),
                           classes_[p].top1(), classes_[p].top5(), classes_[p].kl()});
    for (Layer& layer : layers_) {
      layer.error.accumulated = layer.accumulated.summary();
      if (layer.alone) layer.error.own = layer.own.summary();
      if (layer.seen > 0)
        layer.error.clipped = static_cast<double>(layer.clipped) / static_cast<double>(layer.seen);
      const auto used = std::count_if(layer.codes.begin(), layer.codes.end(),
                                      [](std::uint64_t n) { return n > 0; });
      if (used > 0) {
        layer.error.codes_used = static_cast<int>(used);
        layer.error.code_counts = std::move(layer.codes);
      }
      if (layer.plotter) layer.error.plots = layer.plotter->take();
      c.layers.push_back(std::move(layer.error));
    }
    return c;
  }

  std::shared_ptr<const exec::Model> reference_, other_;
  const CompareOptions& options_;
  std::unique_ptr<exec::Session> a_, b_;
  std::vector<std::pair<std::size_t, std::size_t>> pairs_;
  std::vector<ErrorMeter> meters_;
  std::vector<ClassMeter> classes_;
  std::vector<Layer> layers_;
  std::unordered_map<ValueId, std::size_t> by_value_, by_scale_;
  std::set<std::string> reference_names_, wanted_;
  Tensors tensors_;
  std::size_t sample_ = 0;
  std::vector<TensorView> inputs_;  // of the sample, as the reference takes them
};

}  // namespace

Result<Comparison> compare(std::shared_ptr<const exec::Model> reference,
                           std::shared_ptr<const exec::Model> other, SampleSource& samples,
                           const CompareOptions& options) {
  return Comparer(std::move(reference), std::move(other), options).run(samples);
}

}  // namespace fold8::quant
