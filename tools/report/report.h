// A comparison of two models for people and programs: JSON, terminal table, JUnit XML, HTML page;
// the thresholds that make a test of it are in thresholds.h.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "quant/accuracy.h"
#include "quant/causes.h"
#include "quant/compare.h"
#include "quant/sensitivity.h"
#include "quant/weight_ranges.h"
#include "tools/report/thresholds.h"

namespace fold8::report {

struct Accuracy {  // of an output of class scores, against labels
  std::string output;
  quant::PairedCounts counts;
};

// Of one profiled run of both models on the first sample.
struct LayerTime {
  std::string name;  // of the tensor
  std::optional<double> reference_us, other_us;
};
struct Times {
  double reference_us = 0, other_us = 0;  // of all steps, layers or not
  std::vector<LayerTime> layers;
};

struct FileFacts {
  std::string path;
  std::uint64_t bytes = 0;
  std::string xxh3;  // XXH3_64bits of the file, hexadecimal
};

// Where and from what the figures come.
struct Environment {
  FileFacts reference, other;
  std::string target, engine, cpu, version;
  int threads = 1;
  std::vector<std::string> data;  // as given on the command line
  std::string data_xxh3;          // of the samples as they reach the models; empty: not known
  bool random_data = false;
};

struct Report {
  Environment environment;
  quant::Comparison comparison;
  std::optional<double> int8_mac_share, int8_attention_share;
  std::vector<Accuracy> accuracy;                    // of outputs with labels
  std::vector<quant::LayerSensitivity> sensitivity;  // of the same layers; empty: not asked for
  std::vector<quant::Finding> findings;              // causes and fixes, worst first
  std::optional<Times> times;
  std::vector<quant::WeightRanges> weights;  // for the page
  std::vector<Check> checks;                 // thresholds, judged: judge()

  bool passed() const;
};

// SQNR of the worst output that has one; none if all are exact or undefined.
const quant::OutputComparison* worst_output(const Report& report);
const Accuracy* accuracy_of(const Report& report, const std::string& output);
const quant::LayerSensitivity* sensitivity_of(const Report& report, const std::string& layer);

// At most 100 columns; names are shortened in their middle.
std::string terminal_text(const Report& report, std::size_t worst_layers);
// "fold8.report/1"; report.schema.json describes it.
nlohmann::ordered_json to_json(const Report& report);
// JUnit XML: a test case per threshold and output.
std::string junit_xml(const Report& report);
// One page that needs nothing else: no network, fonts or scripts of others. Plots need
// CompareOptions::plots; their size is bounded, also for large networks.
std::string html(const Report& report);

}  // namespace fold8::report
