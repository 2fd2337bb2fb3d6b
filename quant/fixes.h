// What helps against a cause, as options of `fold8 convert`. A part of quant/causes.cc.
#pragma once

#include <vector>

#include "quant/causes.h"
#include "quant/causes_of.h"

namespace fold8::quant {

// What the conclusions know of one problem.
struct Problem {
  std::optional<std::size_t> rounding;  // of ModelFacts::roundings
  const LayerFacts* layer = nullptr;    // that suffers most; null: only data movement reads it
  std::vector<const LayerFacts*> also;  // other layers that suffer
  std::optional<double> noise;          // at the worst output, over its signal: this problem alone
  std::optional<double> gain_db;        // measured: `layer` float
  bool attention = false;
};

struct Situation {
  const ModelFacts& facts;
  const ConcludeOptions& options;
  double noise = 0;                     // at the worst output, over its signal: the whole model
  std::vector<std::string> attentions;  // with their products in INT8
};

// The most promising first, as rank() has it. Never
// empty.
std::vector<Fix> fixes_for(const Problem& problem, const Cause& cause, const Situation& situation);

}  // namespace fold8::quant
