// fold8 calibrate and fold8 merge: statistics of a network, gathered in parts.
#include <fmt/format.h>

#include <chrono>

#include "fusion/statistics.h"
#include "runtime/core/parallel.h"
#include "tools/cli/network_args.h"
#include "tools/cli/statistics_file.h"

namespace fold8::cli {
namespace {

struct CalibrateArgs {
  std::string output, json;
  int threads = 0;
  NetworkArgs network;
  DataArgs data;
};

void say_written(const quant::Statistics& s, const std::string& path) {
  say(fmt::format("{}: ranges of {} tensors on {} samples, of the folded network {}", path,
                  s.table.tensors.size(), s.table.samples, quant::id_text(s.model)));
  say_warnings(s.table);
}

Result<int> calibrate_model(const CalibrateArgs& args) {
  const auto begin = std::chrono::steady_clock::now();
  FOLD8_CHECK_OK(check_paths(with_data({args.network.model}, args.data), {args.output, args.json}));
  Progress progress("fold8 calibrate");
  fusion::ConvertOptions options;
  options.threads = args.threads > 0 ? args.threads : usable_cpus();
  options.layer_norm_to_rms_norm = args.network.to_rmsnorm;
  options.progress = [&progress](const std::string& stage, std::size_t done, std::size_t total) {
    progress(stage, done, total);
  };
  progress("import", 0, 0);
  FOLD8_TRY(graph::Graph imported, import_network(args.network));
  FOLD8_TRY(const OpenedData samples, open_data(args.data, imported));
  if (args.data.random()) say_warning("these are random numbers, no data of yours");
  auto statistics = fusion::measure(std::move(imported), *samples, options);
  if (!statistics.ok()) return bad_data(std::move(statistics).error());
  FOLD8_CHECK_OK(write_statistics(*statistics, args.output));
  say_written(*statistics, args.output);
  if (!args.json.empty()) {
    Json j = statistics_json(*statistics, "fold8.calibrate/1");
    j["model"] = args.network.model;
    j["output"] = args.output;
    j["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    FOLD8_CHECK_OK(write_json(j, args.json));
  }
  return 0;
}

struct MergeArgs {
  std::vector<std::string> inputs;
  std::string output, json;
};

Result<int> merge_statistics(const MergeArgs& args) {
  FOLD8_CHECK_OK(check_paths(args.inputs, {args.output, args.json}));
  FOLD8_TRY(quant::Statistics all, read_statistics(args.inputs[0]));
  for (std::size_t i = 1; i < args.inputs.size(); ++i) {
    FOLD8_TRY(const quant::Statistics part, read_statistics(args.inputs[i]));
    if (const Status s = all.merge(part); !s.ok())
      return in_context("'" + args.inputs[i] + "' beside '" + args.inputs[0] + "'", s.error());
  }
  FOLD8_CHECK_OK(write_statistics(all, args.output));
  say_written(all, args.output);
  if (!args.json.empty()) {
    Json j = statistics_json(all, "fold8.merge/1");
    j["inputs"] = args.inputs;
    j["output"] = args.output;
    FOLD8_CHECK_OK(write_json(j, args.json));
  }
  return 0;
}

}  // namespace

Command add_calibrate(CLI::App& app) {
  auto args = std::make_shared<CalibrateArgs>();
  app.add_option("model", args->network.model, "An .onnx file")->required();
  app.add_option("-o,--output", args->output, "The file of statistics to write")->required();
  add_data_options(
      app, args->data, "--data",
      "Samples: folder or list of .npz, .npy, test_data_set folders, images, or 'random'", true);
  add_network_options(app, args->network);
  add_threads_option(app, args->threads);
  app.add_option("--json", args->json, "Write the ranges as JSON (- for standard output)");
  return [args] { return calibrate_model(*args); };
}

Command add_merge(CLI::App& app) {
  auto args = std::make_shared<MergeArgs>();
  app.add_option("statistics", args->inputs, "Files that `fold8 calibrate` wrote for one model")
      ->required();
  app.add_option("-o,--output", args->output, "The file of statistics to write")->required();
  app.add_option("--json", args->json, "Write the ranges as JSON (- for standard output)");
  return [args] { return merge_statistics(*args); };
}

}  // namespace fold8::cli
