// A graph as FlatBuffers tables (model.fbs). Internal to runtime/format.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <unordered_map>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/format/model_generated.h"
#include "runtime/graph/graph.h"

namespace fold8::format {

// Constants in the order of first use; equal bytes are kept once.
class TensorPool {
 public:
  std::int32_t add(const std::shared_ptr<const Buffer>& data);  // index into Model.tensors
  struct Entry {
    std::shared_ptr<const Buffer> data;
    std::uint64_t checksum = 0;
  };
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
  std::unordered_map<const Buffer*, std::int32_t> by_identity_;
  std::unordered_multimap<std::uint64_t, std::int32_t> by_checksum_;
};

Result<flatbuffers::Offset<fb::Graph>> write_graph(flatbuffers::FlatBufferBuilder& builder,
                                                   const graph::Graph& g, TensorPool& pool,
                                                   int depth = 0);

}  // namespace fold8::format
