#include "tools/cli/statistics_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "quant/data_warnings.h"
#include "runtime/format/f8.h"
#include "tools/data/byte_stream.h"

namespace fold8::cli {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;

std::vector<std::string> warnings_of(const quant::CalibrationTable& table) {
  std::vector<std::string> warnings = quant::data_warnings(table);
  for (const auto& [name, observer] : table.tensors)
    if (auto w = quant::range_warning(name, observer)) warnings.push_back(*std::move(w));
  return warnings;
}

}  // namespace

bool is_statistics_file(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) return false;  // opening a pipe would wait
  std::ifstream file(path, std::ios::binary);
  std::array<char, 8> start{};
  return file.read(start.data(), start.size()) && quant::are_statistics(start.data(), start.size());
}

Result<quant::Statistics> read_statistics(const std::string& path) {
  FOLD8_TRY(const std::string bytes, data::read_small_file(path, kMostBytes));
  auto s = quant::statistics_from_bytes(bytes.data(), bytes.size());
  if (!s.ok()) return in_context("'" + path + "'", s.error());
  return s;
}

Status write_statistics(const quant::Statistics& s, const std::string& path) {
  FOLD8_TRY(const std::string bytes, quant::to_bytes(s));
  return format::write_atomically(path, bytes.data(), bytes.size());
}

void say_warnings(const quant::CalibrationTable& table) {
  for (const std::string& w : warnings_of(table)) say_warning(w);
}

Json statistics_json(const quant::Statistics& s, const char* schema) {
  Json j{{"schema", schema}, {"model_id", quant::id_text(s.model)}, {"samples", s.table.samples}};
  j["tensors"] = Json::array();
  for (const auto& [name, o] : s.table.tensors)
    j["tensors"].push_back(
        {{"name", name}, {"min", o.min()}, {"max", o.max()}, {"values", o.count()}});
  j["warnings"] = warnings_of(s.table);
  return j;
}

Result<int> inspect_statistics(const std::string& path, const std::string& json) {
  FOLD8_TRY(const quant::Statistics s, read_statistics(path));
  if (json != "-") {
    std::cout << fmt::format("{}\n  statistics of the folded network {}, {} samples\n", path,
                             quant::id_text(s.model), s.table.samples);
    std::size_t width = 6;
    for (const auto& [name, o] : s.table.tensors) width = std::max(width, name.size());
    std::cout << fmt::format("  {:<{}} {:>14} {:>14} {:>14}\n", "tensor", width, "min", "max",
                             "values");
    for (const auto& [name, o] : s.table.tensors)
      std::cout << fmt::format("  {:<{}} {:>14.6g} {:>14.6g} {:>14}\n", name, width, o.min(),
                               o.max(), o.count());
    for (const std::string& w : warnings_of(s.table)) std::cout << "  warning  " << w << "\n";
  }
  if (!json.empty()) {
    Json j = statistics_json(s, "fold8.inspect/1");
    j["model"] = path;
    FOLD8_CHECK_OK(write_json(j, json));
  }
  return 0;
}

}  // namespace fold8::cli
