// A few rows of tensors, evenly spread over all samples, for choices that are made layer by layer.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "quant/sample_source.h"
#include "runtime/core/result.h"
#include "runtime/exec/model.h"

namespace fold8::quant {

struct SampleRows {
  std::size_t width = 0;      // extent of the last axis
  std::vector<float> values;  // [n, width]
  std::size_t count() const { return width == 0 ? 0 : values.size() / width; }
};

// Collects, of every named f32 tensor of rank >= 1, about `rows` rows (all of them if it has fewer)
// while a model runs on samples 0, 1, .. of `samples`. The same rows on every machine and for any
// number of threads. Rows of another width than the first are left out.
class RowCollector {
 public:
  RowCollector(std::set<std::string> names, std::size_t rows, std::size_t samples);
  void see(std::size_t sample, const std::string& name, const TensorView& tensor);
  // With more samples than rows some of them give none.
  std::size_t samples_used() const { return used_; }
  std::map<std::string, SampleRows> take() { return std::move(rows_); }

 private:
  bool uses(std::size_t sample) const;
  std::set<std::string> names_;
  std::size_t samples_, used_, each_;
  std::map<std::string, SampleRows> rows_;
};

// The same by runs of its own.
Result<std::map<std::string, SampleRows>> sample_rows(std::shared_ptr<const exec::Model> model,
                                                      SampleSource& samples,
                                                      const std::set<std::string>& names,
                                                      std::size_t rows, int threads);

}  // namespace fold8::quant
