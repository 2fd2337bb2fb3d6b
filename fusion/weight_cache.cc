#include "fusion/weight_cache.h"

#include <cstring>

#include "quant/rotate.h"

namespace fold8::fusion {

const WeightCache::Made* WeightCache::codes(const Key& key) {
  const auto it = codes_.find(key);
  if (it == codes_.end()) return nullptr;
  it->second.used = true;
  return &it->second.made;
}

void WeightCache::add_codes(const Key& key, std::shared_ptr<const Buffer> weight, Made made) {
  codes_.insert_or_assign(key, Codes{std::move(weight), std::move(made)});
}

const WeightCache::Made* WeightCache::packed(const Buffer* codes, const graph::Op& geometry) {
  const auto it = packed_.find(codes);
  if (it == packed_.end()) return nullptr;
  for (Packed& p : it->second)
    if (graph::equal(p.geometry, geometry)) {
      p.used = true;
      return &p.made;
    }
  return nullptr;
}

void WeightCache::add_packed(std::shared_ptr<const Buffer> codes, graph::Op geometry, Made made) {
  const Buffer* key = codes.get();
  packed_[key].push_back({std::move(codes), std::move(geometry), std::move(made)});
}

void WeightCache::end_attempt() {
  std::erase_if(codes_, [](const auto& entry) { return !entry.second.used; });
  for (auto& [key, made] : codes_) made.used = false;
  for (auto& [key, list] : packed_) {
    std::erase_if(list, [](const Packed& p) { return !p.used; });
    for (Packed& p : list) p.used = false;
  }
  std::erase_if(packed_, [](const auto& entry) { return entry.second.empty(); });
}

WeightCache::Made s8_constant(const quant::QuantizedWeight& q, const Shape& shape) {
  auto bytes = Buffer::allocate(q.codes.size());
  std::memcpy(bytes->mutable_data(), q.codes.data(), q.codes.size());
  return {TensorType{DType::s8, shape, q.params, Layout::plain}, std::move(bytes)};
}

Result<WeightCache::Made> cached_codes(WeightCache* cache, const WeightCache::Key& key,
                                       const graph::Value& weight) {
  if (cache != nullptr)
    if (const WeightCache::Made* known = cache->codes(key)) return *known;
  std::span<const float> values(reinterpret_cast<const float*>(weight.constant->data()),
                                weight.constant->size() / sizeof(float));
  const Shape& shape = weight.type.shape;
  std::vector<float> turned;
  if (key.rotated) {
    turned = quant::rotated_weights(values, static_cast<std::size_t>(shape.back().value()));
    values = turned;
  }
  FOLD8_TRY(const quant::QuantizedWeight q,
            key.group > 0
                ? quant::quantize_weight_groups(values, shape, key.group)
                : quant::quantize_weight(values, shape, key.axis, key.granularity, key.groups));
  WeightCache::Made made = s8_constant(q, shape);
  if (cache != nullptr) cache->add_codes(key, weight.constant, made);
  return made;
}

}  // namespace fold8::fusion
