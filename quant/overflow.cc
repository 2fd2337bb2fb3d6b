#include "quant/overflow.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "quant/cause_text.h"
#include "quant/observer.h"
#include "runtime/exec/session.h"

namespace fold8::quant {
namespace {

using graph::Graph;
using graph::ValueId;

constexpr float kHuge = 1e10f;  // data of this size is no measurement

float largest(std::span<const float> values) {
  float most = 0;
  for (const float v : values)
    if (std::isfinite(v)) most = std::max(most, std::abs(v));
  return most;
}

std::string not_finite(std::span<const float> values, std::size_t i) {
  return std::isnan(values[i]) ? "NaN" : "an infinity";
}

}  // namespace

std::string what_to_repair(const Graph& g, const std::vector<TensorView>& inputs) {
  float sample = 0;
  for (const TensorView& t : inputs) {
    if (t.dtype != DType::f32) continue;
    const auto values = t.as<const float>();
    if (first_not_finite(values) < values.size()) return "remove the sample or repair the data";
    sample = std::max(sample, largest(values));
  }
  const std::string fine = "the sample holds none, the model is at fault: ";
  float weights = 0;
  std::string name;
  for (ValueId v = 0; v < g.value_count(); ++v) {
    if (!g.is_constant(v) || g.type(v).dtype != DType::f32) continue;
    const auto values = g.constant<float>(v);
    // -inf hides positions in attention masks.
    for (std::size_t i = 0; i < values.size(); ++i)
      if (std::isnan(values[i]) || values[i] > std::numeric_limits<float>::max())
        return fine + "its constant '" + g.value(v).name + "' holds " + not_finite(values, i) +
               "; repair the model";
    if (const float most = largest(values); most > weights) {
      weights = most;
      name = g.value(v).name;
    }
  }
  if (sample > kHuge && sample > weights)
    return "numbers of the sample reach " + short_number(static_cast<double>(sample)) +
           ", with which the float model overflows; remove the sample or repair the data";
  if (weights > kHuge)
    return fine + "its constant '" + name + "' reaches " +
           short_number(static_cast<double>(weights)) +
           ", with which it overflows in float; repair the model";
  return "the float model overflows, or divides by zero, on this sample, which holds none itself; "
         "repair the model or remove the sample";
}

std::string first_overflow(const std::shared_ptr<const exec::Model>& model,
                           const std::vector<TensorView>& inputs) {
  auto session = exec::Session::create(model);
  if (!session.ok()) return "";
  const Graph& g = model->graph();
  std::string found;
  const auto see = [&](ValueId v, const TensorView& t) {
    if (t.dtype != DType::f32) return ok_status();
    const auto values = t.as<const float>();
    const std::size_t i = first_not_finite(values);
    if (i == values.size()) return ok_status();
    found = "tensor '" + g.value(v).name + "' is the first that holds " + not_finite(values, i);
    return Status(invalid_argument("enough was seen"));
  };
  for (std::size_t i = 0; i < inputs.size() && found.empty(); ++i)
    (void)see(g.inputs[i], inputs[i]);
  if (found.empty()) {
    (*session)->set_tap(see);
    (void)(*session)->run(inputs);
  }
  return found.empty() ? "" : found + "; " + what_to_repair(g, inputs);
}

}  // namespace fold8::quant
