// FlatBuffers tables (model.fbs), already verified by flatbuffers::Verifier, as a graph. Internal
// to runtime/format.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <vector>

#include "runtime/core/result.h"
#include "runtime/format/model_generated.h"
#include "runtime/graph/graph.h"

namespace fold8::format {

// Bytes that may still be decoded. A genuine file stores each string and vector once; a hostile one
// points to the same large one a million times.
class Budget {
 public:
  explicit Budget(std::size_t bytes) : left_(bytes) {}
  Status take(std::size_t bytes);

 private:
  std::size_t left_;
};

struct ReadContext {
  const std::vector<std::shared_ptr<const Buffer>>& tensors;
  Budget& budget;
};

Result<graph::Graph> read_graph(const fb::Graph& table, const ReadContext& context, int depth = 0);

}  // namespace fold8::format
