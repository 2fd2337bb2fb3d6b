// A comparison of two models as a terminal table and as JSON, and the thresholds that make a test
// of it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "quant/compare.h"
#include "quant/sensitivity.h"

namespace fold8::report {

struct Thresholds {
  std::optional<double> min_sqnr_db, min_cosine, min_top1, max_abs;
};

struct Accuracy {  // against labels, if there are any
  double reference = 0, other = 0;
  std::size_t samples = 0;
};

struct Report {
  std::string reference_path, other_path, target, engine, cpu;
  quant::Comparison comparison;
  std::vector<quant::LayerSensitivity> sensitivity;  // of the same layers; empty: not asked for
  std::optional<double> int8_mac_share, int8_attention_share;
  std::optional<Accuracy> accuracy;
  std::vector<std::string> missed;  // thresholds that were not reached, in words
};

// Fills `missed`.
void judge(const Thresholds& thresholds, Report& report);

std::string terminal_text(const Report& report, std::size_t worst_layers);
nlohmann::ordered_json to_json(const Report& report);
// JUnit XML: one test case per threshold and output.
std::string junit_xml(const Report& report, const Thresholds& thresholds);

}  // namespace fold8::report
