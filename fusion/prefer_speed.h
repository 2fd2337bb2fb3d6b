// `--prefer speed`: which layers INT8 would make slower on a target, by its cost table and the
// shapes of one sample. No clock is read: the same input gives the same choice on every machine.
//
// What a choice costs: each layer its time in its own type (INT8 or float) and the type it writes,
// and the rounding of each tensor that INT8 layers read and that no layer writes as u8 (a norm or a
// sum that rounds its result in passing pays for it too). A layer writes u8 if all layers that read
// its result are INT8, and nobody else needs it as f32. Other operators that could read u8 (sums,
// gates, pools) and read f32 instead lose about one rounding of it each. The search begins with all
// INT8 and with all float, moves one layer at a time, or all that read one tensor, while the sum
// falls, and takes the better end.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "fusion/cost_table.h"
#include "fusion/model_facts.h"
#include "fusion/passes/quantize.h"
#include "runtime/graph/graph.h"

namespace fold8::fusion {

// Name of the output of a layer -> why it stays float, with the numbers ("INT8 would be slower on
// avx2: about 14 us against 9 us"): the first is the second and what the sum of all would grow by.
// `g` is what quantize() gets. A layer stays out of it (and becomes INT8) if its shape is not in
// `shapes` or the table has nothing like it; those of options.keep_float are float.
std::map<std::string, std::string> slower_in_int8(const graph::Graph& g, const ShapeTable& shapes,
                                                  const CostTable& table,
                                                  const QuantizeOptions& options);

// What the table is asked for: nullopt for other operators, unknown shapes and empty tensors.
std::optional<CostKey> cost_key(const graph::Graph& g, const graph::Node& n,
                                const ShapeTable& shapes);

}  // namespace fold8::fusion
