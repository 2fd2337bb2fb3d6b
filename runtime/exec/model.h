// A model ready to run: immutable, shared by threads and sessions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/graph/graph.h"
#include "runtime/kernels/kernel_table.h"

namespace fold8::exec {

enum class Verify { header, full };  // full also reads every byte of the weights

class Model {
 public:
  // Maps a .f8 file read-only; weights are used as they lie.
  static Result<std::shared_ptr<const Model>> load(const std::string& path,
                                                   Verify verify = Verify::header);
  // A graph in memory (calibration, tests, reports): must verify() and be packed as emit does (or
  // wholly plain: operators accept plain weights too and pack them in prepare()).
  static Result<std::shared_ptr<const Model>> from_graph(graph::Graph g);

  const graph::Graph& graph() const { return graph_; }
  const kernels::Target& target() const { return *target_; }
  // Live nodes in execution order.
  const std::vector<graph::NodeId>& order() const { return order_; }
  std::size_t file_bytes() const { return file_bytes_; }

 private:
  Model() = default;
  // The graph has passed graph::verify(); the bodies of If, Loop and Scan have not.
  static Result<std::shared_ptr<const Model>> make(graph::Graph g, std::size_t file_bytes);
  graph::Graph graph_;
  const kernels::Target* target_ = nullptr;
  std::vector<graph::NodeId> order_;
  std::size_t file_bytes_ = 0;
};

// Fills the types of all values that have none (and refines shapes) from the graph's inputs,
// symbolically. Errors name node and operand. Idempotent.
Status infer_types(graph::Graph& g);

}  // namespace fold8::exec
