// What `fold8 report` tells beside errors: where the figures come from, how long layers take, how
// many labels each model gets right.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "quant/compare.h"
#include "quant/sample_source.h"
#include "runtime/exec/model.h"
#include "tools/report/report.h"

namespace fold8::cli {

Result<report::FileFacts> file_facts(const std::string& path);

// Passes samples on and hashes them as they come by, each once.
class HashedSamples : public quant::SampleSource {
 public:
  explicit HashedSamples(quant::SampleSource& samples) : samples_(samples) {}
  std::size_t count() const override { return samples_.count(); }
  std::string describe(std::size_t i) const override { return samples_.describe(i); }
  Result<std::vector<Tensor>> sample(std::size_t i) override;
  std::string digest() const;  // hexadecimal; empty unless all came by in order

 private:
  quant::SampleSource& samples_;
  std::size_t next_ = 0;
  std::uint64_t hash_ = 0;
};

// Both models, profiled on the first sample.
Result<report::Times> measure_times(std::shared_ptr<const exec::Model> reference,
                                    std::shared_ptr<const exec::Model> other,
                                    quant::SampleSource& samples, int threads);

// --labels: the right classes of one output, counted as samples are compared.
class Labels {
 public:
  // argument: "y.npy" for the first of `outputs`, or "OUTPUT=y.npy".
  static Result<Labels> read(const std::string& argument, const std::vector<std::string>& outputs);
  // Outputs that are not its own are none of its business. Errors: no class scores, too few labels,
  // a label that is no class.
  Status add(const quant::OutputPair& pair);
  // An error if labels are left over.
  Result<report::Accuracy> finish() const;
  const std::string& output() const { return output_; }

 private:
  std::string path_, output_;
  std::vector<std::int64_t> labels_;
  std::size_t seen_ = 0;
  quant::PairedCounts counts_;
};

}  // namespace fold8::cli
