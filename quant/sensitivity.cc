#include "quant/sensitivity.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "quant/float_layer.h"
#include "quant/kept_run.h"
#include "quant/layers.h"
#include "quant/single_layer.h"

namespace fold8::quant {
namespace {

using graph::Graph;
using graph::kNoValue;
using graph::NodeId;
using graph::ValueId;

struct Layer {
  NodeId node;
  ValueId value;
  LayerSensitivity result;
  std::optional<SingleLayer> int8;
  std::optional<FloatLayer> real;
  bool int8_rounds = false, real_rounds = false;  // the simpler piece was taken
  Meters alone, gain;
};

// Whether any layer reads or writes codes.
bool multiplies_codes(const exec::Model& model) {
  const Graph& g = model.graph();
  const auto codes = [&](ValueId v) {
    return v != kNoValue && is_quantizable(g.type(v).dtype) && g.type(v).quant;
  };
  for (const NodeId n : model.order()) {
    const graph::Node& node = g.node(n);
    if (!is_layer(node.op) || node.inputs.empty() || node.outputs.empty()) continue;
    if (codes(node.inputs[0]) || codes(node.outputs[0])) return true;
  }
  return false;
}

class Prober {
 public:
  explicit Prober(const SensitivityOptions& options) : options_(options) {}

  Result<std::vector<LayerSensitivity>> run(std::shared_ptr<const exec::Model> reference,
                                            std::shared_ptr<const exec::Model> other,
                                            SampleSource& samples) {
    FOLD8_TRY(pairs_, matching_outputs(reference->graph(), other->graph()));
    FOLD8_CHECK_OK(check_order(*reference, *other));
    FOLD8_CHECK_OK(a_.open(reference, options_.threads));
    FOLD8_CHECK_OK(b_.open(other, options_.threads));
    known_ = float_tensors(a_.graph());
    producers_ = b_.graph().producers();
    for (ValueId v = 0; v < a_.graph().value_count(); ++v)
      if (known_.count(a_.graph().value(v).name) != 0) by_name_[a_.graph().value(v).name] = v;
    base_.resize(pairs_.size());
    for (NodeId n : layers_of(*other, known_))
      if (options_.only.empty() || options_.only.count(layer_name(b_.graph(), n)) != 0)
        add_layer(n);
    const std::size_t count = options_.most_samples == 0
                                  ? samples.count()
                                  : std::min(options_.most_samples, samples.count());
    for (sample_ = 0; sample_ < count; ++sample_) {
      FOLD8_TRY(const std::vector<Tensor> inputs, samples.sample(sample_));
      FOLD8_CHECK_OK(one_sample(inputs, count));
    }
    return summary();
  }

 private:
  static Status check_order(const exec::Model& reference, const exec::Model& other) {
    if (multiplies_codes(reference) && !multiplies_codes(other))
      return invalid_argument(
          "the first model is INT8 and the second is float: what a layer costs in INT8 is measured "
          "against the float model; give the float model first");
    return ok_status();
  }

  Error at_sample(const Error& e, const std::string& tensor) const {
    return in_context("tensor '" + tensor + "', sample " + std::to_string(sample_), e);
  }
  Error at_sample(const Error& e, const Layer& l) const { return at_sample(e, l.result.name); }

  void add_layer(NodeId n) {
    Layer layer;
    layer.node = n;
    layer.value = b_.graph().node(n).outputs[0];
    layer.result.name = layer_name(b_.graph(), n);
    layer.alone.resize(pairs_.size());
    layer.gain.resize(pairs_.size());
    if (options_.alone) cut_int8(layer, true);
    if (options_.gain) cut_real(layer, true);
    layers_.push_back(std::move(layer));
  }

  void cut_int8(Layer& layer, bool unrounded) {
    const std::function<bool(const std::string&)> known = [this](const std::string& n) {
      return known_.count(n) != 0;
    };
    layer.int8.reset();
    layer.int8_rounds = !unrounded;
    auto piece = SingleLayer::cut(b_.graph(), layer.node, producers_, known,
                                  {.threads = options_.threads, .unrounded = unrounded});
    if (!piece.ok()) {
      if (unrounded) return cut_int8(layer, false);
      layer.result.why_missing = piece.error().message;
      return;
    }
    layer.int8.emplace(std::move(piece).value());
    for (const std::string& name : layer.int8->reads()) a_.want(by_name_.at(name));
    for (ValueId v : layer.int8->writes()) a_.want(original(v));
  }

  void cut_real(Layer& layer, bool unrounded) {
    layer.real.reset();
    layer.real_rounds = !unrounded;
    auto piece = FloatLayer::cut(a_.graph(), b_.graph(), layer.node,
                                 {.threads = options_.threads, .unrounded = unrounded});
    if (!piece.ok()) {
      if (unrounded) return cut_real(layer, false);
      if (layer.result.why_missing.empty()) layer.result.why_missing = piece.error().message;
      return;
    }
    layer.real.emplace(std::move(piece).value());
    for (ValueId v : layer.real->reads()) b_.want(v);
    for (ValueId v : b_.graph().node(layer.node).outputs)
      if (v != kNoValue) b_.want(v);
  }

  ValueId original(ValueId v) const { return by_name_.at(b_.graph().value(v).name); }

  Status one_sample(const std::vector<Tensor>& inputs, std::size_t count) {
    std::vector<TensorView> views;
    for (const Tensor& t : inputs) views.push_back(t.view());
    FOLD8_TRY(const std::vector<TensorView> reordered, inputs_for(b_.graph(), a_.graph(), views));
    FOLD8_CHECK_OK(run_models(views, reordered));
    if (sample_ == 0 && settle()) FOLD8_CHECK_OK(run_models(views, reordered));
    wanted_ = outputs_of(a_, pairs_, false);
    model_ = outputs_of(b_, pairs_, true);
    FOLD8_CHECK_OK(measure(model_, base_));
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      if (layers_[l].int8) FOLD8_CHECK_OK(alone(layers_[l]));
      if (layers_[l].real) FOLD8_CHECK_OK(gain(layers_[l]));
      if (options_.progress)
        options_.progress(sample_ * layers_.size() + l + 1, count * layers_.size());
    }
    return ok_status();
  }

  Status run_models(const std::vector<TensorView>& a, const std::vector<TensorView>& b) {
    if (const Status s = a_.run(a); !s.ok()) return at_sample(s.error(), "first model");
    if (const Status s = b_.run(b); !s.ok()) return at_sample(s.error(), "second model");
    return ok_status();
  }

  // Not every kernel gives or takes what its rounded form does as f32: where one refuses, the
  // layer's simpler piece is cut. True if one was: it reads other tensors.
  bool settle() {
    bool changed = false;
    for (Layer& layer : layers_) {
      if (layer.int8 && !layer.int8_rounds && !run_int8(layer).ok()) {
        cut_int8(layer, false);
        changed = true;
      }
      if (layer.real && !layer.real_rounds && !run_real(layer).ok()) {
        cut_real(layer, false);
        changed = true;
      }
    }
    return changed;
  }

  Result<std::vector<std::vector<float>>> run_int8(Layer& layer) {
    std::vector<TensorView> inputs;
    for (const std::string& name : layer.int8->reads())
      inputs.push_back(a_.tensor(by_name_.at(name)).view());
    return layer.int8->run_all(inputs);
  }
  Result<std::vector<std::vector<float>>> run_real(Layer& layer) {
    std::vector<TensorView> inputs;
    for (ValueId v : layer.real->reads()) inputs.push_back(b_.tensor(v).view());
    return layer.real->run(inputs);
  }

  // Outputs against the reference's.
  Status measure(const Outputs& got, Meters& meters) {
    return quant::measure(wanted_, got, pairs_, a_.graph(), sample_, meters);
  }

  Status alone(Layer& layer) {
    auto got = run_int8(layer);
    if (!got.ok()) return at_sample(got.error(), layer);
    std::vector<exec::Replacement> replaced;
    bool same = true;
    for (std::size_t w = 0; w < got->size(); ++w) {
      const ValueId v = layer.int8->writes()[w], ref = original(v);
      std::vector<float>& values = (*got)[w];
      const Tensor& reference = a_.tensor(ref);
      if (values.size() != reference.as<const float>().size()) return ok_status();
      undo_rescale(b_.graph().value(v), reference.shape(), values);
      same = same && std::equal(values.begin(), values.end(), reference.as<const float>().begin());
      replaced.push_back({ref, {DType::f32, reference.shape(), values.data(), Layout::plain}});
    }
    if (same) return measure(wanted_, layer.alone);
    if (const Status s = a_.rerun(replaced); !s.ok()) return at_sample(s.error(), layer);
    return measure(outputs_of(a_, pairs_, false), layer.alone);
  }

  Status gain(Layer& layer) {
    auto got = run_real(layer);
    if (!got.ok()) return at_sample(got.error(), layer);
    FOLD8_TRY(const Substitute s,
              at_layer(layer, substitute(b_, layer.node, layer.real->writes(), *std::move(got))));
    if (!s.cannot.empty()) {
      layer.result.why_missing = s.cannot;
      layer.real.reset();
      return ok_status();
    }
    if (!s.differs) return measure(model_, layer.gain);
    if (const Status ran = b_.rerun(s.replaced); !ran.ok()) return at_sample(ran.error(), layer);
    return measure(outputs_of(b_, pairs_, true), layer.gain);
  }

  Result<Substitute> at_layer(const Layer& layer, Result<Substitute> s) const {
    if (!s.ok()) return at_sample(s.error(), layer);
    return s;
  }

  // Of outputs that nobody measured nothing is known.
  static bool exact(const Meters& meters) {
    bool measured = false;
    for (const ErrorMeter& m : meters) {
      const ErrorSummary s = m.summary();
      if (s.elements > 0 && !s.exact) return false;
      measured = measured || s.elements > 0;
    }
    return measured;
  }

  std::vector<LayerSensitivity> summary() {
    std::vector<LayerSensitivity> results;
    const std::optional<double> base = worst_sqnr_db(base_);
    for (Layer& layer : layers_) {
      LayerSensitivity& r = layer.result;
      if (layer.int8) {
        r.alone_db = worst_sqnr_db(layer.alone);
        r.alone_exact = exact(layer.alone);
        for (const ErrorMeter& m : layer.alone) r.alone_outputs_db.push_back(m.summary().sqnr_db);
      }
      if (layer.real) {
        const auto difference = [](std::optional<double> now, std::optional<double> before) {
          return now && before ? std::optional(*now - *before) : std::nullopt;
        };
        r.gain_db = difference(worst_sqnr_db(layer.gain), base);
        for (std::size_t p = 0; p < pairs_.size(); ++p)
          r.gain_outputs_db.push_back(
              difference(layer.gain[p].summary().sqnr_db, base_[p].summary().sqnr_db));
      }
      results.push_back(std::move(r));
    }
    return results;
  }

  const SensitivityOptions& options_;
  KeptRun a_, b_;  // the reference, the other
  std::set<std::string> known_;
  std::unordered_map<std::string, ValueId> by_name_;  // of the reference
  std::vector<NodeId> producers_;                     // of the other
  OutputPairs pairs_;
  std::vector<Layer> layers_;
  Outputs wanted_, model_;  // of this sample: the reference's, the other's
  Meters base_;             // the whole of the other
  std::size_t sample_ = 0;
};

}  // namespace

Result<std::vector<LayerSensitivity>> sensitivity(std::shared_ptr<const exec::Model> reference,
                                                  std::shared_ptr<const exec::Model> other,
                                                  SampleSource& samples,
                                                  const SensitivityOptions& options) {
  return Prober(options).run(std::move(reference), std::move(other), samples);
}

}  // namespace fold8::quant
