#include "tools/cli/facts_json.h"

#include <iostream>

#include "runtime/format/f8.h"
#include "tools/cli/smoothing.h"

namespace fold8::cli {

Json declined_json(const std::vector<fusion::Declined>& declined) {
  Json list = Json::array();
  for (const auto& d : declined)
    list.push_back({{"pass", d.pass}, {"node", d.node}, {"why", d.why}});
  return list;
}

void add_facts(const fusion::ConvertSummary& f, Json& j) {
  j["batch_norms_left"] = f.batch_norms_left;
  j["int8_mac_share"] = number_or_null(f.int8_mac_share);
  j["int8_attention_share"] = number_or_null(f.int8_attention_share);
  j["speed_target"] = f.speed_target.empty() ? Json() : Json(f.speed_target);
  j["quantized_layers"] = f.quantized_layers;
  j["quantized_tables"] = f.quantized_tables;
  j["float_layers"] = Json::array();
  for (const auto& l : f.float_layers)
    j["float_layers"].push_back({{"node", l.node}, {"op", l.op}, {"why", l.why}});
  j["smoothed"] = smoothed_json(f.smoothed);
  j["rotated"] = f.rotated;
  j["declined"] = declined_json(f.declined);
  j["warnings"] = f.warnings;
}

Json tensors_json(const graph::Graph& g, const std::vector<graph::ValueId>& values) {
  Json list = Json::array();
  for (graph::ValueId v : values) {
    Json dims = Json::array();
    for (Dim d : g.type(v).shape.dims()) {
      if (d.known())
        dims.push_back(d.value());
      else if (d.is_symbol())
        dims.push_back(g.symbols[static_cast<std::size_t>(d.symbol_id())]);
      else
        dims.push_back(nullptr);
    }
    list.push_back({{"name", g.value(v).name},
                    {"dtype", std::string(name(g.type(v).dtype))},
                    {"shape", dims}});
  }
  return list;
}

Status write_text(const std::string& text, const std::string& path) {
  if (path == "-") {
    std::cout << text << std::flush;
    return std::cout ? ok_status() : Status(io_error("cannot write to standard output"));
  }
  return format::write_atomically(path, text.data(), text.size());
}

}  // namespace fold8::cli
