#include <fmt/format.h>

#include "fusion/convert.h"
#include "runtime/core/parallel.h"
#include "tools/cli/common.h"
#include "tools/cli/facts_json.h"
#include "tools/cli/smoothing.h"
#include "tools/onnx/onnx.h"

namespace fold8::cli {
namespace {

struct Args {
  std::string model, output, json, smooth;
  bool to_rmsnorm = false;
  DataArgs data;
};

Result<int> fold_model(const Args& args) {
  FOLD8_CHECK_OK(check_paths(with_data({args.model}, args.data), {args.output, args.json}));
  FOLD8_TRY(auto imported, onnx_io::import_file(args.model));
  for (const auto& note : imported.notes) say_note(note.node, note.message);
  fusion::FoldOptions options;
  options.threads = usable_cpus();
  options.layer_norm_to_rms_norm = args.to_rmsnorm;
  if (!args.smooth.empty()) {
    FOLD8_TRY(const fusion::Smoothing smoothing, smoothing_of(args.smooth));
    if (!smoothing.off && !smoothing.alpha)
      return invalid_argument("fold --smooth " + args.smooth + ": expected a number from 0 to 1");
    options.smooth_alpha = smoothing.alpha;
  }
  if (options.smooth_alpha.has_value() != args.data.given())
    return invalid_argument("--smooth ALPHA and --calib DATA go together");
  OpenedData samples;
  if (args.data.given()) {
    FOLD8_TRY(samples, open_data(args.data, imported.graph));
  }
  FOLD8_TRY(const auto folded,
            fusion::fold(std::move(imported.graph), samples.source.get(), options));
  FOLD8_CHECK_OK(onnx_io::export_file(folded.graph, args.output));
  say(fmt::format("{}: {} operators, {} BatchNorm left", args.output, folded.graph.live_nodes(),
                  folded.batch_norms_left));
  if (const std::string line = smoothing_line(folded.smoothed); !line.empty()) say("  " + line);
  for (const auto& d : folded.declined)
    say(fmt::format("  declined {} at {}: {}", d.pass, d.node, d.why));
  if (!args.json.empty()) {
    Json j{{"schema", "fold8.fold/1"},
           {"model", args.model},
           {"output", args.output},
           {"batch_norms_left", folded.batch_norms_left}};
    j["smoothed"] = smoothed_json(folded.smoothed);
    j["declined"] = declined_json(folded.declined);
    FOLD8_CHECK_OK(write_json(j, args.json));
  }
  return 0;
}

}  // namespace

Command add_fold(CLI::App& app) {
  auto args = std::make_shared<Args>();
  app.add_option("model", args->model, "An .onnx file")->required();
  app.add_option("-o,--output", args->output, "The folded .onnx file to write")->required();
  app.add_option("--smooth", args->smooth,
                 "SmoothQuant with this alpha in [0, 1], for a runtime that quantizes afterwards");
  app.add_flag("--layernorm-to-rmsnorm", args->to_rmsnorm,
               "LayerNorms of a pre-norm network as RMSNorms, where that is exact");
  add_data_options(app, args->data, "--calib", "Data that --smooth takes ranges from", false);
  app.add_option("--json", args->json, "Write what was declined as JSON (- for standard output)");
  return [args] { return fold_model(*args); };
}

}  // namespace fold8::cli
