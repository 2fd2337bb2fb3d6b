#include <fmt/format.h>

#include <iostream>
#include <map>

#include "fusion/model_facts.h"
#include "fusion/pipeline.h"
#include "tools/cli/common.h"
#include "tools/cli/facts_json.h"
#include "tools/onnx/onnx.h"

namespace fold8::cli {
namespace {

struct Args {
  std::string model, json;
};

Result<int> check(const Args& args) {
  FOLD8_CHECK_OK(check_paths({args.model}, {args.json}));
  FOLD8_TRY(const auto refused, onnx_io::find_unsupported(args.model));
  // With `--json -` standard output is the JSON alone.
  std::ostream& out = args.json == "-" ? std::cerr : std::cout;
  Json j{{"schema", "fold8.check/1"}, {"model", args.model}, {"runs", refused.empty()}};
  j["unsupported"] = Json::array();
  for (const auto& u : refused) {
    out << fmt::format("unsupported  {} ({}): {}\n", u.node, u.op, u.reason);
    j["unsupported"].push_back({{"node", u.node}, {"op", u.op}, {"why", u.reason}});
  }
  if (!refused.empty()) {
    if (!args.json.empty()) FOLD8_CHECK_OK(write_json(j, args.json));
    return unsupported(fmt::format("{} node(s) of '{}' cannot run; they are listed above",
                                   refused.size(), args.model));
  }
  FOLD8_TRY(auto imported, onnx_io::import_file(args.model));
  for (const auto& note : imported.notes)
    out << fmt::format("note         {}{}{}\n", note.node, note.node.empty() ? "" : ": ",
                       note.message);
  // Some limits show only once operators are prepared: try the whole model on a made-up sample.
  fusion::ConvertOptions options;
  options.float_only = true;
  FOLD8_TRY(const auto tried, fusion::convert(imported.graph, nullptr, options));
  FOLD8_TRY(const auto folded, fusion::fold(std::move(imported.graph)));
  graph::Graph lowered = folded.graph;
  FOLD8_TRY(const auto tally,
            fusion::run(fusion::stage("lower"), lowered));  // layers the file brings as INT8
  const graph::Graph& g = lowered;
  std::map<std::string, int> counts;
  std::vector<std::string> int8;
  for (graph::NodeId n = 0; n < g.node_count(); ++n) {
    if (g.node(n).dead) continue;
    ++counts[graph::display_name(g.node(n).op)];
    if (fusion::is_quantizable_layer(g, g.node(n)) || fusion::is_int8_layer(g, g.node(n)))
      int8.push_back(g.node(n).name);
  }
  out << fmt::format("runs         {}: {} operators after folding\n", args.model, g.live_nodes());
  out << fmt::format("INT8         {} layers with constant weights\n", int8.size());
  out << fmt::format("BatchNorm    {} left\n", folded.batch_norms_left);
  for (const auto& d : tally.declined)
    out << fmt::format("declined     {} at {}: {}\n", d.pass, d.node, d.why);
  for (const auto& d : folded.declined)
    out << fmt::format("declined     {} at {}: {}\n", d.pass, d.node, d.why);
  for (const auto& [op, n] : counts) out << fmt::format("  {:5} {}\n", n, op);
  if (!args.json.empty()) {
    j["int8_layers"] = int8;
    j["batch_norms_left"] = folded.batch_norms_left;
    j["operators"] = counts;
    j["declined"] = declined_json(folded.declined);
    FOLD8_CHECK_OK(write_json(j, args.json));
  }
  return 0;
}

}  // namespace

Command add_check(CLI::App& app) {
  auto args = std::make_shared<Args>();
  app.add_option("model", args->model, "An .onnx file")->required();
  app.add_option("--json", args->json, "Write the result as JSON (- for standard output)");
  return [args] { return check(*args); };
}

}  // namespace fold8::cli
