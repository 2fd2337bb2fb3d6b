// One operator of a model, cut out so that it can be run from the reference's float tensors ("own"
// error).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/exec/session.h"
#include "runtime/graph/graph.h"

namespace fold8::quant {

class SingleLayer {
 public:
  // The node with the Quantize, DynamicQuantize and Relayout in front of it. `known` says whether
  // the reference has a float tensor of that name. Fails, with the reason, where an operand cannot
  // be traced to one.
  static Result<SingleLayer> cut(const graph::Graph& g, graph::NodeId node,
                                 const std::vector<graph::NodeId>& producers,
                                 const std::function<bool(const std::string&)>& known, int threads);

  // Names of the reference's tensors it reads, in the order of run().
  const std::vector<std::string>& reads() const { return reads_; }
  // The layer's result as real numbers.
  Result<std::vector<float>> run(const std::vector<TensorView>& inputs);

 private:
  SingleLayer() = default;
  std::vector<std::string> reads_;
  TensorType output_type_;
  std::unique_ptr<exec::Session> session_;
};

}  // namespace fold8::quant
