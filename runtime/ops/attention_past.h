// Keys and values of attention, past and fresh: gathered in one place, or appended where the past
// lies.
#pragma once

#include "runtime/kernels/attention.h"
#include "runtime/ops/heads.h"

namespace fold8::ops::attention {

enum Input : std::size_t { kQ, kK, kV, kMask, kPastK, kPastV, kInputs };
enum Output : std::size_t { kY, kPresentK, kPresentV, kOutputs };

// Keys or values: where they come from, and, with a past or a wanted present, where they are
// gathered first.
struct Cache {
  HeadStrides own, gathered;
  std::size_t past = 0, fresh = 0, depth = 0, batches = 0, heads = 0;
  bool gathers = false, in_scratch = false;
  std::size_t scratch_at = 0;

  std::size_t bytes() const {
    return in_scratch
               ? round_up(batches * heads * (past + fresh) * depth * sizeof(float), kAlignment)
               : 0;
  }
};

Cache make_cache(const PrepareContext& c, std::size_t input, std::size_t past, std::size_t present,
                 const Heads& heads);

// Where rows of head 0 of batch 0 begin, and how far it is to the next.
struct Rows {
  const float* first;
  std::size_t batch, head;
  const float* of(std::size_t unit, std::size_t heads) const {
    return first + unit / heads * batch + unit % heads * head;
  }
};

// Past and fresh rows in one place; fresh ones only, where the past is in it already.
Rows gather(const Cache& cache, const RunContext& run, std::size_t input, std::size_t past,
            std::size_t present);

// Keys and values that were packed when they came.
struct Packed {
  const AppendPlace *k = nullptr, *v = nullptr;  // null: they are packed in every run
  std::size_t key_bytes = 0, value_bytes = 0;    // of the blocks of one head

  std::byte* keys(std::size_t unit) const { return k->made + unit * key_bytes; }
  std::byte* values(std::size_t unit) const { return v->made + unit * value_bytes; }
};

constexpr std::size_t blocks_of(std::size_t keys) {
  return (keys + kernels::kAttentionKeys - 1) / kernels::kAttentionKeys;
}

}  // namespace fold8::ops::attention
