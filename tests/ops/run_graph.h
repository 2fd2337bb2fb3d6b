// Runs a graph node by node through infer(), prepare() and run(): the operators alone, without
// plans or arenas.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "runtime/core/tensor.h"
#include "runtime/graph/graph.h"
#include "runtime/graph/text.h"
#include "runtime/kernels/kernel_table.h"
#include "runtime/ops/op_impl.h"

namespace fold8::ops {

// Bytes of a value and its type (which has a layout, unlike a Tensor).
struct Evaluated {
  TensorType type;
  std::shared_ptr<Buffer> data;

  template <class T>
  std::vector<T> as() const {
    const auto* p = reinterpret_cast<const T*>(data->data());
    return std::vector<T>(p, p + type.shape.count());
  }
};

struct RunOptions {
  const kernels::KernelTable* kernels = nullptr;  // null: the best target
  int threads = 1;
};

// Values of the graph's outputs. Inputs in the graph's order, bytes in the order of their layout.
Result<std::vector<Evaluated>> run_graph(const graph::Graph& g,
                                         const std::vector<Evaluated>& inputs,
                                         RunOptions options = {});
Result<std::vector<Evaluated>> run_text(const std::string& text,
                                        const std::vector<Evaluated>& inputs,
                                        RunOptions options = {});

// The first output; a test failure and an empty value on any error.
Evaluated run_one(const std::string& text, const std::vector<Evaluated>& inputs,
                  RunOptions options = {});

// The message of the error the text gives, "" if it runs.
std::string failure(const std::string& text, const std::vector<Evaluated>& inputs);

// Types (and known integers) of the graph's outputs after inference alone; symbols print by name.
std::string inferred(const std::string& text);

template <class T>
Evaluated value(const Shape& shape, const std::vector<T>& elements) {
  Evaluated v;
  v.type.dtype = dtype_of<T>::value;
  v.type.shape = shape;
  v.data = Buffer::allocate(elements.size() * sizeof(T));
  if (!elements.empty())
    std::memcpy(v.data->mutable_data(), elements.data(), elements.size() * sizeof(T));
  return v;
}
Evaluated booleans(const Shape& shape, const std::vector<int>& elements);
Evaluated random_f32(const Shape& shape, std::uint64_t seed, float scale = 1);
Evaluated random_u8(const Shape& shape, std::uint64_t seed);
// The same elements in channels_last order, and back.
Evaluated channels_last(const Evaluated& v);
Evaluated plain(const Evaluated& v);

// Names and kernels of the targets this CPU can run.
std::vector<const kernels::Target*> runnable_targets();

}  // namespace fold8::ops
