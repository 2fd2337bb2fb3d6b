#include "runtime/ops/quant_operands.h"

namespace fold8::ops {

Result<QuantSource> QuantSource::make(const PrepareContext& c, const TensorType& stored,
                                      std::int64_t axis, std::int64_t block) {
  QuantSource s;
  const int rank = stored.shape.rank();
  bool per_tensor;
  if (c.has(1)) {
    s.layout_.scales = count(c.type(1));
    per_tensor = s.layout_.scales == 1 && block == 0;
    if (c.has(2)) s.zero_dtype_ = c.type(2).dtype;
  } else if (stored.quant && stored.quant->granularity() != Granularity::per_token) {
    const QuantParams& q = *stored.quant;
    s.scales_.assign(q.scales().begin(), q.scales().end());
    s.zeros_.assign(q.zero_points().begin(), q.zero_points().end());
    s.layout_.scales = s.scales_.size();
    per_tensor = q.is_per_tensor();
    axis = q.axis();
    block = q.granularity() == Granularity::per_group ? q.group() : 0;
  } else {
    return unsupported("quantization parameters of " + describe(stored) +
                       " are neither in its type nor operands");
  }
  if (per_tensor) {
    s.layout_.box.inner = count(stored);
    return s;
  }
  FOLD8_TRY(const int a, checked_axis(axis, rank));
  s.layout_.box = channel_box(stored, a);
  s.layout_.block = block;
  const ChannelBox& b = s.layout_.box;
  const auto blocks = block > 0 ? (b.channels + static_cast<std::size_t>(block) - 1) /
                                      static_cast<std::size_t>(block)
                                : 0;
  const std::size_t want = block > 0 ? b.outer * blocks * b.inner : b.channels;
  if (s.layout_.scales != want)
    return invalid_model(std::to_string(s.layout_.scales) + " scales are given for " +
                         describe(stored) + ", expected " + std::to_string(want));
  return s;
}

const float* QuantSource::scales(const RunContext& run) const {
  return scales_.empty() ? in<float>(run, 1) : scales_.data();
}

const std::int32_t* QuantSource::zero_points(const RunContext& run, std::int32_t* scratch) const {
  if (!zero_dtype_) return zeros_.empty() ? nullptr : zeros_.data();
  with_number_type(*zero_dtype_, [&]<class T>() {
    for (std::size_t i = 0; i < layout_.scales; ++i)
      scratch[i] = static_cast<std::int32_t>(in<T>(run, 2)[i]);
  });
  return scratch;
}

}  // namespace fold8::ops
