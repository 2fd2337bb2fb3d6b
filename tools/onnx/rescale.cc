#include "tools/onnx/rescale.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace fold8::onnx_io {
namespace {

constexpr std::string_view kKey = "fold8.rescale.", kImported = "onnx.fold8.rescale.";

struct Factors {
  std::int32_t axis = 0;
  std::vector<float> values;
};

template <class T>
bool take(std::string_view& text, T& value) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  const auto r = std::from_chars(text.data(), text.data() + text.size(), value);
  if (r.ec != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(r.ptr - text.data()));
  return text.empty() || text.front() == ' ';
}

std::optional<Factors> parse(std::string_view text) {
  Factors f;
  if (!take(text, f.axis) || f.axis < 0) return std::nullopt;
  while (!text.empty()) {
    float v = 0;
    if (!take(text, v) || !std::isfinite(v) || v <= 0) return std::nullopt;
    f.values.push_back(v);
  }
  return f.values.empty() ? std::nullopt : std::optional(std::move(f));
}

bool suits(const Factors& f, const Shape& shape) {
  if (f.axis >= shape.rank()) return false;
  const Dim extent = shape[f.axis];
  return !extent.known() || extent.value() == static_cast<std::int64_t>(f.values.size());
}

}  // namespace

void write_rescale(const graph::Graph& g, onnx::ModelProto& model) {
  for (graph::ValueId v = 0; v < g.value_count(); ++v) {
    const graph::Value& value = g.value(v);
    if (value.rescale.empty() || value.is_constant()) continue;
    std::string text = std::to_string(value.rescale_axis);
    for (const float factor : value.rescale) {
      char digits[32];
      const auto r = std::to_chars(digits, digits + sizeof digits, factor);
      (text += ' ').append(digits, r.ptr);
    }
    auto* entry = model.add_metadata_props();
    entry->set_key(std::string(kKey) + value.name);
    entry->set_value(std::move(text));
  }
}

Status read_rescale(graph::Graph& g) {
  std::unordered_map<std::string_view, graph::ValueId> values;
  for (graph::ValueId v = 0; v < g.value_count(); ++v)
    if (!g.is_constant(v)) values[g.value(v).name] = v;
  for (auto it = g.metadata.lower_bound(std::string(kImported));
       it != g.metadata.end() && it->first.compare(0, kImported.size(), kImported) == 0;
       it = g.metadata.erase(it)) {
    auto factors = parse(it->second);
    if (!factors)
      return invalid_model("metadata '" + it->first.substr(5) +
                           "': expected an axis and a positive factor for each channel");
    const auto v = values.find(std::string_view(it->first).substr(kImported.size()));
    if (v == values.end() || !suits(*factors, g.type(v->second).shape)) continue;
    g.value(v->second).rescale_axis = factors->axis;
    g.value(v->second).rescale = std::move(factors->values);
  }
  return ok_status();
}

}  // namespace fold8::onnx_io
