// One operator of a model, cut out so that it can be run from the reference's float tensors ("own"
// error).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/exec/session.h"
#include "runtime/graph/graph.h"

namespace fold8::quant {

class SingleLayer {
 public:
  struct Options {
    int threads = 1;
    // The result as the kernel has it before its rounding to codes, which belongs to whoever reads
    // them: a float reader would get it so.
    bool unrounded = false;
  };
  // The node with the Quantize, DynamicQuantize and Relayout in front of it. `known` says whether
  // the reference has a float tensor of that name. Fails, with the reason, where an operand cannot
  // be traced to one.
  static Result<SingleLayer> cut(const graph::Graph& g, graph::NodeId node,
                                 const std::vector<graph::NodeId>& producers,
                                 const std::function<bool(const std::string&)>& known,
                                 const Options& options);

  // Names of the reference's tensors it reads, in the order of run().
  const std::vector<std::string>& reads() const { return reads_; }
  // Results of the node that the reference has too; the first one is the layer's.
  const std::vector<graph::ValueId>& writes() const { return writes_; }
  // The layer's result as real numbers.
  Result<std::vector<float>> run(const std::vector<TensorView>& inputs);
  // All of writes().
  Result<std::vector<std::vector<float>>> run_all(const std::vector<TensorView>& inputs);

 private:
  SingleLayer() = default;
  std::vector<std::string> reads_;
  std::vector<graph::ValueId> writes_;
  TensorType output_type_;
  bool has_row_scales_ = false;
  std::unique_ptr<exec::Session> session_;
};

}  // namespace fold8::quant
