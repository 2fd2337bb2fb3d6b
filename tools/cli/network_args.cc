#include "tools/cli/network_args.h"

#include "tools/data/preprocess.h"
#include "tools/onnx/onnx.h"

namespace fold8::cli {

void add_network_options(CLI::App& app, NetworkArgs& args) {
  app.add_option("--preprocess", args.preprocess,
                 "NAME:mean=..,std=..,layout=nhwc,dtype=u8 becomes part of the model (of an input "
                 "that is given several, the last)");
  app.add_flag("--layernorm-to-rmsnorm", args.to_rmsnorm,
               "LayerNorms of a pre-norm network as RMSNorms, which is exact once the residual "
               "stream is centred; refused, with the reason, in others");
}

Result<graph::Graph> import_network(const NetworkArgs& args, bool aloud) {
  FOLD8_TRY(auto imported, onnx_io::import_file(args.model));
  if (aloud)
    for (const auto& note : imported.notes) say_note(note.node, note.message);
  std::vector<data::Preprocess> all;
  for (const std::string& spec : args.preprocess) {
    FOLD8_TRY(data::Preprocess p, data::parse_preprocess(spec));
    std::erase_if(all, [&](const data::Preprocess& other) { return other.input == p.input; });
    all.push_back(std::move(p));
  }
  for (const data::Preprocess& p : all) FOLD8_CHECK_OK(data::add_preprocess(imported.graph, p));
  return std::move(imported.graph);
}

}  // namespace fold8::cli
