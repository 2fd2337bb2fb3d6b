// Where a model rounds tensors to 8-bit codes, found in its graph.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/graph/graph.h"

namespace fold8::quant {

// One layer that multiplies or adds what was rounded.
struct RoundingReader {
  std::string layer;  // name of the tensor it writes, as LayerError::name
  graph::NodeId node = graph::kNoNode;
  std::size_t operand = 0;  // of that node
};

struct Rounding {
  std::string tensor;                             // the float tensor, as the reference names it
  graph::ValueId codes = graph::kNoValue;         // in the model: u8 or s8
  QuantParams params = QuantParams::per_token();  // per tensor, or per token
  bool s8 = false;                                // codes -128..127, not 0..255
  // The model stores original / rescale[c] along rescale_axis; empty: the original.
  std::vector<float> rescale;
  int rescale_axis = -1;
  // What the quantizer of a standardised input does first: x * scale[c] + shift[c] along axis.
  std::vector<float> affine_scale, affine_shift;
  int affine_axis = -1;
  int channel_axis = -1;                // of its readers' sums; -1: it has none (rank 0)
  bool by_layer = false;                // the layer named `tensor` writes the codes itself
  bool to_matrix = false;               // a Linear multiplies it
  bool is_output = false;               // what was rounded reaches a graph output
  std::vector<RoundingReader> readers;  // also through data movement and further rounding
  std::vector<std::string> parts;       // of a Concat: its float operands, by name, in order
};

// The layer multiplies the codes of rotated rows (core/rotation.h): they, and its weights, cannot
// be compared with those of the reference one by one.
bool reads_rotated(const graph::Graph& g, const graph::Node& layer);

// `known`: the reference has a float tensor of that name. Tensors that cannot be named are left
// out, and so are codes of rotated rows and codes that were only moved.
std::vector<Rounding> find_roundings(const graph::Graph& g,
                                     const std::function<bool(const std::string&)>& known);

}  // namespace fold8::quant
