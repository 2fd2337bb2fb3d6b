// Samples in memory, and one run of a graph: what tests of calibration, conversion and comparison
// need.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "quant/sample_source.h"
#include "runtime/exec/model.h"
#include "runtime/exec/session.h"
#include "runtime/graph/graph.h"

namespace fold8::testing_support {

inline Tensor tensor_of(const Shape& shape, const std::vector<float>& values) {
  Tensor t(DType::f32, shape);
  EXPECT_EQ(static_cast<std::size_t>(shape.count()), values.size());
  std::copy(values.begin(), values.end(), t.as<float>().begin());
  return t;
}

class MemorySamples : public quant::SampleSource {
 public:
  explicit MemorySamples(std::vector<std::vector<Tensor>> samples) : samples_(std::move(samples)) {}
  std::size_t count() const override { return samples_.size(); }
  Result<std::vector<Tensor>> sample(std::size_t i) override {
    ++reads;
    return samples_[i];
  }
  std::vector<std::vector<Tensor>>& all() { return samples_; }
  int reads = 0;

 private:
  std::vector<std::vector<Tensor>> samples_;
};

// `count` samples for the graph's inputs: f32 standard normal, u8 any code; symbols taken as
// `symbol_extent`.
inline MemorySamples normal_samples(const graph::Graph& g, std::size_t count,
                                    std::uint64_t seed = 1, std::int64_t symbol_extent = 3) {
  std::mt19937_64 rng(seed);
  std::vector<std::vector<Tensor>> samples(count);
  for (auto& sample : samples)
    for (const graph::ValueId v : g.inputs) {
      Shape shape = g.type(v).shape;
      for (int i = 0; i < shape.rank(); ++i)
        if (!shape[i].known()) shape[i] = Dim(symbol_extent);
      Tensor t(g.type(v).dtype, shape);
      if (t.dtype() == DType::f32)
        for (float& e : t.as<float>()) e = std::normal_distribution<float>()(rng);
      else
        for (std::uint8_t& e : t.as<std::uint8_t>())
          e = static_cast<std::uint8_t>(std::uniform_int_distribution<int>(0, 255)(rng));
      sample.push_back(std::move(t));
    }
  return MemorySamples(std::move(samples));
}

inline std::shared_ptr<const exec::Model> model_of(const graph::Graph& g) {
  auto model = exec::Model::from_graph(g);
  EXPECT_TRUE(model.ok()) << model.error().message;
  return model.ok() ? *model : nullptr;
}

// Copies of all outputs of one run; empty if it fails.
inline std::vector<Tensor> run_once(const graph::Graph& g, const std::vector<Tensor>& inputs,
                                    int threads = 1) {
  const auto model = model_of(g);
  if (model == nullptr) return {};
  exec::SessionOptions options;
  options.threads = threads;
  auto session = exec::Session::create(model, options);
  EXPECT_TRUE(session.ok()) << session.error().message;
  if (!session.ok()) return {};
  std::vector<TensorView> views;
  for (const Tensor& t : inputs) views.push_back(t.view());
  const Status ran = (*session)->run(views);
  EXPECT_TRUE(ran.ok()) << ran.error().message;
  if (!ran.ok()) return {};
  std::vector<Tensor> outputs;
  for (const TensorView& v : (*session)->outputs()) {
    Tensor t(v.dtype, v.shape);
    std::memcpy(t.view().data, v.data, v.bytes());
    outputs.push_back(std::move(t));
  }
  return outputs;
}

inline bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.view().data, b.view().data, a.view().bytes()) == 0;
}

}  // namespace fold8::testing_support
