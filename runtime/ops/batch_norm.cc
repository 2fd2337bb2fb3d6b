// ONNX BatchNormalization. Inference: one multiply-add a channel, its two numbers computed in
// double and rounded once. Training: statistics of the batch (norm.h, across_batch) and updated
// running ones.
#include "runtime/kernels/norm.h"

#include <cmath>

#include "runtime/ops/channel_affine.h"
#include "runtime/ops/each_op.h"

namespace fold8::ops {
namespace {

// m = gamma / sqrt(var + epsilon), b = beta - mean * m, in double; stored as f32.
void fold(const float* const p[4], std::size_t channels, float epsilon, float* m, float* b) {
  for (std::size_t i = 0; i < channels; ++i) {
    const double s = static_cast<double>(p[0][i]) /
                     std::sqrt(static_cast<double>(p[3][i]) + static_cast<double>(epsilon));
    const double shift = static_cast<double>(p[2][i]) * s;
    m[i] = static_cast<float>(s);
    b[i] = static_cast<float>(static_cast<double>(p[1][i]) - shift);
  }
}

Result<StepPtr> prepare_training(const graph::BatchNorm& op, const PrepareContext& c) {
  const TensorType& x = c.type(0);
  kernels::NormChannelsArgs args;
  args.n = static_cast<std::size_t>(x.shape.extent(0));
  args.channels = static_cast<std::size_t>(x.shape.extent(1));
  args.spatial = static_cast<std::size_t>(x.shape.count(2, x.shape.rank()));
  args.groups = args.channels;
  args.across_batch = true;
  args.channels_last = x.layout == Layout::channels_last && x.shape.rank() >= 3;
  args.epsilon = op.epsilon;
  if (c.out(0).dtype != DType::f32)
    return unsupported("a training-mode batch norm that yields " + describe(c.out(0)));
  if (count(x) == 0) return make_step([](const RunContext&) { return ok_status(); });
  const std::size_t line = round_up(args.channels * sizeof(float), kAlignment);
  return make_step(
      [args, line, momentum = op.momentum,
       kernel = c.kernels->norm_channels](const RunContext& run) {
        kernels::NormChannelsArgs a = args;
        auto* mean = reinterpret_cast<float*>(run.scratch);
        auto* variance = reinterpret_cast<float*>(run.scratch + line);
        a.x = in<float>(run, 0);
        a.gamma = in<float>(run, 1);
        a.beta = in<float>(run, 2);
        a.y = out<float>(run, 0);
        a.mean_out = mean;
        a.variance_out = variance;
        a.scratch = reinterpret_cast<float*>(run.scratch + 2 * line);
        kernel(a);
        for (std::size_t o : {1, 2}) {
          if (o >= run.outputs.size() || run.outputs[o] == nullptr) continue;
          const float* batch = o == 1 ? mean : variance;
          for (std::size_t i = 0; i < a.channels; ++i)
            out<float>(run, o)[i] =
                std::fma(in<float>(run, o + 2)[i], momentum, batch[i] * (1.0f - momentum));
        }
        return ok_status();
      },
      2 * line + round_up(3 * args.channels * sizeof(float), kAlignment));
}

}  // namespace

Status infer_op(const graph::BatchNorm& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 5, 5, op.training ? 3 : 1));
  const Shape& x = c.shape(0);
  if (x.rank() < 2) return bad_input(c, 0, "rank 2 or more");
  if (!c.type(0).quant) FOLD8_CHECK_OK(expect_dtype(c, 0, {DType::f32}));
  for (std::size_t i = 1; i < 5; ++i) {
    FOLD8_CHECK_OK(expect_dtype(c, i, {DType::f32}));
    if (c.shape(i).rank() != 1 || differ(x[1], c.shape(i)[0]))
      return bad_input(c, i,
                       x[1].known() ? "[" + std::to_string(x[1].value()) + "], one a channel"
                                    : "rank 1, one element a channel");
  }
  c.set(0, DType::f32, x);
  c.set(1, DType::f32, c.shape(3));
  c.set(2, DType::f32, c.shape(4));
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::BatchNorm& op, const PrepareContext& c) {
  if (op.training) return prepare_training(op, c);
  const ChannelAffine affine = channel_affine(c, 1);
  const std::size_t channels = affine.args.channels;
  bool constant = true;
  for (std::size_t i = 1; i < 5; ++i) constant &= c.inputs[i].constant != nullptr;
  if (constant) {
    const float* p[4];
    for (std::size_t i = 0; i < 4; ++i) p[i] = static_cast<const float*>(c.inputs[i + 1].constant);
    std::vector<float> m(channels), b(channels);
    fold(p, channels, op.epsilon, m.data(), b.data());
    return make_step([affine, m = std::move(m), b = std::move(b)](const RunContext& run) {
      affine.run(run, m.data(), b.data());
      return ok_status();
    });
  }
  const std::size_t line = round_up(channels * sizeof(float), kAlignment);
  return make_step(
      [affine, line, channels, epsilon = op.epsilon](const RunContext& run) {
        const float* p[4] = {in<float>(run, 1), in<float>(run, 2), in<float>(run, 3),
                             in<float>(run, 4)};
        auto* m = reinterpret_cast<float*>(run.scratch);
        auto* b = reinterpret_cast<float*>(run.scratch + line);
        fold(p, channels, epsilon, m, b);
        affine.run(run, m, b);
        return ok_status();
      },
      2 * line);
}

}  // namespace fold8::ops
