// clang-format off (an operator a paragraph, its fields on a line or two)
// The operators of the graph: one attribute struct per family, a closed variant of them all.
//
// Each struct says what its inputs and outputs are. `each_field` lists its attributes once; the
// text form, the .f8 format, equality and verification are all made from that list. Adding an
// operator: a struct here, its name in `Op`, runtime/ops/<op>.cc, and the ONNX map in tools/onnx.
//
// Inputs marked ? may be absent (kNoValue). Axes are already normalized (0 <= axis < rank) unless
// said otherwise. Quantization is in the types of the operands, not in the operators: Linear over
// u8 x and s8 w is the INT8 one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "runtime/core/activation.h"
#include "runtime/core/dtype.h"
#include "runtime/core/tensor_type.h"

namespace fold8::graph {

class Graph;
using Ints = std::vector<std::int64_t>;

// Declares the operator's name in text and files, and its attributes in order.
#define FOLD8_OP(text_name, ...)                       \
  static constexpr std::string_view kName = text_name; \
  template <class Self, class F>                       \
  static void each_field_of(Self& self, F&& f) {       \
    (void)self;                                        \
    (void)f;                                           \
    __VA_ARGS__                                        \
  }
#define FOLD8_FIELD(member) f(std::string_view(#member), self.member);

// ----------------------------------------------------------------------------------------------
// elementwise

// y = kind(x), elementwise, same shape. Append only (stored in files).
enum class UnaryKind : std::uint8_t {
  relu,
  clip,
  leaky_relu,
  hard_sigmoid,
  hard_swish,
  sigmoid,
  silu,
  tanh,
  gelu_erf,
  gelu_tanh,
  elu,  // = Activation + none
  abs,
  neg,
  sqrt,
  exp,
  log,
  reciprocal,
  floor,
  ceil,
  round,
  sign,
  erf,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  asinh,
  acosh,
  atanh,
  softplus,
  softsign,
  mish,
  selu,
  celu,
  thresholded_relu,
  shrink,
  logical_not,
  is_nan,
  is_inf,
  bitwise_not,
  square,
};
struct Unary {
  UnaryKind kind{};
  float
      a = 0,
      b = 0;  // parameters as runtime/core/activation.h names them; others: alpha, beta/gamma/bias
  FOLD8_OP("unary", FOLD8_FIELD(kind) FOLD8_FIELD(a) FOLD8_FIELD(b))
};

// y = activation(kind(x0, x1)), NumPy broadcasting. Comparisons and logic give bool.
enum class BinaryKind : std::uint8_t {
  add,
  sub,
  mul,
  div,
  pow,
  min,
  max,
  mod,
  fmod,
  prelu,
  equal,
  less,
  less_equal,
  greater,
  greater_equal,
  logical_and,
  logical_or,
  logical_xor,
  bit_and,
  bit_or,
  bit_xor,
  shift_left,
  shift_right,
};
struct Binary {
  BinaryKind kind{};
  Activation activation = Activation::none;
  float a = 0, b = 0;
  FOLD8_OP("binary", FOLD8_FIELD(kind) FOLD8_FIELD(activation) FOLD8_FIELD(a) FOLD8_FIELD(b))
};

// y = c ? x0 : x1; inputs c (bool), x0, x1, broadcast.
struct Where {
  FOLD8_OP("where")
};

// y = activation(fma(x, scale[c], shift[c])), c = index along `axis`; inputs x, scale [C], shift
// [C]. What is left of a BatchNorm without a linear neighbour. `from_batch_norm`: counted by
// batch_norms_left where folding was possible.
struct Affine {
  std::int64_t axis = 1;
  Activation activation = Activation::none;
  float a = 0, b = 0;
  bool from_batch_norm = false;
  FOLD8_OP("affine", FOLD8_FIELD(axis) FOLD8_FIELD(activation) FOLD8_FIELD(a) FOLD8_FIELD(b)
                         FOLD8_FIELD(from_batch_norm))
};

// Conversion as ONNX Cast; float -> integer like cvttss2si.
struct Cast {
  DType to = DType::f32;
  FOLD8_OP("cast", FOLD8_FIELD(to))
};

struct Identity {
  FOLD8_OP("identity")
};

// ----------------------------------------------------------------------------------------------
// linear layers

// y[..., n] = act( sum_k x[..., k] * w[n, k] + bias[n] + residual[..., n] )
// inputs x [..., K], w [N, K] (or [B.., N, K]: matrices that broadcast with x's leading axes),
// bias? f32 [N], residual? like y, row_scale? f32 [..., 1] (the scales of a per-token x). x f32 and
// w f32; or x u8 (per tensor or per token) and w s8 with params. w may be packed
// (Layout::packed_*). x f32 and w s8 (weight-only INT8): w is dequantized on the fly. y f32, u8
// with params, or s32 (raw sums of integer models).
struct Linear {
  Activation activation = Activation::none;
  float a = 0, b = 0;
  std::int64_t out_features = 0;  // N; 0 while w is plain (read it off the shape)
  std::int64_t in_features = 0;   // K
  FOLD8_OP("linear", FOLD8_FIELD(activation) FOLD8_FIELD(a) FOLD8_FIELD(b) FOLD8_FIELD(out_features)
                         FOLD8_FIELD(in_features))
};

// y = alpha * op(a) x op(b), batched with broadcasting; rank 1 operands as ONNX MatMul. Products of
// two activations (attention), or anything not yet a Linear. inputs a, b, a_zero_point?,
// b_zero_point? (integer operands: y is s32).
struct MatMul {
  float alpha = 1;
  bool transpose_a = false, transpose_b = false;  // swap the last two axes
  FOLD8_OP("matmul", FOLD8_FIELD(alpha) FOLD8_FIELD(transpose_a) FOLD8_FIELD(transpose_b))
};

// ONNX Conv and ConvTranspose, 1-3 spatial axes. inputs x [N, C, spatial..], w [M, C/group,
// kernel..] (transposed: [C, M/group, kernel..]), bias? f32 [M], residual? like y. Types as Linear.
// `pads`: begins, then ends. auto_pad is resolved where it does not depend on the size;
// same_upper/same_lower stay as `auto_pad`.
enum class AutoPad : std::uint8_t { none, same_upper, same_lower };
struct Conv {
  Ints kernel, strides, pads, dilations;
  std::int64_t group = 1;
  bool transposed = false;
  Ints output_padding, output_shape;  // transposed only; output_shape empty if not given
  AutoPad auto_pad = AutoPad::none;
  std::int64_t out_channels = 0;  // M, valid also when w is packed; 0 while w is plain
  Activation activation = Activation::none;
  float a = 0, b = 0;
  std::int64_t shift = 0;  // u8 results: shift * y's scale is added behind the activation
  FOLD8_OP("conv",
           FOLD8_FIELD(kernel) FOLD8_FIELD(strides) FOLD8_FIELD(pads) FOLD8_FIELD(dilations)
               FOLD8_FIELD(group) FOLD8_FIELD(transposed) FOLD8_FIELD(output_padding)
                   FOLD8_FIELD(output_shape) FOLD8_FIELD(auto_pad) FOLD8_FIELD(out_channels)
                       FOLD8_FIELD(activation) FOLD8_FIELD(a) FOLD8_FIELD(b) FOLD8_FIELD(shift))
};

// ----------------------------------------------------------------------------------------------
// pooling, resize

enum class PoolKind : std::uint8_t { max, average, lp };
// inputs x [N, C, spatial..]; outputs y, indices? (max only). global: kernel is the whole space,
// other fields unused.
struct Pool {
  PoolKind kind{};
  bool global = false;
  Ints kernel, strides, pads, dilations;
  bool ceil_mode = false, count_include_pad = false;
  AutoPad auto_pad = AutoPad::none;
  std::int64_t p = 2;              // lp
  std::int64_t storage_order = 0;  // of the indices
  FOLD8_OP("pool", FOLD8_FIELD(kind) FOLD8_FIELD(global) FOLD8_FIELD(kernel) FOLD8_FIELD(strides)
                       FOLD8_FIELD(pads) FOLD8_FIELD(dilations) FOLD8_FIELD(ceil_mode)
                           FOLD8_FIELD(count_include_pad) FOLD8_FIELD(auto_pad) FOLD8_FIELD(p)
                               FOLD8_FIELD(storage_order))
};

enum class ResizeMode : std::uint8_t { nearest, linear, cubic };
enum class Coordinates : std::uint8_t {
  half_pixel,
  pytorch_half_pixel,
  align_corners,
  asymmetric,
  half_pixel_symmetric,
  tf_crop_and_resize
};
enum class NearestMode : std::uint8_t { round_prefer_floor, round_prefer_ceil, floor, ceil };
// ONNX Resize (Upsample is one with asymmetric/floor). inputs x, scales? f32, sizes? s64, roi? f32.
struct Resize {
  ResizeMode mode{};
  Coordinates coordinates{};
  NearestMode nearest{};
  float cubic_a = -0.75f;
  bool exclude_outside = false, antialias = false;
  float extrapolation_value = 0;
  Ints axes;                           // empty: all
  std::int64_t keep_aspect_ratio = 0;  // 0 stretch, 1 not_larger, 2 not_smaller
  FOLD8_OP("resize",
           FOLD8_FIELD(mode) FOLD8_FIELD(coordinates) FOLD8_FIELD(nearest) FOLD8_FIELD(cubic_a)
               FOLD8_FIELD(exclude_outside) FOLD8_FIELD(antialias) FOLD8_FIELD(extrapolation_value)
                   FOLD8_FIELD(axes) FOLD8_FIELD(keep_aspect_ratio))
};

// ----------------------------------------------------------------------------------------------
// normalization

// ONNX BatchNormalization. inputs x, gamma, beta, mean, var (all [C]); outputs y, running_mean?,
// running_var? (training only). `momentum` is ONNX's: running = running * momentum + batch * (1 -
// momentum).
struct BatchNorm {
  float epsilon = 1e-5f, momentum = 0.9f;
  bool training = false;
  FOLD8_OP("batch_norm", FOLD8_FIELD(epsilon) FOLD8_FIELD(momentum) FOLD8_FIELD(training))
};

// layer: over the axes from `axis` to the last. rms: the same, no centring. group: x [N, C, ..],
// `groups` groups, gamma and beta [C] (or [groups] if affine_per_group). instance: group with
// groups == C. inputs x, gamma?, beta?, residual? (added to x first; f32, like x),
//   multiplier? [D], offset? [D] (x s32: value = fma(f32(acc), multiplier, offset)), row_scale?
//   (s32 of per-token rows);
// outputs y (f32, or u8 with params, or u8 per token), sum? (x + residual), scale? f32 [..., 1] (y
// u8 per token). Statistics are FP32, always.
enum class NormKind : std::uint8_t { layer, rms, group, instance };
struct Norm {
  NormKind kind{};
  std::int64_t axis = -1;  // layer, rms: first normalized axis; -1: the last
  float epsilon = 1e-5f;
  std::int64_t groups = 0;
  bool affine_per_group = false;
  FOLD8_OP("norm", FOLD8_FIELD(kind) FOLD8_FIELD(axis) FOLD8_FIELD(epsilon) FOLD8_FIELD(groups)
                       FOLD8_FIELD(affine_per_group))
};

struct Lrn {
  float alpha = 1e-4f, beta = 0.75f, bias = 1;
  std::int64_t size = 1;
  FOLD8_OP("lrn", FOLD8_FIELD(alpha) FOLD8_FIELD(beta) FOLD8_FIELD(bias) FOLD8_FIELD(size))
};

struct Softmax {
  std::int64_t axis = -1;
  bool log = false;
  bool flatten = false;  // opset < 13: everything from `axis` on is one row
  FOLD8_OP("softmax", FOLD8_FIELD(axis) FOLD8_FIELD(log) FOLD8_FIELD(flatten))
};

// ----------------------------------------------------------------------------------------------
// attention

// y = softmax(scale * q k^T + mask) v for every query head (ONNX Attention-23; kernels/attention.h
// has the equation). Head h of q reads head h / (heads / kv_heads) of k and v. inputs q, k, v,
// mask?, past_k?, past_v?; outputs y, present_k?, present_v?. Heads lie in one of two ways: *_rows
// false: [B, heads, S, D]; true: [B, S, width], head h from column offset + h * D on, so that q, k
// and v may be parts of one tensor. mask: f32, added, or bool, false hides; broadcasts to [B,
// heads, S, T] from the right. past_k, past_v [B, kv_heads, P, D] stand in front of k and v;
// present_* are both together. With causal, query i sees the keys up to P + i. softcap > 0: scores
// s become softcap * tanh(s / softcap). int8: both products in INT8, q, k and v rounded per token
// and head; else f32.
struct Attention {
  std::int64_t heads = 1, kv_heads = 1;
  std::int64_t depth = 0, value_depth = 0;  // D of q and k, of v and y
  float scale = 1, softcap = 0;
  bool causal = false, int8 = false;
  bool q_rows = false, k_rows = false, v_rows = false, y_rows = false;
  std::int64_t q_offset = 0, k_offset = 0, v_offset = 0;
  FOLD8_OP("attention",
           FOLD8_FIELD(heads) FOLD8_FIELD(kv_heads) FOLD8_FIELD(depth) FOLD8_FIELD(value_depth)
               FOLD8_FIELD(scale) FOLD8_FIELD(softcap) FOLD8_FIELD(causal) FOLD8_FIELD(int8)
                   FOLD8_FIELD(q_rows) FOLD8_FIELD(k_rows) FOLD8_FIELD(v_rows) FOLD8_FIELD(y_rows)
                       FOLD8_FIELD(q_offset) FOLD8_FIELD(k_offset) FOLD8_FIELD(v_offset))
};

// Rotary position embedding (Su et al. 2021; ONNX RotaryEmbedding-23): pairs (u, w) of the first
// `dims` elements of a head turn by an angle, the others stay:
//   u' = u * cos + (-w) * sin,   w' = w * cos + u * sin        each product and sum rounded
// pairs are (i, i + dims/2), or (2i, 2i + 1) if interleaved. inputs x, cos, sin: [.., S, dims/2] or
// [.., S, dims] (then element i of the result takes cos[i], sin[i]), [S, .] for all of a batch or
// [B, S, .], axes of 1 between. Heads as in Attention: rows false: [B, heads, S, D], true: [B, S,
// heads * D].
struct Rotary {
  std::int64_t heads = 1, depth = 0, dims = 0;
  bool interleaved = false, rows = false;
  FOLD8_OP("rotary", FOLD8_FIELD(heads) FOLD8_FIELD(depth) FOLD8_FIELD(dims)
                         FOLD8_FIELD(interleaved) FOLD8_FIELD(rows))
};

// ----------------------------------------------------------------------------------------------
// reductions

enum class ReduceKind : std::uint8_t {
  sum,
  mean,
  max,
  min,
  prod,
  l1,
  l2,
  sum_square,
  log_sum,
  log_sum_exp
};
// inputs x, axes? s64 (if not in the attribute). Empty axes: all (or none, with
// noop_with_empty_axes).
struct Reduce {
  ReduceKind kind{};
  Ints axes;
  bool keep_dims = true, noop_with_empty_axes = false;
  FOLD8_OP("reduce", FOLD8_FIELD(kind) FOLD8_FIELD(axes) FOLD8_FIELD(keep_dims)
                         FOLD8_FIELD(noop_with_empty_axes))
};

struct ArgReduce {
  bool max = true;
  std::int64_t axis = 0;
  bool keep_dims = true, select_last = false;
  FOLD8_OP("arg_reduce",
           FOLD8_FIELD(max) FOLD8_FIELD(axis) FOLD8_FIELD(keep_dims) FOLD8_FIELD(select_last))
};

struct CumSum {  // inputs x, axis (scalar s32/s64)
  bool exclusive = false, reverse = false;
  FOLD8_OP("cum_sum", FOLD8_FIELD(exclusive) FOLD8_FIELD(reverse))
};

struct TopK {  // inputs x, k s64 [1]; outputs values, indices s64. Ties: lowest index
  std::int64_t axis = -1;
  bool largest = true, sorted = true;
  FOLD8_OP("top_k", FOLD8_FIELD(axis) FOLD8_FIELD(largest) FOLD8_FIELD(sorted))
};

// ----------------------------------------------------------------------------------------------
// shapes and data movement

struct Reshape {  // inputs x, shape s64
  bool allow_zero = false;
  FOLD8_OP("reshape", FOLD8_FIELD(allow_zero))
};
struct Flatten {
  std::int64_t axis = 1;
  FOLD8_OP("flatten", FOLD8_FIELD(axis))
};
struct Squeeze {
  Ints axes;
  FOLD8_OP("squeeze", FOLD8_FIELD(axes))
};  // empty: every extent of 1
struct Unsqueeze {
  Ints axes;
  FOLD8_OP("unsqueeze", FOLD8_FIELD(axes))
};  // axes of the result
struct Transpose {
  Ints perm;
  FOLD8_OP("transpose", FOLD8_FIELD(perm))
};  // empty: reversed
struct Concat {
  std::int64_t axis = 0;
  FOLD8_OP("concat", FOLD8_FIELD(axis))
};
struct Split {  // inputs x, sizes? s64; outputs any number
  std::int64_t axis = 0;
  Ints sizes;  // empty: from the input, or equal parts (the last smaller)
  FOLD8_OP("split", FOLD8_FIELD(axis) FOLD8_FIELD(sizes))
};
struct Slice {
  FOLD8_OP("slice")
};            // inputs x, starts, ends, axes?, steps?
struct Pad {  // inputs x, pads s64, value?, axes?
  enum class Mode : std::uint8_t { constant, reflect, edge, wrap };
  Mode mode{};
  FOLD8_OP("pad", FOLD8_FIELD(mode))
};
struct Expand {
  FOLD8_OP("expand")
};  // inputs x, shape s64
struct Tile {
  FOLD8_OP("tile")
};  // inputs x, repeats s64
struct Gather {
  std::int64_t axis = 0;
  FOLD8_OP("gather", FOLD8_FIELD(axis))
};  // inputs x, indices; s8 x with a scale per row of axis 0: y f32
struct GatherElements {
  std::int64_t axis = 0;
  FOLD8_OP("gather_elements", FOLD8_FIELD(axis))
};
struct GatherND {
  std::int64_t batch_dims = 0;
  FOLD8_OP("gather_nd", FOLD8_FIELD(batch_dims))
};
enum class ScatterReduction : std::uint8_t { none, add, mul, min, max };
struct ScatterElements {
  std::int64_t axis = 0;
  ScatterReduction reduction{};
  FOLD8_OP("scatter_elements", FOLD8_FIELD(axis) FOLD8_FIELD(reduction))
};
struct ScatterND {
  ScatterReduction reduction{};
  FOLD8_OP("scatter_nd", FOLD8_FIELD(reduction))
};
struct DepthToSpace {
  std::int64_t block = 1;
  bool crd = false;
  FOLD8_OP("depth_to_space", FOLD8_FIELD(block) FOLD8_FIELD(crd))
};
struct SpaceToDepth {
  std::int64_t block = 1;
  FOLD8_OP("space_to_depth", FOLD8_FIELD(block))
};
struct Trilu {
  bool upper = true;
  FOLD8_OP("trilu", FOLD8_FIELD(upper))
};  // inputs x, k?
struct OneHot {
  std::int64_t axis = -1;
  FOLD8_OP("one_hot", FOLD8_FIELD(axis))
};  // inputs indices, depth, values
struct ShapeOf {
  std::int64_t start = 0, end = INT64_MAX;
  FOLD8_OP("shape_of", FOLD8_FIELD(start) FOLD8_FIELD(end))
};
struct SizeOf {
  FOLD8_OP("size_of")
};
struct ConstantOfShape {  // inputs shape s64; fills with `value` of type `dtype` (bit pattern in
                          // the low bytes)
  DType dtype = DType::f32;
  std::int64_t bits = 0;
  FOLD8_OP("constant_of_shape", FOLD8_FIELD(dtype) FOLD8_FIELD(bits))
};
struct Range {
  FOLD8_OP("range")
};  // inputs start, limit, delta
struct NonZero {
  FOLD8_OP("non_zero")
};  // output [rank, count]: count is known only after running
struct Einsum {
  std::string equation;
  FOLD8_OP("einsum", FOLD8_FIELD(equation))
};

// ----------------------------------------------------------------------------------------------
// quantization

// q = clamp(round_half_even(x / scale)) + zero_point; the output's type carries constant params.
// inputs x, scale?, zero_point? : operands only where they are not constant (then axis/block_size
// say how they apply).
struct Quantize {
  std::int64_t axis = 1, block_size = 0;
  FOLD8_OP("quantize", FOLD8_FIELD(axis) FOLD8_FIELD(block_size))
};
// y = (q - zero_point) * scale, f32; params from the input's type, or operands as above. s32
// inputs: biases.
struct Dequantize {
  std::int64_t axis = 1, block_size = 0;
  FOLD8_OP("dequantize", FOLD8_FIELD(axis) FOLD8_FIELD(block_size))
};
// per token: outputs q u8@token, scale f32 [..., 1] (numeric contract: s = max(max|x|/127, 2^-126),
// zero point 128); inputs x, factor? f32 [D]: x * factor along the last axis, rounded, takes x's
// place. rotated: then rows of a multiple of 16 elements are transformed by the 4 times orthogonal
// matrix of core/rotation.h; what reads the codes has the inverse in its weights.
// onnx: DynamicQuantizeLinear: outputs q u8, scale f32 [], zero_point u8 [].
struct DynamicQuantize {
  bool onnx = false, rotated = false;
  FOLD8_OP("dynamic_quantize", FOLD8_FIELD(onnx) FOLD8_FIELD(rotated))
};
// y[i] = table[x[i]], x u8 (s8: index q + 128), table u8/s8 [256].
struct Lookup {
  FOLD8_OP("lookup")
};
// Same values, another Layout (the output's type says which).
struct Relayout {
  FOLD8_OP("relayout")
};

// ----------------------------------------------------------------------------------------------
// control flow

// Nested graphs: verified and printed; planned lazily.
struct If {  // inputs condition, then the captured values; outputs as the branches'
  std::shared_ptr<const Graph> then_branch, else_branch;
  FOLD8_OP("if", FOLD8_FIELD(then_branch) FOLD8_FIELD(else_branch))
};
struct Loop {  // inputs trip_count?, condition?, carried.., captured..
  std::shared_ptr<const Graph> body;
  std::int64_t carried = 0;
  FOLD8_OP("loop", FOLD8_FIELD(body) FOLD8_FIELD(carried))
};
struct Scan {
  std::shared_ptr<const Graph> body;
  std::int64_t scan_inputs = 0;
  Ints input_axes, input_directions, output_axes, output_directions;
  FOLD8_OP("scan", FOLD8_FIELD(body) FOLD8_FIELD(scan_inputs) FOLD8_FIELD(input_axes)
                       FOLD8_FIELD(input_directions) FOLD8_FIELD(output_axes)
                           FOLD8_FIELD(output_directions))
};

#undef FOLD8_OP
#undef FOLD8_FIELD

using Op =
    std::variant<Unary, Binary, Where, Affine, Cast, Identity, Linear, MatMul, Conv, Pool, Resize,
                 BatchNorm, Norm, Lrn, Softmax, Reduce, ArgReduce, CumSum, TopK, Reshape, Flatten,
                 Squeeze, Unsqueeze, Transpose, Concat, Split, Slice, Pad, Expand, Tile, Gather,
                 GatherElements, GatherND, ScatterElements, ScatterND, DepthToSpace, SpaceToDepth,
                 Trilu, OneHot, ShapeOf, SizeOf, ConstantOfShape, Range, NonZero, Einsum, Quantize,
                 Dequantize, DynamicQuantize, Lookup, Relayout, If, Loop, Scan, Attention, Rotary>;

// "linear"; for Unary and Binary see also kind_name().
inline std::string_view name(const Op& op) {
  return std::visit([](const auto& o) { return std::decay_t<decltype(o)>::kName; }, op);
}

// What a person reads: "relu", "add", "layer_norm", "max_pool", "conv_transpose", "depthwise_conv"
// ...
std::string display_name(const Op& op);

// f(name, attribute) for every attribute, in order; attributes are bool, float, std::int64_t,
// std::string, Ints, enums of underlying type std::uint8_t (DType among them), or
// std::shared_ptr<const Graph>.
template <class O, class F>
void each_field(O& op, F&& f) {
  std::visit([&](auto& o) { std::decay_t<decltype(o)>::each_field_of(o, f); }, op);
}

// Names of enumerators for text and files; empty / nullopt for unknown ones. Defined for every enum
// above.
std::string_view enum_name(UnaryKind);
std::string_view enum_name(BinaryKind);
std::string_view enum_name(PoolKind);
std::string_view enum_name(NormKind);
std::string_view enum_name(ReduceKind);
std::string_view enum_name(Activation);

// The default-constructed operator of that name; nullptr-like nullopt if there is none.
std::optional<Op> op_from_name(std::string_view name);

// Attributes equal, names equal. (Nested graphs compare by identity.)
bool equal(const Op& a, const Op& b);

// clang-format on

}  // namespace fold8::graph
