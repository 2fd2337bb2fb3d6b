// Chooses the memory order of every activation: channels_last around convolutions and pooling,
// plain elsewhere, with a Relayout where the two meet. Shapes stay logical; only TensorType::layout
// changes.
#pragma once

#include "fusion/rewrite/rewrite.h"

namespace fold8::fusion {

extern const GraphPass assign_layout;

}  // namespace fold8::fusion
