// --keep-float on a model that brings Q/DQ: the pairs around what a glob names go, so that the
// tensor stays float there.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/graph/graph.h"

namespace fold8::fusion {

// Quantize -> Dequantize of an activation, with constant scales. A glob names such a pair by the
// tensor it rounds, by one of its nodes or results, or by a layer that reads it (its node, its
// result, or what follows the layer up to the next rounding, which may be fused into it). Returns
// the globs that named one. Other readers of the codes keep them.
std::set<std::string> drop_pairs(graph::Graph& g, const std::vector<std::string>& globs);

// Tensors that the file rounds with constant scales of its own, and the names of the nodes that do
// (a glob that names one drops that pair); remembered in the metadata of what is made of it.
void remember_file_scales(graph::Graph& g);
std::map<std::string, std::string> file_scales(const graph::Graph& g);

// How the warning about a glob that named nothing begins.
inline std::string unmatched_glob(const std::string& glob) {
  return "--keep-float '" + glob + "' matches no layer";
}

}  // namespace fold8::fusion
