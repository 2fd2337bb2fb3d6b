// What calibration saw, as bytes that other machines merge: a header (magic, version, size, XXH3
// checksum) and a FlatBuffers body (statistics.fbs). The same samples give the same bytes, in
// whatever order and grouping they were seen. Readers check everything: a hostile file costs an
// error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "quant/calibrate.h"
#include "runtime/core/result.h"
#include "runtime/graph/graph.h"

namespace fold8::quant {

// Stands for a graph: operators, names, types and the bytes of the constants. Metadata is left out.
std::uint64_t graph_id(const graph::Graph& g);
// 16 hexadecimal digits.
std::string id_text(std::uint64_t id);

struct Statistics {
  std::uint64_t model = 0;  // graph_id() of the folded float graph
  CalibrationTable table;

  // An error names both models and merges nothing.
  Status merge(const Statistics& other);
};

inline constexpr std::uint32_t kStatisticsMajor = 1;
inline constexpr std::uint32_t kStatisticsMinor = 0;

Result<std::string> to_bytes(const Statistics& s);
Result<Statistics> statistics_from_bytes(const void* data, std::size_t bytes);
// The first bytes are those of a file of statistics, whole or not.
bool are_statistics(const void* data, std::size_t bytes);

}  // namespace fold8::quant
