// Graphs in text form, run.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "runtime/exec/session.h"
#include "runtime/graph/text.h"
#include "runtime/kernels/kernel_table.h"
#include "tests/support/random.h"

namespace fold8::testing {

inline graph::Graph parsed(std::string_view text, std::uint64_t seed = 1) {
  auto g = graph::parse(text, seed);
  EXPECT_TRUE(g.ok()) << g.error().message;
  return g.ok() ? std::move(g).value() : graph::Graph();
}

inline std::shared_ptr<const exec::Model> model_of(graph::Graph g) {
  auto m = exec::Model::from_graph(std::move(g));
  EXPECT_TRUE(m.ok()) << m.error().message;
  return m.ok() ? std::move(m).value() : nullptr;
}
inline std::shared_ptr<const exec::Model> model_of(std::string_view text, std::uint64_t seed = 1) {
  return model_of(parsed(text, seed));
}

inline std::unique_ptr<exec::Session> session_of(std::shared_ptr<const exec::Model> model,
                                                 exec::SessionOptions options = {}) {
  auto s = exec::Session::create(std::move(model), options);
  EXPECT_TRUE(s.ok()) << s.error().message;
  return s.ok() ? std::move(s).value() : nullptr;
}

template <class T>
Tensor tensor(const Shape& shape, const std::vector<T>& values) {
  Tensor t(dtype_of<T>::value, shape);
  EXPECT_EQ(static_cast<std::size_t>(shape.count()), values.size());
  std::copy(values.begin(), values.end(), t.as<T>().begin());
  return t;
}

inline Tensor random_tensor(DType dtype, const Shape& shape, SeededRng& rng) {
  Tensor t(dtype, shape);
  if (dtype == DType::f32) rng.fill_normal(t.as<float>());
  if (dtype == DType::u8) rng.fill_integers(t.as<std::uint8_t>(), 0, 255);
  if (dtype == DType::s64) rng.fill_integers(t.as<std::int64_t>(), 0, 3);
  return t;
}

inline Status run(exec::Session& s, const std::vector<Tensor>& inputs) {
  std::vector<TensorView> views;
  for (const Tensor& t : inputs) views.push_back(t.view());
  return s.run(views);
}

// One run of a graph in text form; the outputs are copied.
inline std::vector<Tensor> outputs_of(exec::Session& s) {
  std::vector<Tensor> out;
  for (const TensorView& v : s.outputs()) {
    EXPECT_EQ(v.layout, Layout::plain);
    Tensor t(v.dtype, v.shape);
    if (v.bytes() > 0 && v.data != nullptr) std::memcpy(t.view().data, v.data, v.bytes());
    out.push_back(std::move(t));
  }
  return out;
}
inline std::vector<Tensor> evaluate(std::string_view text, const std::vector<Tensor>& inputs,
                                    exec::SessionOptions options = {}) {
  auto s = session_of(model_of(text), options);
  const auto status = run(*s, inputs);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return status.ok() ? outputs_of(*s) : std::vector<Tensor>(s->model().graph().outputs.size());
}

template <class T>
std::vector<T> elements(const Tensor& t) {
  const auto v = t.as<T>();
  return {v.begin(), v.end()};
}

inline void expect_same_bytes(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.dtype(), b.dtype());
  EXPECT_EQ(a.shape(), b.shape()) << to_string(a.shape()) << " " << to_string(b.shape());
  ASSERT_EQ(a.bytes(), b.bytes());
  if (a.bytes() > 0) {
    EXPECT_EQ(std::memcmp(a.view().data, b.view().data, a.bytes()), 0);
  }
}

// Calls f once for every target this CPU can run, with FOLD8_TARGET set to it.
inline void on_every_target(const std::function<void()>& f) {
  const char* before = std::getenv("FOLD8_TARGET");
  const std::string restore = before == nullptr ? "" : before;
  for (const kernels::Target& t : kernels::targets()) {
    if (!t.cpu_can_run()) continue;
    SCOPED_TRACE(std::string(t.name));
    ::setenv("FOLD8_TARGET", std::string(t.name).c_str(), 1);
    f();
  }
  if (before == nullptr)
    ::unsetenv("FOLD8_TARGET");
  else
    ::setenv("FOLD8_TARGET", restore.c_str(), 1);
}

}  // namespace fold8::testing
