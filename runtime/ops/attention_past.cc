#include "runtime/ops/attention_past.h"

namespace fold8::ops {
namespace attention {

Cache make_cache(const PrepareContext& c, std::size_t input, std::size_t past, std::size_t present,
                 const Heads& heads) {
  Cache cache;
  const Shape& x = c.type(input).shape;
  cache.own = heads.strides(x);
  cache.past = c.has(past) ? static_cast<std::size_t>(c.type(past).shape.extent(2)) : 0;
  cache.fresh = static_cast<std::size_t>(heads.tokens(x).value());
  cache.depth = static_cast<std::size_t>(heads.depth);
  cache.batches = static_cast<std::size_t>(x.extent(0));
  cache.heads = static_cast<std::size_t>(heads.heads);
  cache.gathers = c.has(past) || c.wants(present);
  cache.in_scratch = cache.gathers && !c.wants(present);
  const std::size_t all = cache.past + cache.fresh;
  cache.gathered = cache.gathers ? HeadStrides{0, cache.heads * all * cache.depth,
                                               all * cache.depth, cache.depth}
                                 : cache.own;
  return cache;
}

namespace {

// Fresh rows behind the past, which stays where it is.
Rows append(const Cache& cache, const AppendPlace& place, const float* fresh) {
  const std::size_t head = place.capacity * cache.depth;
  auto* to = reinterpret_cast<float*>(place.rows);
  for (std::size_t b = 0; b < cache.batches; ++b)
    for (std::size_t h = 0; h < cache.heads; ++h) {
      const float* x = fresh + b * cache.own.batch + h * cache.own.head;
      float* y = to + (b * cache.heads + h) * head + cache.past * cache.depth;
      for (std::size_t t = 0; t < cache.fresh; ++t)
        std::memcpy(y + t * cache.depth, x + t * cache.own.token, cache.depth * sizeof(float));
    }
  return {to, cache.heads * head, head};
}

}  // namespace

Rows gather(const Cache& cache, const RunContext& run, std::size_t input, std::size_t past,
            std::size_t present) {
  const float* fresh = in<float>(run, input) + cache.own.first;
  if (!cache.gathers) return {fresh, cache.own.batch, cache.own.head};
  const std::size_t place = present - kPresentK;
  if (place < run.appended.size() && run.appended[place].rows != nullptr)
    return append(cache, run.appended[place], fresh);
  float* to = cache.in_scratch ? reinterpret_cast<float*>(run.scratch + cache.scratch_at)
                               : out<float>(run, present);
  const float* before = cache.past > 0 ? in<float>(run, past) : nullptr;
  const std::size_t row = cache.depth * sizeof(float);
  for (std::size_t b = 0; b < cache.batches; ++b)
    for (std::size_t h = 0; h < cache.heads; ++h) {
      float* y = to + b * cache.gathered.batch + h * cache.gathered.head;
      if (cache.past > 0) {
        std::memcpy(y, before + (b * cache.heads + h) * cache.past * cache.depth, cache.past * row);
        y += cache.past * cache.depth;
      }
      const float* x = fresh + b * cache.own.batch + h * cache.own.head;
      for (std::size_t t = 0; t < cache.fresh; ++t)
        std::memcpy(y + t * cache.depth, x + t * cache.own.token, row);
    }
  return {to, cache.gathered.batch, cache.gathered.head};
}

}  // namespace attention

KeptVector<Append> appends(const graph::Op& op, int rank) {
  if (const auto* concat = std::get_if<graph::Concat>(&op)) {
    const auto axis = normalize_axis(concat->axis, rank);
    return axis ? KeptVector<Append>{{0, 0, *axis, false}} : KeptVector<Append>{};
  }
  if (!std::holds_alternative<graph::Attention>(op)) return {};
  return {{attention::kPastK, attention::kPresentK, 2, true},
          {attention::kPastV, attention::kPresentV, 2, true}};
}

std::size_t append_bytes(const graph::Op& op, std::size_t i, const Shape& output,
                         std::int64_t capacity) {
  const auto* a = std::get_if<graph::Attention>(&op);
  if (a == nullptr) return 0;
  const std::size_t block =
      i == 0
          ? kernels::attention_key_block_bytes(static_cast<std::size_t>(a->depth), a->int8)
          : kernels::attention_value_block_bytes(static_cast<std::size_t>(a->value_depth), a->int8);
  return static_cast<std::size_t>(output.count(0, 2)) *
         attention::blocks_of(static_cast<std::size_t>(capacity)) * block;
}

}  // namespace fold8::ops
