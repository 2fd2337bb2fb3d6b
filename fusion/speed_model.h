// What a network costs, layers INT8 or float as one likes: the sum that `--prefer speed` makes
// small (prefer_speed.h says what it counts).
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "fusion/cost_table.h"

namespace fold8::fusion {

class SpeedModel {
 public:
  // Of a tensor that layers read or write. Times of rounding it, with one scale and with one a row.
  struct Tensor {
    double rounding_us = 0, rows_us = 0;
    double wider_us = 0;     // what others (no layers) that read it lose if it is f32 and not u8
    bool needs_f32 = false;  // a graph output, or read by what reads only floats
    std::optional<std::size_t> writer;
    std::vector<std::size_t> readers;
  };
  struct Layer {
    Cost cost;
    bool per_row = false;  // its input is rounded per row, and its result is f32
    bool fixed = false;    // int8 may not change
    bool int8 = true;
    std::size_t input = 0, output = 0;  // tensors
  };

  std::vector<Tensor> tensors;
  std::vector<Layer> layers;

  double total() const;
  // The layers' `int8` become the cheapest that the search finds; ties go to INT8.
  void minimize();
  // Of one layer in its type now, and what it would be in the other: the difference in total().
  struct Comparison {
    double now = 0, other = 0;
  };
  Comparison compare(std::size_t layer);

 private:
  double cost_of(const Tensor& t) const;
  bool writes_u8(const Tensor& t) const;
  bool try_all(const std::vector<std::size_t>& these, bool int8);
  double descend();
};

}  // namespace fold8::fusion
