// The index of all passes; pipeline.cc says which run when. One file each, or one file for a few of
// one kind.
#pragma once

#include "fusion/rewrite/rewrite.h"

namespace fold8::fusion {

// ---- canonicalize
extern const GraphPass
    fold_constants;  // operators whose inputs are all constants; shapes that are known
extern const GraphPass
    dequantize_constants;  // stored INT8 weights as floats: float models of QDQ files only
extern const GraphPass dequantize_biases;  // stored INT32 biases as floats: always
extern const GraphPass
    equalize;  // channels of like size between layers, before ranges are measured
extern const GraphPass
    layer_norm_to_rms_norm;              // on request: where a pre-norm network makes it exact
extern const GraphPass merge_constants;  // equal bytes of equal type are kept once
extern const Rewrite
    drop_noop;  // identity, casts to the same type, reshapes to the same shape, *1, +0 ...
extern const Rewrite merge_movement;          // transposes and reshapes in a row; pairs that cancel
extern const Rewrite recognize_clip;          // Min/Max by a number, clips in a row
extern const Rewrite recognize_sigmoid;       // sigmoid, SiLU, softplus, Mish from exp, tanh, log
extern const Rewrite recognize_hard_sigmoid;  // HardSigmoid and HardSwish from add, clip, mul
extern const Rewrite recognize_gelu;          // erf and tanh forms
extern const Rewrite recognize_layer_norm;
extern const Rewrite recognize_rms_norm;
extern const Rewrite recognize_group_norm;  // Reshape, InstanceNorm, Reshape
extern const Rewrite absorb_norm_scale;     // gamma and beta written as Mul and Add behind a norm
extern const Rewrite matmul_to_linear;      // a constant right side
extern const Rewrite fold_bias;             // Add of a per-channel constant behind a linear layer

// ---- fold
extern const Rewrite fold_batch_norm;  // BatchNorm (or Affine) into the linear layer before it
extern const Rewrite fold_scale_back;  // the same for Mul, Add, Sub, Div by constants
extern const Rewrite fold_batch_norm_forward;  // into the linear layers behind it
extern const Rewrite fold_scale_forward;
extern const Rewrite merge_affines;
extern const Rewrite skip_into_gate;
extern const Rewrite scale_into_activation;
extern const Rewrite batch_norm_to_affine;
extern const Rewrite
    affine_out_of_transposes;  // Transpose, Affine, Transpose back -> Affine on another axis

// ---- fuse
extern const Rewrite fuse_residual;      // add(layer, other) -> layer's residual operand
extern const Rewrite fuse_activation;    // into Linear, Conv, Binary, Affine
extern const Rewrite fuse_matmul_scale;  // a number before or behind a MatMul -> alpha
extern const Rewrite
    fuse_matmul_transpose;  // a swap of the last two axes -> transpose_a / transpose_b

// ---- attention
extern const Rewrite recognize_rotary;
extern const Rewrite recognize_attention;
extern const Rewrite attention_repeats;  // heads of keys repeated for groups of queries
extern const GraphPass attention_past;   // concat of a past in front of keys and values
extern const Rewrite rotary_rows;        // heads where the linear layers have them, and so on
extern const Rewrite attention_rows;
extern const Rewrite attention_thirds;
extern const Rewrite attention_splits;
extern const Rewrite attention_output;

}  // namespace fold8::fusion
