// Constants of equal type and equal bytes are kept once: folding and transposing make a copy for
// each layer, and layers that shared a weight share the result again. Names that the graph returns
// stay.
#include <cstring>
#include <unordered_map>

#include "fusion/passes/passes.h"
#include "runtime/format/layout.h"

namespace fold8::fusion {

using graph::Graph;
using graph::Value;
using graph::ValueId;

namespace {

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
    const Buffer& data = *g.value(v).constant;
    // Only a filter: equality is checked on the bytes.
    const std::uint64_t hash = format::checksum(data.data(), data.size());
    std::vector<ValueId>& same_hash = kept[hash];
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
