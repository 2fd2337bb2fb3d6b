#include "fusion/pipeline.h"

#include <algorithm>

#include "fusion/passes/assign_layout.h"
#include "fusion/passes/fuse_quantize.h"
#include "fusion/passes/norm_from_accumulators.h"
#include "fusion/passes/pack_weights.h"
#include "fusion/passes/passes.h"
#include "fusion/passes/quantized_matmul.h"

namespace fold8::fusion {

std::vector<Stage> float_pipeline() {
  return {
      // Later passes see one form. Activations and norms are recognised before fold_bias, which
      // would take the +3 of a
      // HardSwish for the bias of the layer in front of it.
      {"canonicalize",
       {&dequantize_biases, &quantized_matmul_to_linear, &fold_constants, &drop_noop,
        &merge_movement, &recognize_clip, &recognize_sigmoid, &recognize_hard_sigmoid,
        &recognize_gelu, &recognize_layer_norm, &recognize_rms_norm, &recognize_group_norm,
        &absorb_norm_scale, &skip_into_gate, &matmul_to_linear, &fold_bias}},
      // Before ranges are measured, and before weights are s8: it changes the range of every row.
      // Backwards before
      // forwards: the layer behind may be padded. What finds no layer becomes an affine last.
      {"fold",
       {&fold_batch_norm, &fold_scale_back, &fold_batch_norm_forward, &fold_scale_forward,
        &batch_norm_to_affine, &merge_affines, &affine_out_of_transposes, &drop_noop,
        &merge_movement, &merge_constants}},
      // Needs final types. Residual before activation: the activation comes after the sum.
      {"fuse",
       {&fuse_matmul_scale, &fuse_matmul_transpose, &fuse_residual, &fuse_activation,
        &scale_into_activation}},
      // Scales and transposes are inside the products by now.
      {"attention",
       {&recognize_rotary, &recognize_attention, &attention_repeats, &rotary_rows, &attention_rows,
        &attention_thirds, &attention_splits, &attention_output, &attention_past, &merge_movement,
        &drop_noop}},
  };
}

std::vector<Stage> back_pipeline() {
  return {
      // Only on the way to INT8. Behind activations, which it must know, and before ranges.
      {"equalize", {&equalize}},
      // Only on request (--layernorm-to-rmsnorm), behind fold.
      {"norms", {&layer_norm_to_rms_norm}},
      // Rounding moves into producers before layouts are chosen: it decides which tensors exist.
      // Then norms: whether their result is rounded is known, and what layers in front of them
      // write.
      {"lower", {&fuse_quantize, &norm_from_accumulators}},
      // Layouts before packing: nothing may change a layer's operands once its weights are packed.
      {"emit", {&dequantize_constants, &assign_layout, &pack_weights}},
  };
}

Stage stage(std::string_view name) {
  for (const auto& pipeline : {float_pipeline(), back_pipeline()})
    for (const Stage& s : pipeline)
      if (s.name == name) return s;
  return {name, {}};
}

Status run_stage(const Stage& stage, graph::Graph& g, const Context& context, PipelineLog& log) {
  FOLD8_TRY(Tally tally, run(stage, g, context));
  log.stages.push_back({std::string(stage.name), tally.applied});
  for (Declined& d : tally.declined)
    if (std::find(log.declined.begin(), log.declined.end(), d) == log.declined.end())
      log.declined.push_back(std::move(d));
  return ok_status();
}

Result<PipelineLog> run_stages(const std::vector<Stage>& stages, graph::Graph& g,
                               const Context& context) {
  PipelineLog log;
  for (const Stage& s : stages) FOLD8_CHECK_OK(run_stage(s, g, context, log));
  return log;
}

}  // namespace fold8::fusion
