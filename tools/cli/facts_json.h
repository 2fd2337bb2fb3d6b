// The keys that convert and inspect share.
#pragma once

#include <string>
#include <vector>

#include "fusion/convert.h"
#include "tools/cli/common.h"

namespace fold8::cli {

// batch_norms_left, int8_mac_share, int8_attention_share, speed_target, quantized_layers,
// float_layers[], declined[], warnings[]
void add_facts(const fusion::ConvertSummary& facts, Json& json);
Json tensors_json(const graph::Graph& g, const std::vector<graph::ValueId>& values);
// declined[].{pass,node,why}
Json declined_json(const std::vector<fusion::Declined>& declined);
Status write_text(const std::string& text, const std::string& path);

}  // namespace fold8::cli
