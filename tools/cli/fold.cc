#include <fmt/format.h>

#include "fusion/convert.h"
#include "tools/cli/common.h"
#include "tools/cli/facts_json.h"
#include "tools/onnx/onnx.h"

namespace fold8::cli {
namespace {

struct Args {
  std::string model, output, json;
};

Result<int> fold_model(const Args& args) {
  FOLD8_CHECK_OK(check_paths({args.model}, {args.output, args.json}));
  FOLD8_TRY(auto imported, onnx_io::import_file(args.model));
  for (const auto& note : imported.notes) say_note(note.node, note.message);
  FOLD8_TRY(const auto folded, fusion::fold(std::move(imported.graph)));
  FOLD8_CHECK_OK(onnx_io::export_file(folded.graph, args.output));
  say(fmt::format("{}: {} operators, {} BatchNorm left", args.output, folded.graph.live_nodes(),
                  folded.batch_norms_left));
  for (const auto& d : folded.declined)
    say(fmt::format("  declined {} at {}: {}", d.pass, d.node, d.why));
  if (!args.json.empty()) {
    Json j{{"schema", "fold8.fold/1"},
           {"model", args.model},
           {"output", args.output},
           {"batch_norms_left", folded.batch_norms_left}};
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
  app.add_option("--json", args->json, "Write what was declined as JSON (- for standard output)");
  return [args] { return fold_model(*args); };
}

}  // namespace fold8::cli
