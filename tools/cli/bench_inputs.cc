#include <algorithm>
#include <cstdint>

#include "tools/cli/bench.h"

namespace fold8::cli {
namespace {

// "name=1x3x224x224"
Result<std::pair<std::string, Shape>> parse_shape(const std::string& text) {
  const Error bad = invalid_argument("--shape " + text + ": expected NAME=1x3x224x224");
  const std::size_t equals = text.rfind('=');
  if (equals == std::string::npos) return bad;
  Shape shape;
  std::string rest = text.substr(equals + 1);
  while (!rest.empty()) {
    std::size_t used = 0;
    long long d = -1;
    try {
      d = std::stoll(rest, &used);
    } catch (const std::exception&) {
      return bad;
    }
    if (d < 0 || shape.rank() == Shape::kMaxRank) return bad;
    shape.push_back(Dim(static_cast<std::int64_t>(d)));
    rest = rest.substr(used);
    if (rest.empty()) break;
    if (rest[0] != 'x' || rest.size() == 1) return bad;
    rest = rest.substr(1);
  }
  return std::pair(text.substr(0, equals), shape);
}

// Numbers that look like data: small pseudo-random floats, zeros for integers (always valid as
// indices).
void fill(Tensor& t) {
  if (t.dtype() == DType::f32) {
    std::uint32_t state = 8;
    for (float& v : t.as<float>()) {
      state = state * 1664525u + 1013904223u;
      v = static_cast<float>(state >> 8) / static_cast<float>(1u << 24) * 2 - 1;
    }
  } else if (t.dtype() == DType::u8) {
    std::uint32_t state = 8;
    for (std::uint8_t& v : t.as<std::uint8_t>())
      v = static_cast<std::uint8_t>((state = state * 1664525u + 1013904223u) >> 24);
  }
}

}  // namespace

Result<std::vector<Tensor>> made_up_inputs(std::span<const std::string> shapes,
                                           const graph::Graph& g) {
  std::vector<std::pair<std::string, Shape>> given;
  for (const std::string& s : shapes) {
    FOLD8_TRY(auto parsed, parse_shape(s));
    given.push_back(std::move(parsed));
  }
  std::vector<Tensor> inputs;
  for (graph::ValueId v : g.inputs) {
    Shape shape = g.type(v).shape;
    const auto it = std::find_if(given.begin(), given.end(),
                                 [&](const auto& p) { return p.first == g.value(v).name; });
    if (it != given.end()) {
      shape = it->second;
    } else if (shape.rank() > 0 && !shape[0].known()) {
      shape[0] = Dim(1);  // a batch of one
    }
    if (!shape.known())
      return invalid_argument("input '" + g.value(v).name + "' has shape " +
                              to_string(shape, g.symbols) + ": give --shape " + g.value(v).name +
                              "=... or --input DATA");
    if (shape.count() > (std::int64_t{1} << 32))
      return invalid_argument("--shape: input '" + g.value(v).name + "' would have " +
                              std::to_string(shape.count()) + " elements");
    inputs.emplace_back(g.type(v).dtype, shape);
    fill(inputs.back());
  }
  for (const auto& p : given)
    if (std::none_of(g.inputs.begin(), g.inputs.end(),
                     [&](graph::ValueId v) { return g.value(v).name == p.first; }))
      return invalid_argument("--shape: the model has no input '" + p.first + "'");
  return inputs;
}

}  // namespace fold8::cli
