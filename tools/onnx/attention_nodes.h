// What the spellings of attention share: heads, masks, and the scores where somebody reads them.
#pragma once

#include "tools/onnx/op_map.h"

namespace fold8::onnx_io {

// Operands of graph::Attention, before there is a node. Masks are f32 (or as q), added, or bool,
// false hides; they broadcast to [B, heads, S, T] from the right.
struct AttentionOperands {
  graph::Attention op;
  ValueId q = kNoValue, k = kNoValue, v = kNoValue;
  ValueId mask = kNoValue, past_k = kNoValue, past_v = kNoValue;
  bool zero_unseen = false;  // rows whose mask hides every key give 0, not NaN

  std::vector<ValueId> list() const { return {q, k, v, mask, past_k, past_v}; }
};

// Which outputs of the ONNX node are which; -1: there is none. Scores: 0 scaled products, 1 behind
// softcap, 2 with the mask, 3 behind the softmax.
struct AttentionOutputs {
  int present_k = 1, present_v = 2, scores = -1;
  std::int64_t scores_mode = 0;
};

// The ONNX node's results: graph::Attention, or its parts where the scores are read.
Status finish_attention(NodeContext& ctx, AttentionOperands a, const AttentionOutputs& outputs);

// Known extent of an axis of v (negative: from the last).
std::optional<std::int64_t> known_extent(NodeContext& ctx, ValueId v, int axis);
// The extent of axis `axis` >= 0 as s64 [1]: a constant where it is known.
ValueId extent(NodeContext& ctx, ValueId v, int axis);
// 0, 1, .. n - 1 as s64 [n]; n: s64 of one element.
ValueId counted(NodeContext& ctx, ValueId n, const std::string& suffix);
ValueId add_ints(NodeContext& ctx, ValueId a, ValueId b, const std::string& suffix);
ValueId reshaped(NodeContext& ctx, ValueId v, const Ints& shape, const std::string& suffix);

// Rows of `width` = heads * depth, from operand `v` of rank 3; sets heads of rank 4 from its shape.
// False, and an error: the sizes are not known, or do not fit. True behind unsupported operators.
struct HeadSizes {
  bool rows = false;
  std::int64_t heads = 0, depth = 0;
};
std::optional<HeadSizes> head_sizes(NodeContext& ctx, ValueId v, std::int64_t heads,
                                    const char* heads_attribute);

// ---- masks; kNoValue stands for none
// Both masks at once.
ValueId both_masks(NodeContext& ctx, ValueId a, ValueId b, const std::string& suffix);
// Positions of queries, in front of which `offset` (s64, broadcasts with [B, 1, S, 1]) keys lie,
// and of keys: which keys lie at most `right` behind and `left` before the query's own; < 0: any
// number.
struct Window {
  ValueId queries = kNoValue, keys = kNoValue, offset = kNoValue;  // numbers of them: s64 [1]
  std::int64_t left = -1, right = 0;
};
ValueId window_mask(NodeContext& ctx, const Window& w);
// bool [B, 1, 1, T]: keys before lengths[b]. lengths: s64 [B].
ValueId length_mask(NodeContext& ctx, ValueId lengths, ValueId keys);
// A mask whose last axis is shorter than `keys`: what is missing is hidden (-inf or false), or of
// that value.
ValueId padded_mask(NodeContext& ctx, ValueId mask, ValueId keys, double value);

}  // namespace fold8::onnx_io
