#include "quant/sensitivity.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <unordered_map>

#include "quant/error_metrics.h"
#include "quant/float_layer.h"
#include "quant/layers.h"
#include "quant/observer.h"
#include "quant/plain_f32.h"
#include "quant/single_layer.h"
#include "runtime/exec/session.h"

namespace fold8::quant {
namespace {

using graph::Graph;
using graph::kNoValue;
using graph::NodeId;
using graph::ValueId;

using Outputs = std::vector<std::optional<std::vector<float>>>;
using Meters = std::vector<ErrorMeter>;

// A model's session with what one sample gave: tensors that somebody asked for, and the outputs.
class Run {
 public:
  Status open(std::shared_ptr<const exec::Model> model, int threads) {
    exec::SessionOptions options;
    options.threads = threads;
    options.keep_all = true;
    options.plan_cache = 1;
    FOLD8_TRY(session_, exec::Session::create(std::move(model), options));
    return ok_status();
  }
  const Graph& graph() const { return session_->model().graph(); }
  void want(ValueId v) { wanted_.insert(v); }

  Status run(const std::vector<TensorView>& inputs) {
    tensors_.clear();
    FOLD8_CHECK_OK(session_->run(inputs));
    for (ValueId v : wanted_) {
      FOLD8_TRY(Tensor t, session_->value(v));
      tensors_.emplace(v, std::move(t));
    }
    return ok_status();
  }
  const Tensor& tensor(ValueId v) const { return tensors_.at(v); }
  Status rerun(const std::vector<exec::Replacement>& replaced) { return session_->rerun(replaced); }
  std::optional<std::vector<float>> output(std::size_t i) const {
    return output_as_f32(session_->outputs()[i], graph().type(graph().outputs[i]));
  }

 private:
  std::unique_ptr<exec::Session> session_;
  std::set<ValueId> wanted_;
  std::unordered_map<ValueId, Tensor> tensors_;
};

std::optional<double> worst(const Meters& meters) {
  std::optional<double> db;
  for (const ErrorMeter& m : meters)
    if (const auto s = m.summary().sqnr_db) db = std::min(db.value_or(*s), *s);
  return db;
}

struct Layer {
  NodeId node;
  ValueId value;
  LayerSensitivity result;
  std::optional<SingleLayer> int8;
  std::optional<FloatLayer> real;
  bool int8_rounds = false, real_rounds = false;  // the simpler piece was taken
  Meters alone, gain;
};

class Prober {
 public:
  explicit Prober(const SensitivityOptions& options) : options_(options) {}

  Result<std::vector<LayerSensitivity>> run(std::shared_ptr<const exec::Model> reference,
                                            std::shared_ptr<const exec::Model> other,
                                            SampleSource& samples) {
    FOLD8_TRY(pairs_, matching_outputs(reference->graph(), other->graph()));
    FOLD8_CHECK_OK(a_.open(reference, options_.threads));
    FOLD8_CHECK_OK(b_.open(other, options_.threads));
    known_ = float_tensors(a_.graph());
    producers_ = b_.graph().producers();
    for (ValueId v = 0; v < a_.graph().value_count(); ++v)
      if (known_.count(a_.graph().value(v).name) != 0) by_name_[a_.graph().value(v).name] = v;
    base_.resize(pairs_.size());
    for (NodeId n : layers_of(*other, known_))
      if (options_.only.empty() ||
          options_.only.count(b_.graph().value(b_.graph().node(n).outputs[0]).name) != 0)
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
  Error at_sample(const Error& e, const std::string& tensor) const {
    return in_context("tensor '" + tensor + "', sample " + std::to_string(sample_), e);
  }
  Error at_sample(const Error& e, const Layer& l) const { return at_sample(e, l.result.name); }

  void add_layer(NodeId n) {
    Layer layer;
    layer.node = n;
    layer.value = b_.graph().node(n).outputs[0];
    layer.result.name = b_.graph().value(layer.value).name;
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
    wanted_.clear();
    for (const auto& [i, j] : pairs_) wanted_.push_back(a_.output(i));
    model_.clear();
    for (const auto& [i, j] : pairs_) model_.push_back(b_.output(j));
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
    for (std::size_t p = 0; p < pairs_.size(); ++p) {
      const auto& wanted = wanted_[p];
      if (!wanted || !got[p]) continue;
      const std::string& name = a_.graph().value(a_.graph().outputs[pairs_[p].first]).name;
      if (wanted->size() != got[p]->size())
        return at_sample(invalid_model("the two models' shapes differ"), name);
      if (const Status s = meters[p].add(*wanted, *got[p]); !s.ok())
        return at_sample(s.error(), name);
    }
    return ok_status();
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
    Outputs outputs;
    for (const auto& [i, j] : pairs_) outputs.push_back(a_.output(i));
    return measure(outputs, layer.alone);
  }

  Status gain(Layer& layer) {
    auto got = run_real(layer);
    if (!got.ok()) return at_sample(got.error(), layer);
    std::vector<Stored> kept;
    std::vector<exec::Replacement> replaced;
    FOLD8_TRY(const bool differs, store(layer, *got, kept, replaced));
    if (!layer.real) return ok_status();
    if (!differs) return measure(model_, layer.gain);
    if (const Status s = b_.rerun(replaced); !s.ok()) return at_sample(s.error(), layer);
    Outputs outputs;
    for (const auto& [i, j] : pairs_) outputs.push_back(b_.output(j));
    return measure(outputs, layer.gain);
  }

  // What the layer wrote, as the model stores it; `kept` owns it. false: it is what it was. A type
  // that reals cannot be stored in ends the layer's gain.
  Result<bool> store(Layer& layer, std::vector<std::vector<float>>& values,
                     std::vector<Stored>& kept, std::vector<exec::Replacement>& replaced) {
    const Graph& g = b_.graph();
    const graph::Node& node = g.node(layer.node);
    bool differs = false;
    const auto add = [&](ValueId v, const Tensor& t) {
      const TensorView old = b_.tensor(v).view(), now = t.view();
      differs = differs || std::memcmp(old.data, now.data, now.bytes()) != 0;
      replaced.push_back({v, now});
    };
    kept.reserve(values.size());
    for (std::size_t w = 0; w < values.size(); ++w) {
      const ValueId v = layer.real->writes()[w];
      const Tensor& before = b_.tensor(v);
      if (values[w].size() != static_cast<std::size_t>(before.shape().count()))
        return at_sample(invalid_model("the two models' shapes differ"), layer);
      if (g.type(v).dtype != DType::f32 && first_not_finite(values[w]) < values[w].size())
        return at_sample(invalid_model("the float layer gives a number that is not finite"), layer);
      apply_rescale(g.value(v), before.shape(), values[w]);
      auto s = stored(values[w], before.shape(), g.type(v));
      if (!s) {
        layer.result.why_missing = "'" + g.value(v).name + "' cannot be stored from real numbers";
        layer.real.reset();
        return false;
      }
      kept.push_back(std::move(*s));
      add(v, kept.back().elements);
      if (kept.back().row_scales && node.outputs.size() > 2 && node.outputs[2] != kNoValue)
        add(node.outputs[2], *kept.back().row_scales);
    }
    return differs;
  }

  std::vector<LayerSensitivity> summary() {
    std::vector<LayerSensitivity> results;
    const std::optional<double> base = worst(base_);
    for (Layer& layer : layers_) {
      LayerSensitivity& r = layer.result;
      if (layer.int8) {
        r.alone_db = worst(layer.alone);
        r.alone_exact = std::all_of(layer.alone.begin(), layer.alone.end(), [](const auto& m) {
          return m.summary().exact || m.summary().elements == 0;
        });
        for (const ErrorMeter& m : layer.alone) r.alone_outputs_db.push_back(m.summary().sqnr_db);
      }
      if (layer.real) {
        const auto difference = [](std::optional<double> now, std::optional<double> before) {
          return now && before ? std::optional(*now - *before) : std::nullopt;
        };
        r.gain_db = difference(worst(layer.gain), base);
        for (std::size_t p = 0; p < pairs_.size(); ++p)
          r.gain_outputs_db.push_back(
              difference(layer.gain[p].summary().sqnr_db, base_[p].summary().sqnr_db));
      }
      results.push_back(std::move(r));
    }
    return results;
  }

  const SensitivityOptions& options_;
  Run a_, b_;  // the reference, the other
  std::set<std::string> known_;
  std::unordered_map<std::string, ValueId> by_name_;  // of the reference
  std::vector<NodeId> producers_;                     // of the other
  std::vector<std::pair<std::size_t, std::size_t>> pairs_;
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
