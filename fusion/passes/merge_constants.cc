// Constants of equal type and equal bytes are kept once: folding and transposing make a copy for
// each layer, and layers that shared a weight share the result again. Names that the graph returns
// stay.
#include <cstring>
#include <unordered_map>

#include "fusion/passes/passes.h"

namespace fold8::fusion {

using graph::Graph;
using graph::Value;
using graph::ValueId;

namespace {

// FNV-1a over 8 bytes at a time: only a filter, equality is checked on the bytes.
std::uint64_t hash(const Buffer& buffer) {
  std::uint64_t h = 14695981039346656037ull;
  std::size_t i = 0;
  for (; i + 8 <= buffer.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, buffer.data() + i, 8);
    h = (h ^ word) * 1099511628211ull;
    h ^= h >> 29;
  }
  for (; i < buffer.size(); ++i)
    h = (h ^ static_cast<std::uint64_t>(buffer.data()[i])) * 1099511628211ull;
  return h;
}

bool equal(const Value& a, const Value& b) {
  return a.type == b.type && a.rescale == b.rescale && a.rescale_axis == b.rescale_axis &&
         a.constant->size() == b.constant->size() &&
         (a.constant->data() == b.constant->data() ||
          std::memcmp(a.constant->data(), b.constant->data(), a.constant->size()) == 0);
}

Result<Tally> run(Graph& g, const Context&) {
  Tally tally;
  std::unordered_map<std::uint64_t, std::vector<ValueId>> kept;
  const auto readers = g.consumers();
  for (ValueId v = 0; v < g.value_count(); ++v) {
    if (!g.is_constant(v) || g.is_output(v) || g.is_input(v) ||
        readers[static_cast<std::size_t>(v)].empty())
      continue;
    std::vector<ValueId>& same_hash = kept[hash(*g.value(v).constant)];
    ValueId twin = graph::kNoValue;
    for (const ValueId other : same_hash)
      if (equal(g.value(v), g.value(other))) twin = other;
    if (twin == graph::kNoValue) {
      same_hash.push_back(v);
      continue;
    }
    g.replace_uses(v, twin);
    ++tally.applied;
  }
  return tally;
}

}  // namespace

const GraphPass merge_constants{"merge_constants", run};

}  // namespace fold8::fusion
