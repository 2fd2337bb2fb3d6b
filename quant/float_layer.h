// One layer of a model with the reference's float arithmetic in its place, run from what the model
// computes around it ("gain").
#pragma once

#include <memory>
#include <vector>

#include "runtime/exec/session.h"
#include "runtime/graph/graph.h"

namespace fold8::quant {

class FloatLayer {
 public:
  struct Options {
    int threads = 1;
    // Operands that the model rounds for its INT8 layer are taken before that: a float layer reads
    // the sums of the layer in front, not their codes. false: the codes, dequantized.
    bool unrounded = true;
  };
  // The reference's operators that lead to what `node` of `other` writes, from the nearest tensors
  // that both models have. Fails, with the reason, where there is no such way.
  static Result<FloatLayer> cut(const graph::Graph& reference, const graph::Graph& other,
                                graph::NodeId node, const Options& options);

  // Values of `other` it reads, as they are stored there, in the order of run().
  const std::vector<graph::ValueId>& reads() const { return reads_; }
  // Results of the node that the reference has too (in `other`); the first one is the layer's.
  const std::vector<graph::ValueId>& writes() const { return writes_; }
  // The original (not rescaled) real numbers of each of writes().
  Result<std::vector<std::vector<float>>> run(const std::vector<TensorView>& inputs);

 private:
  FloatLayer() = default;
  std::vector<graph::ValueId> reads_, writes_;
  std::unique_ptr<exec::Session> session_;
};

}  // namespace fold8::quant
