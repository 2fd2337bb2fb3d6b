#include <fmt/format.h>

#include <iostream>

#include "fusion/convert.h"
#include "fusion/model_facts.h"
#include "runtime/exec/session.h"
#include "runtime/graph/text.h"
#include "tools/cli/common.h"
#include "tools/cli/facts_json.h"
#include "tools/cli/smoothing.h"
#include "tools/cli/statistics_file.h"
#include "tools/onnx/onnx.h"

namespace fold8::cli {
namespace {

struct Args {
  std::string model, json, dot;
  bool why = false, verify = false, graph = false;
};

std::string type_text(const graph::Graph& g, graph::ValueId v) {
  const TensorType& t = g.type(v);
  return fmt::format("{} {}{}{}", g.value(v).name, name(t.dtype), to_string(t.shape, g.symbols),
                     t.quant ? " " + to_string(*t.quant) : "");
}

// The graph in Graphviz form: operators as boxes, edges labelled with types.
std::string dot_text(const graph::Graph& g) {
  const auto quoted = [](std::string s) {
    std::string out = "\"";
    for (char c : s) out += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    return out + "\"";
  };
  std::string out = "digraph model {\n  node [shape=box, fontname=sans];\n";
  const auto producers = g.producers();
  for (graph::NodeId n = 0; n < g.node_count(); ++n) {
    if (g.node(n).dead) continue;
    out += fmt::format("  n{} [label={}];\n", n,
                       quoted(graph::display_name(g.node(n).op) + "\n" + g.node(n).name));
    for (graph::ValueId v : g.node(n).inputs) {
      if (v == graph::kNoValue || g.is_constant(v)) continue;
      const graph::NodeId p = producers[static_cast<std::size_t>(v)];
      const std::string from =
          p == graph::kNoNode ? quoted(g.value(v).name) : fmt::format("n{}", p);
      out += fmt::format(
          "  {} -> n{} [label={}];\n", from, n,
          quoted(std::string(name(g.type(v).dtype)) + to_string(g.type(v).shape, g.symbols)));
    }
  }
  return out + "}\n";
}

std::size_t weight_bytes(const graph::Graph& g) {
  std::size_t bytes = 0;
  for (graph::ValueId v = 0; v < g.value_count(); ++v)
    if (g.is_constant(v)) bytes += g.value(v).constant->size();
  return bytes;
}

// A .f8 file as it is; an .onnx one folded and fused, the declines with it.
struct Inspected {
  graph::Graph graph;
  fusion::ConvertSummary facts;
};

Result<Inspected> open(const Args& args) {
  if (is_f8(args.model)) {
    FOLD8_TRY(const auto model, exec::Model::load(args.model, args.verify ? exec::Verify::full
                                                                          : exec::Verify::header));
    return Inspected{model->graph(), fusion::load_facts(model->graph())};
  }
  FOLD8_TRY(auto imported, onnx_io::import_file(args.model));
  fusion::ConvertOptions options;
  options.float_only = true;
  FOLD8_TRY(auto converted, fusion::convert(std::move(imported.graph), nullptr, options));
  return Inspected{std::move(converted.graph), std::move(converted.summary)};
}

void print(const Inspected& in, const Args& args) {
  const graph::Graph& g = in.graph;
  std::cout << args.model << "\n";
  for (graph::ValueId v : g.inputs) std::cout << "  input   " << type_text(g, v) << "\n";
  for (graph::ValueId v : g.outputs) std::cout << "  output  " << type_text(g, v) << "\n";
  std::cout << fmt::format("  nodes   {}   weights {}\n", g.live_nodes(),
                           readable_bytes(static_cast<double>(weight_bytes(g))));
  std::cout << fmt::format(
      "  INT8 layers {}   float layers {}   int8_mac_share {}   batch_norms_left {}\n",
      in.facts.quantized_layers.size(), in.facts.float_layers.size(),
      in.facts.int8_mac_share ? fmt::format("{:.3f}", *in.facts.int8_mac_share) : "-",
      in.facts.batch_norms_left);
  if (!in.facts.speed_target.empty())
    std::cout << "  chosen for speed on " << in.facts.speed_target << " (--prefer speed)\n";
  if (const std::string line = smoothing_line(in.facts.smoothed); !line.empty())
    std::cout << "  " << line << "\n";
  if (const std::string line = rotation_line(in.facts.rotated); !line.empty())
    std::cout << "  " << line << "\n";
  if (args.verify && is_f8(args.model)) std::cout << "  all checksums are right\n";
  if (args.why) {
    for (const auto& q : in.facts.quantized_layers) std::cout << "  int8     " << q << "\n";
    for (const auto& t : in.facts.smoothed) std::cout << "  smoothed " << smoothed_line(t) << "\n";
    for (const auto& t : in.facts.rotated) std::cout << "  rotated  " << t << "\n";
    for (const auto& t : in.facts.quantized_tables) std::cout << "  table    " << t << "\n";
    if (in.facts.declined.empty()) std::cout << "  nothing was declined\n";
    for (const auto& f : in.facts.float_layers)
      std::cout << fmt::format("  float    {} ({}): {}\n", f.node, f.op, f.why);
    for (const auto& d : in.facts.declined)
      std::cout << fmt::format("  declined {} at {}: {}\n", d.pass, d.node, d.why);
    for (const auto& w : in.facts.warnings) std::cout << "  warning  " << w << "\n";
  }
  if (args.graph) std::cout << graph::to_text(g);
}

Result<int> inspect(const Args& args) {
  FOLD8_CHECK_OK(check_paths({args.model}, {args.json, args.dot}));
  if (is_statistics_file(args.model)) return inspect_statistics(args.model, args.json);
  FOLD8_TRY(const Inspected in, open(args));
  if (!args.dot.empty()) {
    const std::string text = dot_text(in.graph);
    FOLD8_CHECK_OK(write_text(text, args.dot));
  }
  if (args.json != "-") print(in, args);
  if (!args.json.empty()) {
    Json j{{"schema", "fold8.inspect/1"}, {"model", args.model}};
    add_facts(in.facts, j);
    j["nodes"] = in.graph.live_nodes();
    j["weight_bytes"] = weight_bytes(in.graph);
    j["inputs"] = tensors_json(in.graph, in.graph.inputs);
    j["outputs"] = tensors_json(in.graph, in.graph.outputs);
    FOLD8_CHECK_OK(write_json(j, args.json));
  }
  return 0;
}

}  // namespace

Command add_inspect(CLI::App& app) {
  auto args = std::make_shared<Args>();
  app.add_option("model", args->model, "A .f8 or .onnx file, or statistics (fold8 calibrate)")
      ->required();
  app.add_flag("--why", args->why,
               "Every BatchNorm not folded, every layer kept float, with the reason");
  app.add_flag("--graph", args->graph, "The whole graph as text");
  app.add_flag("--verify", args->verify, "Also check the checksum of every weight");
  app.add_option("--dot", args->dot, "Write the graph for Graphviz");
  app.add_option("--json", args->json, "Write the facts as JSON (- for standard output)");
  return [args] { return inspect(*args); };
}

}  // namespace fold8::cli
