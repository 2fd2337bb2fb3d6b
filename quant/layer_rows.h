// The rows x that a layer with constant weights multiplies: y = W x + b at every position. Of a
// linear layer they lie in memory as they are; of a convolution they are patches of its input.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "runtime/core/shape.h"
#include "runtime/core/tensor.h"
#include "runtime/graph/ops.h"

namespace fold8::quant {

struct LayerRows {
  std::string tensor;               // what the layer reads
  std::size_t width = 0;            // of a row, padding included; of each group's rows
  std::size_t groups = 1;           // a group of a convolution has rows of its own
  std::optional<graph::Conv> conv;  // none: rows are the last axis
  Shape weight;                     // of conv: [outputs, channels of a group, kernel..]
};

LayerRows rows_of_linear(std::string tensor, std::size_t width);
// nullopt for transposed convolutions: their outputs read a different set of taps each.
std::optional<LayerRows> rows_of_conv(std::string tensor, const graph::Conv& conv,
                                      const Shape& weight);
// True if two layers read the same rows.
bool same_rows(const LayerRows& a, const LayerRows& b);

// Rows of one tensor on one sample.
class RowReader {
 public:
  virtual ~RowReader() = default;
  virtual std::size_t count() const = 0;  // of each group
  // into: [width]; of a convolution [channels of the group, taps], padding as zeros.
  virtual void copy(std::size_t row, std::size_t group, std::span<float> into) const = 0;
};

// Null if t is no f32 tensor with such rows. `t` must outlive the reader.
std::unique_ptr<RowReader> reader_of(const LayerRows& rows, const TensorView& t);

}  // namespace fold8::quant
