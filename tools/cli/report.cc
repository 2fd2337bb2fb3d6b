#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "fusion/model_facts.h"
#include "quant/compare.h"
#include "quant/sensitivity.h"
#include "runtime/core/parallel.h"
#include "runtime/exec/session.h"
#include "runtime/kernels/cpu.h"
#include "tools/cli/common.h"
#include "tools/cli/facts_json.h"
#include "tools/data/npy.h"
#include "tools/report/report.h"

namespace fold8::cli {
namespace {

struct Args {
  std::string reference, other, json, junit, labels;
  DataArgs data;
  report::Thresholds thresholds;
  std::size_t worst = 20;
  int threads = 0;
  bool outputs_only = false, sensitivity = false;
};

Result<std::vector<std::int64_t>> read_labels(const std::string& path) {
  FOLD8_TRY(const Tensor t, data::read_npy(path));
  std::vector<std::int64_t> labels;
  switch (t.dtype()) {
    case DType::s64:
      for (auto v : t.as<std::int64_t>()) labels.push_back(v);
      break;
    case DType::s32:
      for (auto v : t.as<std::int32_t>()) labels.push_back(v);
      break;
    case DType::u8:
      for (auto v : t.as<std::uint8_t>()) labels.push_back(v);
      break;
    default:
      return invalid_model("--labels " + path + ": expected integers, found " +
                           std::string(name(t.dtype())));
  }
  return labels;
}

// Share of samples whose largest score in the first output is the label; samples may be batches.
Result<double> accuracy_of(std::shared_ptr<const exec::Model> model, quant::SampleSource& samples,
                           const std::vector<std::int64_t>& labels, int threads) {
  exec::SessionOptions options;
  options.threads = threads;
  FOLD8_TRY(auto session, exec::Session::create(model, options));
  std::size_t right = 0, seen = 0;
  for (std::size_t i = 0; i < samples.count(); ++i) {
    FOLD8_TRY(const auto inputs, samples.sample(i));
    std::vector<TensorView> views;
    for (const Tensor& t : inputs) views.push_back(t.view());
    if (Status s = session->run(views); !s.ok())
      return bad_data(in_context("sample " + std::to_string(i), std::move(s).error()));
    const TensorView& y = session->outputs()[0];
    if (y.dtype != DType::f32 || y.shape.rank() < 1 || y.shape.back().value() < 1)
      return invalid_argument("--labels needs a first output of class scores");
    const auto classes = static_cast<std::size_t>(y.shape.back().value());
    const auto scores = y.as<const float>();
    for (std::size_t b = 0; b + classes <= scores.size(); b += classes, ++seen) {
      if (seen >= labels.size())
        return invalid_model("--labels has " + std::to_string(labels.size()) +
                             " labels, the data has more samples");
      const auto best =
          std::max_element(scores.begin() + static_cast<std::ptrdiff_t>(b),
                           scores.begin() + static_cast<std::ptrdiff_t>(b + classes)) -
          scores.begin() - static_cast<std::ptrdiff_t>(b);
      if (labels[seen] < 0 || labels[seen] >= static_cast<std::int64_t>(classes))
        return invalid_model("--labels: label " + std::to_string(seen) + " is " +
                             std::to_string(labels[seen]) + ", the model has classes 0 to " +
                             std::to_string(classes - 1));
      right += best == labels[seen];
    }
  }
  if (seen != labels.size())
    return invalid_model("--labels has " + std::to_string(labels.size()) + " labels for " +
                         std::to_string(seen) + " samples");
  return seen ? static_cast<double>(right) / static_cast<double>(seen) : 0.0;
}

Result<int> report_models(const Args& args) {
  FOLD8_CHECK_OK(check_paths({args.reference, args.other}, {args.json, args.junit}));
  FOLD8_TRY(auto reference, load_model(args.reference));
  FOLD8_TRY(auto other, load_model(args.other));
  FOLD8_TRY(auto samples, open_data(args.data, reference->graph()));
  Progress progress("fold8 report");
  quant::CompareOptions options;
  options.layers = !args.outputs_only;
  options.threads = args.threads > 0 ? args.threads : usable_cpus();
  options.progress = [&](std::size_t done, std::size_t total) { progress("sample", done, total); };
  report::Report r;
  r.reference_path = args.reference;
  r.other_path = args.other;
  r.target = other->target().name;
  r.engine = "fold8";
  r.cpu = kernels::cpu_brand();
  if (!args.labels.empty()) {
    FOLD8_TRY(const auto labels, read_labels(args.labels));
    report::Accuracy a;
    FOLD8_TRY(a.reference, accuracy_of(reference, *samples, labels, options.threads));
    FOLD8_TRY(a.other, accuracy_of(other, *samples, labels, options.threads));
    a.samples = labels.size();
    r.accuracy = a;
  }
  auto comparison = quant::compare(reference, other, *samples, options);
  if (!comparison.ok()) return bad_data(std::move(comparison).error());
  r.comparison = std::move(*comparison);
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
  const auto shares = fusion::mac_shares(other, samples.source.get());
  if (!shares.ok()) return bad_data(shares.error());
  r.int8_mac_share = shares->linear;
  r.int8_attention_share = shares->attention;
  report::judge(args.thresholds, r);
  if (args.json != "-") std::cout << report::terminal_text(r, args.worst);
  if (!args.json.empty()) FOLD8_CHECK_OK(write_json(report::to_json(r), args.json));
  if (!args.junit.empty())
    FOLD8_CHECK_OK(write_text(report::junit_xml(r, args.thresholds), args.junit));
  return r.missed.empty() ? 0 : 1;
}

}  // namespace

Command add_report(CLI::App& app) {
  auto args = std::make_shared<Args>();
  app.add_option("reference", args->reference, "The float model: .f8 or .onnx")->required();
  app.add_option("other", args->other, "The model to judge: .f8 or .onnx")->required();
  add_data_options(
      app, args->data, "--data",
      "Samples: folder or list of .npz, .npy, test_data_set folders, images, or 'random'", true);
  app.add_option("--min-sqnr", args->thresholds.min_sqnr_db,
                 "Exit 1 unless every output reaches this SQNR (dB)");
  app.add_option("--min-cosine", args->thresholds.min_cosine,
                 "Exit 1 unless every output reaches this cosine")
      ->check(CLI::Range(-1.0, 1.0));
  app.add_option("--min-top1", args->thresholds.min_top1,
                 "Exit 1 unless this share of samples keeps its class (0..1)")
      ->check(CLI::Range(-1.0, 1.0));
  app.add_option("--max-abs", args->thresholds.max_abs, "Exit 1 if an output differs by more");
  app.add_option("--labels", args->labels, "Right classes (.npy of integers): prints accuracy");
  app.add_option("--worst", args->worst, "Layers shown in the table")->capture_default_str();
  auto* outputs_only = app.add_flag("--outputs-only", args->outputs_only, "Skip the layers");
  app.add_flag(
         "--sensitivity", args->sensitivity,
         "Per layer, what it costs at the outputs: alone (only this layer INT8) and gain (SQNR "
         "won if only this layer were float)")
      ->excludes(outputs_only);
  app.add_option("--threads", args->threads, "Threads (0: all CPUs this process may use)")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024));
  app.add_option("--json", args->json, "Write the report as JSON (- for standard output)");
  app.add_option("--junit", args->junit, "Write the thresholds as JUnit XML");
  return [args] { return report_models(*args); };
}

}  // namespace fold8::cli
