#include "quant/layer_facts.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "quant/layers.h"
#include "quant/plain_f32.h"
#include "runtime/exec/session.h"

namespace fold8::quant {
namespace {

using graph::Graph;
using graph::kNoValue;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

constexpr double kInt8Mac = 0.25;  // of the time of a float one
constexpr double kDrowned = 4;     // a row's variance over that of its rounding errors: 6 dB

class Measurer {
 public:
  Measurer(std::shared_ptr<const exec::Model> reference, std::shared_ptr<const exec::Model> other,
           const FactsOptions& options)
      : reference_(std::move(reference)), other_(std::move(other)), options_(options) {}

  Result<ModelFacts> run(SampleSource& samples) {
    find_roundings_and_layers();
    exec::SessionOptions session_options;
    session_options.threads = options_.threads;
    FOLD8_TRY(auto session, exec::Session::create(reference_, session_options));
    const Graph& g = reference_->graph();
    session->set_tap([&](ValueId v, const TensorView& t) {
      see(g, v, t);
      return ok_status();
    });
    facts_.samples = std::min(samples.count(), options_.most_samples);
    for (sample_ = 0; sample_ < facts_.samples; ++sample_) {
      FOLD8_TRY(const std::vector<Tensor> inputs, samples.sample(sample_));
      std::vector<TensorView> views;
      for (const Tensor& t : inputs) views.push_back(t.view());
      for (std::size_t i = 0; i < views.size(); ++i) see(g, g.inputs[i], views[i]);
      if (const Status s = session->run(views); !s.ok())
        return in_context("sample " + std::to_string(sample_), s.error());
      if (sample_ == 0) FOLD8_CHECK_OK(count_multiply_adds(inputs));
      if (options_.progress) options_.progress(sample_ + 1, facts_.samples);
    }
    look_at_weights();
    return std::move(facts_);
  }

 private:
  void find_roundings_and_layers() {
    const std::set<std::string> names = float_tensors(reference_->graph());
    const std::function<bool(const std::string&)> known = [&](const std::string& n) {
      return names.count(n) != 0;
    };
    const Graph& g = other_->graph();
    for (Rounding& r : find_roundings(g, known)) {
      RoundingFacts f;
      f.where = std::move(r);
      for (const std::string& part : f.where.parts) f.parts.push_back({part, 0, {}});
      facts_.roundings.push_back(std::move(f));
    }
    for (const NodeId n : layers_of(*other_, names)) {
      by_node_[n] = facts_.layers.size();
      LayerFacts layer;
      layer.name = layer_name(g, n);
      layer.node = n;
      facts_.layers.push_back(std::move(layer));
    }
    for (std::size_t i = 0; i < facts_.roundings.size(); ++i) index(i);
  }

  void index(std::size_t i) {
    const Rounding& r = facts_.roundings[i].where;
    whole_[r.tensor].push_back(i);
    for (std::size_t p = 0; p < r.parts.size(); ++p) parts_[r.parts[p]].push_back({i, p});
    for (const RoundingReader& reader : r.readers)
      if (const auto it = by_node_.find(reader.node); it != by_node_.end() && reader.operand == 0)
        facts_.layers[it->second].input = i;
    if (r.by_layer)
      for (LayerFacts& l : facts_.layers)
        if (l.name == r.tensor) l.writes = i;
    if (!r.params.is_per_tensor()) return;
    for (const RoundingReader& reader : r.readers) {
      const auto* norm = std::get_if<graph::Norm>(&other_->graph().node(reader.node).op);
      const auto it = by_node_.find(reader.node);
      if (norm == nullptr || it == by_node_.end() || reader.operand != 0 ||
          (norm->kind != graph::NormKind::layer && norm->kind != graph::NormKind::rms))
        continue;
      NormFacts f;
      const double step = static_cast<double>(r.params.scale());
      f.noise = step * step / 12;
      facts_.layers[it->second].norm = std::move(f);
    }
  }

  void see(const Graph& g, ValueId v, const TensorView& t) {
    const std::string& name = g.value(v).name;
    const auto whole = whole_.find(name);
    const auto part = parts_.find(name);
    if (t.dtype != DType::f32 || (whole == whole_.end() && part == parts_.end())) return;
    const auto values = plain_f32(t, g.type(v));
    if (!values || first_not_finite(*values) < values->size()) return;
    if (whole != whole_.end())
      for (const std::size_t i : whole->second) {
        RoundingFacts& f = facts_.roundings[i];
        std::vector<float> stored = *values;
        to_stored(f.where, t.shape, stored);
        f.add(stored, t.shape, sample_);
        for (const RoundingReader& reader : f.where.readers) add_rows(reader, stored, t.shape);
      }
    if (part != parts_.end())
      for (const auto& [i, p] : part->second) facts_.roundings[i].add_part(p, *values);
  }

  void add_rows(const RoundingReader& reader, const std::vector<float>& values,
                const Shape& shape) {
    const auto it = by_node_.find(reader.node);
    if (it == by_node_.end() || reader.operand != 0 || !facts_.layers[it->second].norm) return;
    NormFacts& f = *facts_.layers[it->second].norm;
    const auto& op = std::get<graph::Norm>(other_->graph().node(reader.node).op);
    const int axis = op.axis < 0 ? shape.rank() - 1 : static_cast<int>(op.axis);
    if (axis < 0 || axis >= shape.rank()) return;
    const auto row = static_cast<std::size_t>(shape.count(axis, shape.rank()));
    if (row == 0) return;
    for (std::size_t at = 0; at + row <= values.size(); at += row) {
      double sum = 0, squares = 0;
      for (std::size_t i = at; i < at + row; ++i) sum += static_cast<double>(values[i]);
      const double mean = op.kind == graph::NormKind::layer ? sum / static_cast<double>(row) : 0.0;
      for (std::size_t i = at; i < at + row; ++i) {
        const double d = static_cast<double>(values[i]) - mean;
        squares += d * d;
      }
      const double variance = squares / static_cast<double>(row);
      f.variances.add(variance);
      f.drowned += variance < kDrowned * f.noise;
    }
  }

  Status count_multiply_adds(const std::vector<Tensor>& inputs) {
    FOLD8_TRY(auto session, exec::Session::create(other_));
    session->enable_profile(true);
    std::vector<TensorView> given;
    for (const Tensor& t : inputs) given.push_back(t.view());
    FOLD8_TRY(const auto views, inputs_for(other_->graph(), reference_->graph(), given));
    if (const Status s = session->run(views); !s.ok())
      return in_context("sample 0, second model", s.error());
    const Graph& g = other_->graph();
    double all = 0;
    for (const exec::StepProfile& p : session->profile()) {
      const double bytes = static_cast<double>(p.bytes);
      all += (p.integer ? kInt8Mac : 1) * p.macs + bytes;
      const Node& n = g.node(p.node);
      const bool weights = n.inputs.size() > 1 && g.is_constant(n.inputs[1]) &&
                           (std::holds_alternative<graph::Linear>(n.op) ||
                            std::holds_alternative<graph::Conv>(n.op));
      if (weights) facts_.macs += p.macs;
      const auto it = by_node_.find(p.node);
      if (it == by_node_.end()) continue;
      facts_.layers[it->second].macs = p.macs;
      if (p.integer) facts_.layers[it->second].float_cost = (1 - kInt8Mac) * p.macs + 3 * bytes;
    }
    for (LayerFacts& l : facts_.layers) l.float_cost = all > 0 ? l.float_cost / all : 0;
    return ok_status();
  }

  void look_at_weights() {
    const Graph &ref = reference_->graph(), &g = other_->graph();
    std::unordered_map<std::string, NodeId> makers;
    for (const NodeId n : reference_->order())
      if (!ref.node(n).outputs.empty() && ref.node(n).outputs[0] != kNoValue)
        makers[layer_name(ref, n)] = n;
    for (LayerFacts& layer : facts_.layers) {
      const auto maker = makers.find(layer.name);
      if (maker == makers.end()) continue;
      const RoundingFacts* input = layer.input ? &facts_.roundings[*layer.input] : nullptr;
      layer.weights = weight_facts(ref, ref.node(maker->second), g, g.node(layer.node),
                                   input == nullptr ? nullptr : &input->where);
      if (layer.weights && input != nullptr)
        layer.smoothed =
            smoothed_error(ref, ref.node(maker->second), *input, layer.weights->per_tensor);
    }
  }

  std::shared_ptr<const exec::Model> reference_, other_;
  const FactsOptions& options_;
  ModelFacts facts_;
  std::unordered_map<NodeId, std::size_t> by_node_;
  std::unordered_map<std::string, std::vector<std::size_t>> whole_;
  std::unordered_map<std::string, std::vector<std::pair<std::size_t, std::size_t>>> parts_;
  std::size_t sample_ = 0;
};

}  // namespace

const LayerFacts* ModelFacts::find(const std::string& layer) const {
  const auto it = std::find_if(layers.begin(), layers.end(),
                               [&](const LayerFacts& l) { return l.name == layer; });
  return it == layers.end() ? nullptr : &*it;
}

Result<ModelFacts> measure_facts(std::shared_ptr<const exec::Model> reference,
                                 std::shared_ptr<const exec::Model> other, SampleSource& samples,
                                 const FactsOptions& options) {
  return Measurer(std::move(reference), std::move(other), options).run(samples);
}

}  // namespace fold8::quant
