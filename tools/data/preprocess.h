// --preprocess NAME:mean=..,std=..,layout=nhwc,dtype=u8 : standardisation that becomes part of the
// model.
#pragma once

#include <string>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/graph/graph.h"

namespace fold8::data {

// y[c] = fma(x[c], 1/std[c], -mean[c]/std[c]), both constants rounded once; x in the units callers
// will pass.
struct Preprocess {
  std::string input;
  std::vector<float> mean, std;  // one number, or one per channel; empty: 0 and 1
  bool channels_last = false;    // callers pass [N, H, W, C] where the network reads [N, C, H, W]
  DType dtype = DType::f32;      // of what callers pass: f32 or u8
};

// "picture:mean=123.7,116.3,103.5,std=58.4,57.1,57.4,layout=nhwc,dtype=u8". The name may contain
// colons.
Result<Preprocess> parse_preprocess(const std::string& text);

// Puts Transpose, Cast and Affine, as far as needed, in front of the input. The new input keeps the
// name; the value the network read becomes NAME/preprocessed.
Status add_preprocess(graph::Graph& g, const Preprocess& p);

}  // namespace fold8::data
