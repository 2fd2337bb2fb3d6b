// What convert knows of a model and inspect and reports repeat: shares of multiply-adds, BatchNorms
// left, declines. Stored in the graph's metadata under keys that begin with "fold8.".
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "fusion/convert.h"
#include "quant/sample_source.h"
#include "runtime/exec/model.h"
#include "runtime/graph/graph.h"

namespace fold8::fusion {

// A Linear or Conv whose weights are constant.
bool is_linear_layer(const graph::Graph& g, const graph::Node& n);
// It multiplies integers: u8 or s8 activations with s8 or u8 weights.
bool is_int8_layer(const graph::Graph& g, const graph::Node& n);

struct MacShares {
  std::optional<double> linear;     // of layers with constant weights; none without multiply-adds
  std::optional<double> attention;  // of products of two activations
};
// The input multiply-adds are counted on: a sample; without samples (or from_shapes) zeros of these
// shapes; without shapes made-up ones, if the extents allow it.
struct TypicalInput {
  quant::SampleSource* samples = nullptr;
  std::size_t sample = 0;
  std::vector<Shape> shapes;
  bool from_shapes = false;
};
Result<MacShares> mac_shares(std::shared_ptr<const exec::Model> model, const TypicalInput& input);

using ShapeTable = std::map<std::string, Shape>;
// The shape of every value by name, for that same input. Empty if a made-up one does not suit the
// model.
Result<ShapeTable> shapes_of(std::shared_ptr<const exec::Model> model, const TypicalInput& input);

void store_facts(const ConvertSummary& summary, bool is_float, graph::Graph& g);
// What store_facts() wrote: summary fields that inspect shows (stages and outputs stay empty).
ConvertSummary load_facts(const graph::Graph& g);

}  // namespace fold8::fusion
