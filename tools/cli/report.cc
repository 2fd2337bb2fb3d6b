#include <fmt/format.h>

#include <iostream>
#include <limits>

#include "fusion/model_facts.h"
#include "quant/compare.h"
#include "quant/sensitivity.h"
#include "quant/weight_ranges.h"
#include "runtime/core/parallel.h"
#include "runtime/kernels/cpu.h"
#include "tools/cli/advise.h"
#include "tools/cli/common.h"
#include "tools/cli/facts_json.h"
#include "tools/cli/report_facts.h"
#include "tools/cli/version.h"
#include "tools/report/report.h"

namespace fold8::cli {
namespace {

using Texts = std::vector<std::string>;

struct Args {
  std::string reference, other, html, json, junit;
  DataArgs data;
  Texts labels, min_sqnr, min_cosine, min_top1, max_abs, min_accuracy, max_accuracy_drop;
  std::size_t worst = 20;
  int threads = 0;
  bool outputs_only = false, sensitivity = false, no_time = false;
};

Result<report::Thresholds> thresholds_of(const Args& args, const Texts& outputs) {
  constexpr double kAny = std::numeric_limits<double>::max();
  report::Thresholds t;
  const auto add = [](const char* flag, const Texts& texts, double low, double high,
                      report::Limits& limits) {
    for (const std::string& text : texts)
      if (Status s = limits.add(text, low, high); !s.ok())
        return Status(in_context(flag, s.error()));
    return ok_status();
  };
  FOLD8_CHECK_OK(add("--min-sqnr", args.min_sqnr, -kAny, kAny, t.min_sqnr_db));
  FOLD8_CHECK_OK(add("--min-cosine", args.min_cosine, -1, 1, t.min_cosine));
  FOLD8_CHECK_OK(add("--min-top1", args.min_top1, 0, 1, t.min_top1));
  FOLD8_CHECK_OK(add("--max-abs", args.max_abs, 0, kAny, t.max_abs));
  FOLD8_CHECK_OK(add("--min-accuracy", args.min_accuracy, 0, 1, t.min_accuracy));
  FOLD8_CHECK_OK(add("--max-accuracy-drop", args.max_accuracy_drop, 0, 1, t.max_accuracy_drop));
  const bool needs_labels = !t.min_accuracy.empty() || !t.max_accuracy_drop.empty();
  if (needs_labels && args.labels.empty())
    return invalid_argument("--min-accuracy and --max-accuracy-drop need --labels");
  FOLD8_CHECK_OK(report::check_names(t, outputs));
  return t;
}

// Outputs of the reference that the other model has, too.
Texts shared_outputs(const graph::Graph& a, const graph::Graph& b) {
  Texts names;
  for (graph::ValueId v : a.outputs)
    for (graph::ValueId w : b.outputs)
      if (a.value(v).name == b.value(w).name) names.push_back(a.value(v).name);
  return names;
}

Result<report::Environment> environment_of(const Args& args, const exec::Model& other,
                                           int threads) {
  report::Environment env;
  FOLD8_TRY(env.reference, file_facts(args.reference));
  FOLD8_TRY(env.other, file_facts(args.other));
  env.target = other.target().name;
  env.engine = "fold8";
  env.cpu = kernels::cpu_brand();
  env.version = kVersion;
  env.threads = threads;
  env.data = args.data.data;
  env.random_data = args.data.random();
  return env;
}

Result<std::vector<Labels>> read_labels(const Args& args, const Texts& outputs) {
  std::vector<Labels> all;
  for (const std::string& argument : args.labels) {
    FOLD8_TRY(Labels labels, Labels::read(argument, outputs));
    for (const Labels& other : all)
      if (other.output() == labels.output())
        return invalid_argument("--labels " + argument + ": output '" + labels.output() +
                                "' has labels already");
    all.push_back(std::move(labels));
  }
  return all;
}

Status write_report(const Args& args, const report::Report& r) {
  if (args.json != "-" && args.html != "-" && args.junit != "-")
    std::cout << report::terminal_text(r, args.worst);
  if (!args.html.empty()) FOLD8_CHECK_OK(write_text(report::html(r), args.html));
  if (!args.json.empty()) FOLD8_CHECK_OK(write_json(report::to_json(r), args.json));
  if (!args.junit.empty()) FOLD8_CHECK_OK(write_text(report::junit_xml(r), args.junit));
  return ok_status();
}

Result<int> report_models(const Args& args) {
  Texts inputs = with_data({args.reference, args.other}, args.data);
  for (const std::string& argument : args.labels)
    for (std::string& file : named_files(argument)) inputs.push_back(std::move(file));
  FOLD8_CHECK_OK(check_paths(inputs, {args.html, args.json, args.junit}));
  FOLD8_TRY(auto reference, load_model(args.reference));
  FOLD8_TRY(auto other, load_model(args.other));
  const Texts outputs = shared_outputs(reference->graph(), other->graph());
  FOLD8_TRY(const report::Thresholds thresholds, thresholds_of(args, outputs));
  FOLD8_TRY(std::vector<Labels> labels, read_labels(args, outputs));
  FOLD8_TRY(auto samples, open_data(args.data, reference->graph()));
  if (args.data.random())
    say_warning("comparing on random numbers: the result says nothing about accuracy on real data");
  HashedSamples hashed(*samples);
  Progress progress("fold8 report");
  quant::CompareOptions options;
  options.layers = !args.outputs_only;
  options.plots = !args.html.empty();
  options.threads = args.threads > 0 ? args.threads : usable_cpus();
  options.progress = [&](std::size_t done, std::size_t total) { progress("sample", done, total); };
  options.on_output = [&](const quant::OutputPair& pair) -> Status {
    for (Labels& l : labels) FOLD8_CHECK_OK(l.add(pair));
    return ok_status();
  };
  report::Report r;
  FOLD8_TRY(r.environment, environment_of(args, *other, options.threads));
  auto comparison = quant::compare(reference, other, hashed, options);
  if (!comparison.ok()) return bad_data(std::move(comparison).error());
  r.comparison = std::move(*comparison);
  r.environment.data_xxh3 = hashed.digest();
  for (const Labels& l : labels) {
    FOLD8_TRY(report::Accuracy accuracy, l.finish());
    r.accuracy.push_back(std::move(accuracy));
  }
  if (args.sensitivity) {
    quant::SensitivityOptions o;
    o.threads = options.threads;
    o.progress = [&](std::size_t done, std::size_t total) {
      progress("alone and gain", done, total);
    };
    auto sensitivity = quant::sensitivity(reference, other, *samples, o);
    if (!sensitivity.ok()) return bad_data(std::move(sensitivity).error());
    r.sensitivity = std::move(*sensitivity);
  }
  if (!args.outputs_only) {
    auto findings = advise(reference, other, *samples, r.comparison, r.sensitivity,
                           {args.reference, args.other, args.data, options.threads}, progress);
    if (!findings.ok()) return bad_data(std::move(findings).error());
    r.findings = std::move(*findings);
  }
  const auto shares = fusion::mac_shares(other, {samples.source.get()});
  if (!shares.ok()) return bad_data(shares.error());
  r.int8_mac_share = shares->linear;
  r.int8_attention_share = shares->attention;
  if (!args.html.empty()) {
    FOLD8_TRY(r.weights, quant::weight_ranges(*reference, *other));
    if (!args.no_time) {
      progress("time", 0, 0);
      FOLD8_TRY(r.times, measure_times(reference, other, *samples, options.threads));
    }
  }
  report::judge(thresholds, r);
  FOLD8_CHECK_OK(write_report(args, r));
  return r.passed() ? 0 : 1;
}

void add_gates(CLI::App& app, Args& args) {
  const auto add = [&](const char* flag, Texts& texts, const char* type, const char* help) {
    app.add_option(flag, texts, help)->type_name(type)->expected(1)->take_all();
  };
  add("--min-sqnr", args.min_sqnr, "[OUTPUT=]DB",
      "Exit 1 unless every output (this one) reaches this SQNR");
  add("--min-cosine", args.min_cosine, "[OUTPUT=]C",
      "Exit 1 unless every output (this one) reaches this cosine");
  add("--min-top1", args.min_top1, "[OUTPUT=]SHARE",
      "Exit 1 unless this share of samples keeps its class (0..1)");
  add("--max-abs", args.max_abs, "[OUTPUT=]E", "Exit 1 if an output (this one) differs by more");
  add("--labels", args.labels, "[OUTPUT=]FILE",
      "Right classes (.npy of integers) of the first output (this one): accuracy of both models");
  add("--min-accuracy", args.min_accuracy, "[OUTPUT=]SHARE",
      "Exit 1 unless the second model has this share of labels right (0..1)");
  add("--max-accuracy-drop", args.max_accuracy_drop, "[OUTPUT=]SHARE",
      "Exit 1 if the second model has fewer labels right by more than this share (0.01: one "
      "point)");
}

}  // namespace

Command add_report(CLI::App& app) {
  auto args = std::make_shared<Args>();
  app.add_option("reference", args->reference, "The float model: .f8 or .onnx")->required();
  app.add_option("other", args->other, "The model to judge: .f8 or .onnx")->required();
  add_data_options(
      app, args->data, "--data",
      "Samples: folder or list of .npz, .npy, test_data_set folders, images, or 'random'", true);
  add_gates(app, *args);
  app.add_option("--worst", args->worst, "Layers shown in the table")->capture_default_str();
  auto* outputs_only = app.add_flag("--outputs-only", args->outputs_only, "Skip the layers");
  app.add_flag(
         "--sensitivity", args->sensitivity,
         "Per layer, what it costs at the outputs: alone (only this layer INT8) and gain (SQNR "
         "won if only this layer were float)")
      ->excludes(outputs_only);
  add_threads_option(app, args->threads);
  app.add_option("--html", args->html, "Write the report as one self-contained page");
  app.add_flag("--no-time", args->no_time,
               "Do not time layers for the page: the same page whenever it is written");
  app.add_option("--json", args->json, "Write the report as JSON (- for standard output)");
  app.add_option("--junit", args->junit, "Write the thresholds as JUnit XML");
  return [args] { return report_models(*args); };
}

}  // namespace fold8::cli
