// Reading and making float constants of a graph.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/graph/graph.h"

namespace fold8::fusion {

// A plain f32 (f64, f16, bf16) constant's elements as doubles; nullopt if `v` is anything else.
std::optional<std::vector<double>> doubles(const graph::Graph& g, graph::ValueId v);
// The value of a floating constant of exactly one element.
std::optional<double> scalar_value(const graph::Graph& g, graph::ValueId v);
// The elements of an s64 or s32 constant.
std::optional<std::vector<std::int64_t>> integers(const graph::Graph& g, graph::ValueId v);

// A constant of `values`, each rounded once to float. Named `stem`, or `stem_1`, ...
graph::ValueId add_floats(graph::Graph& g, std::string_view stem, const Shape& shape,
                          std::span<const double> values);
// Every value is finite as a float.
bool all_finite_as_float(std::span<const double> values);

// A constant operand that varies along at most one axis of `x`, under NumPy broadcasting, and does
// not enlarge x. values.size() is 1 (the same everywhere) or x's extent along `axis`.
struct PerChannel {
  int axis = 0;
  std::vector<double> values;
};
std::optional<PerChannel> per_channel(const graph::Graph& g, graph::ValueId constant,
                                      const Shape& x);

// `shape` has rank and extents that are certainly equal.
bool same_shape(const Shape& a, const Shape& b);
// `gate` has the rank of `map`, [N, C, spatial..], and certainly no spatial extent but 1.
bool is_gate(const Shape& gate, const Shape& map);
// As same_shape for two shapes with equal element counts: one extent may be unknown, since the
// others settle it.
bool same_shape_given_count(const Shape& a, const Shape& b);

}  // namespace fold8::fusion
