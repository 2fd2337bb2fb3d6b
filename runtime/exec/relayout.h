// Tensors at the border of a graph: copies between layouts, canonical NaNs.
#pragma once

#include "runtime/core/result.h"
#include "runtime/core/tensor.h"

namespace fold8::exec {

// Same dtype and shape; plain and channels_last in any combination.
void copy_tensor(const TensorView& from, const TensorView& to);

// Every NaN becomes the positive quiet one without payload: 0x7fc00000 in f32, likewise f64, f16,
// bf16.
void canonicalize_nans(const TensorView& t);

}  // namespace fold8::exec
