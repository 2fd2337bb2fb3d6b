// `--preprocess NAME:mean=…,std=…,layout=nhwc,dtype=u8`: preprocessing that becomes part of the model.
#pragma once

#include <string>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/graph/graph.h"

namespace fold8::data {

struct Preprocess {
  std::string input;
  std::vector<float> mean, std;          // per channel; in the units of the new input
  bool nhwc = false, u8 = false;
};

Result<Preprocess> parse_preprocess(const std::string& spec);
// The graph's input NAME is replaced by one of the given dtype and layout; conversion, transposition and (x - mean) / std
// stand in front of the old one.
Status add_preprocess(const Preprocess& p, graph::Graph& g);

}  // namespace fold8::data
