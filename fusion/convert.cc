#include "fusion/convert.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "fusion/batch_norms.h"
#include "fusion/model_facts.h"
#include "fusion/pipeline.h"
#include "fusion/score.h"
#include "quant/calibrate.h"
#include "runtime/exec/model.h"

namespace fold8::fusion {
namespace {

using graph::Graph;

class Converter {
 public:
  Converter(quant::SampleSource* samples, const ConvertOptions& options)
      : samples_(samples), options_(options) {
    if (options.quantize.streams == Streams::f32) streams_ = Streams::f32;
  }

  Result<Converted> run(Graph g) {
    FOLD8_CHECK_OK(check_weights(g));
    FOLD8_CHECK_OK(run_stage("canonicalize", fusion::stage("canonicalize"), g));
    FOLD8_CHECK_OK(run_stage("fold", fusion::stage("fold"), g));
    summary_.batch_norms_left = batch_norms_left(g);
    FOLD8_CHECK_OK(run_stage("fuse", fusion::stage("fuse"), g));
    if (options_.float_only) {
      Graph float_graph = std::move(g);
      FOLD8_CHECK_OK(run_stage("emit float", fusion::stage("emit"), float_graph));
      for (graph::NodeId n = 0; n < float_graph.node_count(); ++n)
        if (is_linear_layer(float_graph, float_graph.node(n)))
          summary_.float_layers.push_back({float_graph.node(n).name,
                                           graph::display_name(float_graph.node(n).op),
                                           "compiled without quantizing"});
      return finish(std::move(float_graph));
    }
    FOLD8_TRY(Base base, prepare(std::move(g)));
    FOLD8_TRY(Attempt best, attempt(base, options_.quantize, ""));
    if (options_.quantize.streams == Streams::automatic) FOLD8_CHECK_OK(weigh_streams(base, best));
    if (options_.equalize && options_.search) FOLD8_CHECK_OK(try_equalized(base, best));
    if (options_.search && is_poor(best)) FOLD8_CHECK_OK(try_remedies(base, best));
    take(best);
    summary_.batch_norms_left =
        best.batch_norms_left;  // those on an input have become its quantizer
    return finish(std::move(best.graph));
  }

 private:
  // What attempts start from.
  struct Base {
    Graph unlowered;  // fused
    Graph graph;      // and imported INT8 layers lowered
    std::shared_ptr<const exec::Model> float_model;
    std::optional<quant::CalibrationTable> table;
  };
  struct Attempt {
    Graph graph;  // emitted
    QuantizeOutcome outcome;
    std::vector<Declined> declined;
    Score score;
    std::string remedy;
    int batch_norms_left = 0;
  };

  Status run_stage(const std::string& name, const Stage& passes, Graph& g) {
    const Clock clock(*this, name);
    Context context;
    context.keep_input_affine = !options_.float_only;  // it becomes part of the input quantizer
    FOLD8_TRY(Tally tally, fusion::run(passes, g, context));
    remember(tally.declined, summary_.declined);
    return ok_status();
  }

  // A weight that is not finite poisons every output: said here by name, before folding renames it.
  static Status check_weights(const Graph& g) {
    for (graph::NodeId n = 0; n < g.node_count(); ++n) {
      const graph::Node& node = g.node(n);
      const bool multiplies = std::holds_alternative<graph::Linear>(node.op) ||
                              std::holds_alternative<graph::Conv>(node.op) ||
                              std::holds_alternative<graph::MatMul>(node.op);
      if (node.dead || !multiplies || node.inputs.size() < 2 || !g.is_constant(node.inputs[1]) ||
          g.type(node.inputs[1]).dtype != DType::f32)
        continue;
      const auto values = g.constant<float>(node.inputs[1]);
      if (const std::size_t bad = quant::first_not_finite(values); bad < values.size())
        return invalid_model("node '" + node.name + "': weight '" + g.value(node.inputs[1]).name +
                             "' is not finite (element " + std::to_string(bad) + " is " +
                             (values[bad] != values[bad] ? "NaN" : "infinite") +
                             "); no scale exists for it: repair the model");
    }
    return ok_status();
  }

  bool needs_ranges(const Graph& g) const {
    if (options_.quantize.activations == Activations::dynamic ||
        options_.quantize.activations == Activations::float_)
      return false;
    for (graph::NodeId n = 0; n < g.node_count(); ++n)
      if (!g.node(n).dead && is_quantizable_layer(g, g.node(n))) return true;
    return false;
  }

  static void remember(const std::vector<Declined>& from, std::vector<Declined>& to) {
    for (const Declined& d : from)
      if (std::find(to.begin(), to.end(), d) == to.end()) to.push_back(d);
  }

  Result<Base> prepare(Graph g) {
    Graph float_graph = g, unlowered = g;
    FOLD8_CHECK_OK(run_stage("emit float", fusion::stage("emit"), float_graph));
    FOLD8_TRY(auto float_model, exec::Model::from_graph(std::move(float_graph)));
    // Layers the file itself brings as INT8 (Q/DQ, integer operators) come first: what is left is
    // ours to quantize.
    FOLD8_CHECK_OK(run_stage("lower", fusion::stage("lower"), g));
    if (samples_ == nullptr && needs_ranges(g))
      return invalid_argument(
          "INT8 needs calibration data (--calib DATA); without data only --float, --activations "
          "dynamic and --activations float work");
    Base base{std::move(unlowered), std::move(g), std::move(float_model), {}};
    FOLD8_CHECK_OK(calibrate(base));
    return base;
  }

  Status calibrate(Base& base) {
    if (samples_ == nullptr) return ok_status();
    const Clock clock(*this, "calibrate");
    quant::CalibrateOptions options;
    options.observe = values_to_observe(base.graph);
    options.look_for_nan = values_at_the_edge(base.graph);
    options.threads = options_.threads;
    if (options_.progress)
      options.progress = [this](std::size_t done, std::size_t total) {
        options_.progress("calibrate", done, total);
      };
    FOLD8_TRY(base.table, quant::calibrate(base.float_model, *samples_, options));
    if (base.table->samples == 0)
      return invalid_model("the calibration data holds no samples; give at least one");
    summary_.samples = base.table->samples;
    return ok_status();
  }

  Result<Attempt> attempt(const Base& base, QuantizeOptions options, std::string remedy) {
    options.calibration = base.table ? &*base.table : nullptr;
    Attempt a{base.graph, {}, {}, {}, std::move(remedy), 0};
    {
      const Clock clock(*this, "quantize");
      FOLD8_TRY(a.outcome, quantize(a.graph, options));
      FOLD8_TRY(Tally fused, fusion::run(fusion::stage("lower"), a.graph));
      a.batch_norms_left = batch_norms_left(a.graph);
      FOLD8_TRY(Tally emitted, fusion::run(fusion::stage("emit"), a.graph));
      remember(fused.declined, a.declined);
      remember(emitted.declined, a.declined);
    }
    if (samples_ == nullptr) return a;
    const Clock clock(*this, "check against float");
    FOLD8_TRY(auto model, exec::Model::from_graph(a.graph));
    FOLD8_TRY(a.score,
              score(base.float_model, model, *samples_, options_.score_samples, options_.threads));
    return a;
  }

  bool is_poor(const Attempt& a) const {
    if (a.score.worst_sqnr_db && *a.score.worst_sqnr_db < options_.poor_sqnr_db) return true;
    return a.score.worst_top1 && *a.score.worst_top1 < kPoorTop1;
  }

  static bool better(const Attempt& a, const Attempt& b) {
    return a.score.worst_sqnr_db.value_or(1e9) > b.score.worst_sqnr_db.value_or(1e9);
  }

  // u8 between the layers is faster; f32 stays where the samples say that u8 costs too much.
  Status weigh_streams(const Base& base, Attempt& best) {
    if (best.outcome.u8_streams == 0 || !best.score.worst_sqnr_db ||
        *best.score.worst_sqnr_db > kGoodSqnrDb)
      return ok_status();
    QuantizeOptions o = options_.quantize;
    o.streams = Streams::f32;
    FOLD8_TRY(Attempt a, attempt(base, o, ""));
    const double gain = a.score.worst_sqnr_db.value_or(1e9) - *best.score.worst_sqnr_db;
    if (gain <= kStreamBudgetDb) return ok_status();
    summary_.warnings.push_back(
        "skip connections and gated feature maps stay float (--streams f32): as u8 they would "
        "cost " +
        decibels(gain) + " more");
    best = std::move(a);
    streams_ = Streams::f32;
    return ok_status();
  }

  // Factors moved between layers help where channels differ, and harm where a near-dead channel is
  // blown up: the samples say which.
  Status try_equalized(Base& base, Attempt& best) {
    if (!best.score.worst_sqnr_db || *best.score.worst_sqnr_db > kFairSqnrDb) return ok_status();
    Graph g = base.unlowered;
    FOLD8_TRY(const Tally tally, fusion::run(fusion::stage("equalize"), g));
    if (tally.applied == 0) return ok_status();
    FOLD8_TRY(Base equalized, prepare(std::move(g)));
    QuantizeOptions o = options_.quantize;
    o.streams = streams_;
    FOLD8_TRY(Attempt a, attempt(equalized, o, ""));
    const double gain = a.score.worst_sqnr_db.value_or(1e9) - *best.score.worst_sqnr_db;
    if (gain < kLeastGainDb) return ok_status();
    summary_.warnings.push_back("factors were moved between " + std::to_string(tally.applied) +
                                " pairs of layers (equalization), for " + decibels(gain) +
                                "; --no-equalize leaves them");
    best = std::move(a);
    base = std::move(equalized);
    return ok_status();
  }

  // Cheapest first. The best attempt is kept, and what was done is said.
  Status try_remedies(const Base& base, Attempt& best) {
    const double before = best.score.worst_sqnr_db.value_or(0);
    QuantizeOptions tried = options_.quantize;
    tried.streams = streams_;
    const auto consider = [&](const QuantizeOptions& o, const std::string& what) -> Status {
      FOLD8_TRY(Attempt a, attempt(base, o, what));
      if (better(a, best)) {
        best = std::move(a);
        tried = o;
      }
      return ok_status();
    };
    QuantizeOptions o = tried;
    if (o.method == quant::Method::automatic) {
      o.method = quant::Method::mse;
      FOLD8_CHECK_OK(consider(o, "ranges by least squared error (--method mse)"));
    }
    if (is_poor(best) && tried.activations == Activations::automatic) {
      o = tried;
      o.activations = Activations::dynamic;
      FOLD8_CHECK_OK(
          consider(o, "activations of matrix layers rounded per token (--activations dynamic)"));
    }
    if (!best.remedy.empty())
      summary_.warnings.push_back("INT8 was poor (" + decibels(before) +
                                  "); remedy taken: " + best.remedy + ", now " +
                                  decibels(best.score.worst_sqnr_db.value_or(0)));
    if (is_poor(best))
      summary_.warnings.push_back(
          "INT8 stays poor on the samples (worst output " +
          decibels(best.score.worst_sqnr_db.value_or(0)) +
          "): look at `fold8 report` and keep the worst layers float with --keep-float");
    return ok_status();
  }

  static std::string decibels(double db) {
    const long tenths = static_cast<long>(db * 10 + (db < 0 ? -0.5 : 0.5));
    return std::to_string(tenths / 10) + "." + std::to_string(std::abs(tenths % 10)) + " dB";
  }

  void take(Attempt& a) {
    summary_.quantized_layers = std::move(a.outcome.quantized);
    summary_.float_layers = std::move(a.outcome.kept_float);
    for (std::string& w : a.outcome.warnings) summary_.warnings.push_back(std::move(w));
    remember(a.declined, summary_.declined);
    summary_.outputs = std::move(a.score.outputs);
  }

  Result<Converted> finish(Graph g) {
    FOLD8_TRY(auto model, exec::Model::from_graph(g));
    FOLD8_TRY(const MacShares shares, mac_shares(model, samples_));
    summary_.int8_mac_share = shares.linear;
    summary_.int8_attention_share = shares.attention;
    store_facts(summary_, options_.float_only, g);
    return Converted{std::move(g), std::move(summary_)};
  }

  // Adds the time of a scope to the stage of that name, and tells the caller that it began.
  class Clock {
   public:
    Clock(Converter& c, std::string name)
        : c_(c), name_(std::move(name)), begin_(std::chrono::steady_clock::now()) {
      if (c_.options_.progress) c_.options_.progress(name_, 0, 0);
    }
    ~Clock() {
      const double s =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
      for (StageTime& t : c_.summary_.stages)
        if (t.name == name_) {
          t.seconds += s;
          return;
        }
      c_.summary_.stages.push_back({name_, s});
    }

   private:
    Converter& c_;
    std::string name_;
    std::chrono::steady_clock::time_point begin_;
  };

  static constexpr double kPoorTop1 =
      0.9;  // of the samples keep their class; below, something is broken
  static constexpr double kLeastGainDb = 0.5;  // of a change of the network
  static constexpr double kFairSqnrDb = 30;
  static constexpr double kGoodSqnrDb = 40;  // nothing to gain that anybody would see
  quant::SampleSource* samples_;
  const ConvertOptions& options_;
  Streams streams_ = Streams::u8;  // what weigh_streams decided
  ConvertSummary summary_;
};

}  // namespace

Result<Converted> convert(Graph imported, quant::SampleSource* samples,
                          const ConvertOptions& options) {
  return Converter(samples, options).run(std::move(imported));
}

Result<Folded> fold(Graph imported) {
  Folded f{std::move(imported), {}, 0};
  for (const Stage& stage : {fusion::stage("canonicalize"), fusion::stage("fold")}) {
    FOLD8_TRY(Tally tally, run(stage, f.graph));
    for (Declined& d : tally.declined) f.declined.push_back(std::move(d));
  }
  f.batch_norms_left = batch_norms_left(f.graph);
  return f;
}

}  // namespace fold8::fusion
