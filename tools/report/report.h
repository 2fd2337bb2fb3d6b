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

// What the error at the outputs owes to one layer. SQNR in dB, of the worst output.
struct LayerInfluence {
  std::string name;                // of the tensor, as LayerError::name
  std::optional<double> alone_db;  // only this layer in INT8; none: no error, or not measured
  std::optional<double> gain_db;   // what the outputs win when this layer is float
  std::string why_missing;         // why a number is not there; empty if both are
};

struct FixText {
  std::string
      flag;  // to add to `fold8 convert`, ready to paste; empty if it takes more than a flag
  std::string text;  // what it does and what it costs or wins, one sentence
};

// Why a layer is far off, and what helps. At most one per layer.
struct LayerAdvice {
  std::string name;            // of the tensor, as LayerError::name
  std::string cause_kind;      // one word for programs: "clipped", "outlier_channel", ...
  std::string cause;           // a sentence for people, with the measured numbers
  std::vector<FixText> fixes;  // the most promising first
};

struct Report {
  std::string reference_path, other_path, target, engine, cpu;
  quant::Comparison comparison;
  std::vector<quant::LayerSensitivity> sensitivity;  // of the same layers; empty: not asked for
  std::optional<double> int8_mac_share, int8_attention_share;
  std::optional<Accuracy> accuracy;
  std::vector<LayerInfluence> influence;  // of layers that were tried (any order)
  std::vector<LayerAdvice> advice;        // of layers that need it, the worst first
  std::vector<std::string> missed;        // thresholds that were not reached, in words
};

// Fills `missed`.
void judge(const Thresholds& thresholds, Report& report);

std::string terminal_text(const Report& report, std::size_t worst_layers);
nlohmann::ordered_json to_json(const Report& report);
// JUnit XML: one test case per threshold and output.
std::string junit_xml(const Report& report, const Thresholds& thresholds);

}  // namespace fold8::report
