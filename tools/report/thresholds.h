// Thresholds of a report: every one is judged for every output it concerns, by name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/core/result.h"

namespace fold8::report {

struct Report;

// Limits of one figure: for every output, and for single ones, where that takes precedence.
class Limits {
 public:
  // "30", or "logits=30": the name is what is before the last '='. Errors: no number, outside
  // [low, high], an output that has a limit already.
  Status add(const std::string& text, double low, double high);

  bool empty() const { return !every_ && named_.empty(); }
  std::optional<double> of(const std::string& output) const;
  bool names(const std::string& output) const;
  // Of outputs with a limit of their own.
  const std::vector<std::pair<std::string, double>>& named() const { return named_; }

 private:
  std::optional<double> every_;
  std::vector<std::pair<std::string, double>> named_;
};

struct Thresholds {
  Limits min_sqnr_db, min_cosine, min_top1, max_abs;
  Limits min_accuracy;       // share of samples that the judged model has right
  Limits max_accuracy_drop;  // share of samples that it loses against the reference
};

// One threshold at one output.
struct Check {
  std::string output, what, unit;  // "logits", "SQNR", " dB"; output empty: none has this figure
  bool at_least = true;            // the limit is a lower one
  bool exact = false;              // no error at all: passed, without a value
  std::optional<double> limit, value;
  std::string failure;  // in words, and by how much; empty: passed
};

// Every output that a limit names is one of `outputs`, else an error that lists them.
Status check_names(const Thresholds& thresholds, const std::vector<std::string>& outputs);

// Fills report.checks. A limit that no output has a figure for is missed: a gate that measures
// nothing does not pass.
void judge(const Thresholds& thresholds, Report& report);

}  // namespace fold8::report
