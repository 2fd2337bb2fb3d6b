// Layers in the order in which leaving them float pays: error at the outputs when only this layer
// is INT8 (quant/sensitivity.h), per multiply-add. Ranking by what a layer's float form gains over
// the whole INT8 model gets stuck: while others err more, no single one gains.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fusion/passes/quantize.h"
#include "quant/sample_source.h"
#include "runtime/exec/model.h"

namespace fold8::fusion {

// What quantize() can leave float by name: a layer with constant weights, or an attention.
struct FloatChoice {
  std::string name;  // of its output
  double macs = 0;   // multiply-adds for the first sample
  bool attention = false;
  bool fixed = false;     // whatever is chosen
  bool imported = false;  // fixed as INT8: the file brings it so
};

// In execution order, without noise. `g` is fused and not quantized; `float_model` is its emitted
// form.
Result<std::vector<FloatChoice>> float_choices(const graph::Graph& g,
                                               std::shared_ptr<const exec::Model> float_model,
                                               quant::SampleSource& samples,
                                               const QuantizeOptions& options);

struct RankOptions {
  std::vector<std::string> judged;  // tensors that count as outputs
  std::size_t samples = 0;          // the first ones
  int threads = 1;
  std::function<void(std::size_t done, std::size_t total)> progress;  // may be null
};

// Samples to rank on: enough for the judged numbers of all of them, at least `least` and no more
// than ranking is worth. `numbers`: of one sample.
std::size_t rank_samples(std::size_t numbers, std::size_t least);

// The energy that so many decibels stand for: 10 ^ (db / 10).
double energy_ratio(double db);

// Noise of each choice, for these options: its error's share of the energy of an output, alone; of
// the worst output. What operators between layers lose by reading codes (u8
// streams) counts for the layers behind them, which are why they do.
Result<std::vector<double>> noises(const graph::Graph& g,
                                   std::shared_ptr<const exec::Model> float_model,
                                   const QuantizeOptions& options,
                                   const std::vector<FloatChoice>& choices,
                                   quant::SampleSource& samples, const RankOptions& how);

// Positions of the choices that are not fixed and have noise and multiply-adds, the most noise per
// multiply-add first.
std::vector<std::size_t> ranking(const std::vector<FloatChoice>& choices,
                                 const std::vector<double>& noise);

}  // namespace fold8::fusion
