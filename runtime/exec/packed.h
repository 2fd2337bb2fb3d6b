// Packed weights have no size in their type: kernels trust the shape, so a file's bytes are checked
// against it once.
#pragma once

#include "runtime/core/result.h"
#include "runtime/graph/graph.h"

namespace fold8::exec {

// Every packed constant is read only by Linear and Conv, and has as many bytes as its shape and
// reader imply.
Status check_packed(const graph::Graph& g);

}  // namespace fold8::exec
