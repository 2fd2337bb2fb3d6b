// Arrays from files against the inputs of a model: names, shapes, element types.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/core/tensor.h"
#include "runtime/graph/graph.h"

namespace fold8::data {

// What a model wants, copied from its graph so that sources outlive it.
struct InputSpec {
  std::string name;
  TensorType type;
};
struct Signature {
  std::vector<InputSpec> inputs;
  std::vector<std::string> symbols;
};
Signature signature_of(const graph::Graph& g);
std::string list_names(const Signature& s);  // "'a', 'b'"

// Extents of symbols seen in one sample: equal symbols must be equal extents.
using SymbolExtents = std::map<std::int32_t, std::int64_t>;

// Type and shape of an array for one input. `where` names file and array. Errors say what was given
// and what is wanted.
Status check_array(const Signature& s, const InputSpec& input, DType dtype, const Shape& shape,
                   const std::string& where, SymbolExtents& symbols);

// Conversions without surprise: f64 and f16 to f32, integers to wider ones. True if `from` may
// become `to`.
bool convertible(DType from, DType to);
Result<Tensor> convert(const Tensor& t, DType to);

}  // namespace fold8::data
