// Weights in INT8 that attempts share: most of them are the same from one attempt to the next, and
// are quantized and packed once.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "quant/quantize_weights.h"
#include "runtime/core/result.h"
#include "runtime/graph/graph.h"

namespace fold8::fusion {

class WeightCache {
 public:
  // A float weight and how it is quantized (quant::quantize_weight(), quantize_weight_groups()).
  struct Key {
    const Buffer* weight = nullptr;
    int axis = 0;
    std::int64_t groups = 1;
    quant::WeightGranularity granularity = quant::WeightGranularity::per_channel;
    std::int64_t group = 0;  // of inputs; 0: none
    bool rotated = false;    // quant::rotated_weights() first
    auto operator<=>(const Key&) const = default;
  };
  // A constant: codes, or packed ones.
  struct Made {
    TensorType type;
    std::shared_ptr<const Buffer> data;
  };

  const Made* codes(const Key& key);
  void add_codes(const Key& key, std::shared_ptr<const Buffer> weight, Made made);
  // Of codes, for an operator of this geometry.
  const Made* packed(const Buffer* codes, const graph::Op& geometry);
  void add_packed(std::shared_ptr<const Buffer> codes, graph::Op geometry, Made made);

  // Behind an attempt: what it did not use is dropped.
  void end_attempt();

 private:
  // What an entry was made from is kept, so that its address means nothing else.
  struct Codes {
    std::shared_ptr<const Buffer> from;
    Made made;
    bool used = true;
  };
  struct Packed {
    std::shared_ptr<const Buffer> from;
    graph::Op geometry;
    Made made;
    bool used = true;
  };
  std::map<Key, Codes> codes_;
  std::map<const Buffer*, std::vector<Packed>> packed_;
};

// Codes as a constant of that shape.
WeightCache::Made s8_constant(const quant::QuantizedWeight& q, const Shape& shape);

// The codes of a plain f32 constant, of the cache or made now, and remembered if there is one (it
// may be null).
Result<WeightCache::Made> cached_codes(WeightCache* cache, const WeightCache::Key& key,
                                       const graph::Value& weight);

}  // namespace fold8::fusion
