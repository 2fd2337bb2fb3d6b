// The last pass: constant weights of Linear and Conv are stored in the order the kernels read, so
// that a file is mapped and used as it lies. A weight read by several layers of one geometry is
// stored once.
#pragma once

#include "fusion/rewrite/rewrite.h"

namespace fold8::fusion {

extern const GraphPass pack_weights;

}  // namespace fold8::fusion
