// What a layer costs in INT8 and in float on one target: measured once (bench/cost_table.cc), kept
// as a file, read by `--prefer speed`. Nothing is timed while converting.
//
// The file is CSV. Comments begin with '#'; one of them names the target ("# target: avx2"). The
// first other line is the header "kind,m,n,k,int8_us,f32_us,int8_to_f32_us,f32_to_int8_us"; each
// further one is a row:
//
//   kind           m                  n                k                          multiply-adds
//   linear         rows               output features  input features             m n k
//   conv           output positions   output channels  channels * kernel          m n k
//   depthwise      output positions   channels         kernel                     m n k
//   grouped        output positions   output channels  channels a group * kernel  m n k
//   transposed     input positions    input channels   output channels a group * kernel  m n k
//   quantize       elements           1                1                          (m n k elements)
//   quantize_rows  rows               columns          1                          (m n k elements)
//
// (samples count as positions; a kernel as its elements). The times are those of the layer from u8
// to u8 (int8_us), f32 to f32 (f32_us), and of the same two writing the other type: what rounding
// or widening in passing costs. quantize and quantize_rows are the step that rounds an f32 tensor
// to u8 with one scale, or with one a row: only int8_us has a meaning there, the others are 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"

namespace fold8::fusion {

enum class CostKind : std::uint8_t {
  linear,
  conv,
  depthwise,
  grouped,
  transposed,
  quantize,
  quantize_rows,
};
std::string_view name(CostKind kind);

struct CostKey {
  CostKind kind{};
  std::int64_t m = 1, n = 1, k = 1;  // > 0
};

struct Cost {
  double int8_us = 0, f32_us = 0, int8_to_f32_us = 0, f32_to_int8_us = 0;

  double of(bool int8, bool writes_u8) const {
    if (int8) return writes_u8 ? int8_us : int8_to_f32_us;
    return writes_u8 ? f32_to_int8_us : f32_us;
  }
};

class CostTable {
 public:
  // `origin` (a file name) and the line begin every error. Refused: no target, two targets, no or
  // another header, no rows, unknown kinds, another number of fields, extents that are no positive
  // integers below 2^31, times outside 1e-6 to 1e9 (quantize: others than int8_us that are not
  // 0), the same kind,
  // m, n, k twice.
  static Result<CostTable> parse(std::string_view text, const std::string& origin);

  const std::string& target() const { return target_; }
  std::uint64_t digest() const { return digest_; }  // of the text, comments and all

  // The time per multiply-add (or element) of the four nearest rows of that kind, times those of
  // `key`. Near: d^2 = ln^2(m/m') + ln^2(n/n') + ln^2(k/k'); the rates are averaged geometrically
  // with weights 1/d^2, so a row of exactly that shape gives its own times. Never less than the
  // least time of that kind: what a step costs besides its multiply-adds. A kind without rows is
  // taken for the nearest that has some (grouped and transposed: conv; depthwise: grouped, conv;
  // quantize_rows: quantize); nullopt if there is none.
  std::optional<Cost> estimate(const CostKey& key) const;

 private:
  struct Row {
    CostKey key;
    Cost cost;
  };
  std::vector<const Row*> rows_of(CostKind kind) const;
  static Result<Row> parse_row(std::string_view line);
  std::string target_;
  std::uint64_t digest_ = 0;
  std::vector<Row> rows_;
};

// The text of the table that ships for a target (fusion/cost_tables/<target>.csv); nullopt if none
// does.
std::optional<std::string_view> shipped_cost_table(std::string_view target);
// "avx2, avx512_vnni"
std::string shipped_cost_table_names();

}  // namespace fold8::fusion
