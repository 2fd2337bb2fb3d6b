#include "tools/data/preprocess.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace fold8::data {
namespace {

constexpr std::string_view kKeys[] = {"mean", "std", "layout", "dtype"};

Error bad(const std::string& text, const std::string& why) {
  return invalid_argument("--preprocess '" + text + "': " + why +
                          " (expected NAME:mean=..,std=..,layout=nhwc|nchw,dtype=u8|f32)");
}

// Where the first "key=" behind a colon begins; the name ends there.
std::size_t end_of_name(const std::string& text) {
  for (std::size_t at = text.find(':'); at != std::string::npos; at = text.find(':', at + 1))
    for (std::string_view key : kKeys)
      if (text.compare(at + 1, key.size(), key) == 0 && text.size() > at + 1 + key.size() &&
          text[at + 1 + key.size()] == '=')
        return at;
  return std::string::npos;
}

Result<float> number(const std::string& whole, const std::string& text) {
  float v = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(v))
    return bad(whole, "'" + text + "' is no number");
  return v;
}

Status set(const std::string& whole, const std::string& key, const std::string& value,
           Preprocess& p) {
  if (key == "mean" || key == "std") {
    FOLD8_TRY(const float v, number(whole, value));
    if (key == "std" && !(v > 0)) return bad(whole, "std must be above 0");
    (key == "mean" ? p.mean : p.std).push_back(v);
    return ok_status();
  }
  if (key == "layout" && (value == "nhwc" || value == "nchw")) {
    p.channels_last = value == "nhwc";
    return ok_status();
  }
  if (key == "dtype" && (value == "u8" || value == "f32")) {
    p.dtype = value == "u8" ? DType::u8 : DType::f32;
    return ok_status();
  }
  return bad(whole, "'" + key + "=" + value + "' is not understood");
}

struct Constants {
  std::vector<float> scale, shift;
};

Result<Constants> constants(const Preprocess& p, Dim channels) {
  const std::size_t given = std::max(p.mean.size(), p.std.size());
  const std::size_t n = channels.known() ? static_cast<std::size_t>(channels.value()) : given;
  for (const auto* list : {&p.mean, &p.std})
    if (list->size() > 1 && list->size() != n)
      return invalid_argument("input '" + p.input + "' has " + std::to_string(n) +
                              " channels, --preprocess gives " + std::to_string(list->size()) +
                              " numbers");
  if (!channels.known() && given < 2)
    return invalid_argument("the number of channels of input '" + p.input +
                            "' is not known; give --preprocess a mean and std for each");
  Constants c;
  for (std::size_t i = 0; i < n; ++i) {
    const double mean = p.mean.empty() ? 0 : p.mean[p.mean.size() == 1 ? 0 : i],
                 std = p.std.empty() ? 1 : p.std[p.std.size() == 1 ? 0 : i];
    c.scale.push_back(static_cast<float>(1 / std));
    c.shift.push_back(static_cast<float>(-mean / std));
  }
  return c;
}

// [N, C, H, W] to [N, H, W, C].
Shape to_channels_last(const Shape& s) {
  Shape out = s;
  out.erase(1);
  out.push_back(s[1]);
  return out;
}

}  // namespace

Result<Preprocess> parse_preprocess(const std::string& text) {
  const std::size_t colon = end_of_name(text);
  if (colon == std::string::npos || colon == 0) return bad(text, "there is no NAME:key=value");
  Preprocess p;
  p.input = text.substr(0, colon);
  std::string key;
  for (std::size_t at = colon + 1; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    std::string item = text.substr(at, end - at);
    if (const auto equals = item.find('='); equals != std::string::npos) {
      key = item.substr(0, equals);
      item.erase(0, equals + 1);
    }
    FOLD8_CHECK_OK(set(text, key, item, p));
    at = end + 1;
  }
  return p;
}

Status add_preprocess(graph::Graph& g, const Preprocess& p) {
  const auto it = std::find_if(g.inputs.begin(), g.inputs.end(),
                               [&](graph::ValueId v) { return g.value(v).name == p.input; });
  if (it == g.inputs.end())
    return invalid_argument("--preprocess: the model has no input '" + p.input + "'");
  const graph::ValueId network = *it;
  const TensorType wanted = g.type(network);
  const int rank = wanted.shape.rank();
  if (wanted.dtype != DType::f32)
    return invalid_argument("--preprocess: input '" + p.input + "' is " +
                            std::string(name(wanted.dtype)) + ", it must be f32");
  if (rank < 2)
    return invalid_argument("--preprocess: input '" + p.input +
                            "' needs a channel axis, it has rank " + std::to_string(rank));
  const bool affine = !p.mean.empty() || !p.std.empty(), move = p.channels_last && rank > 2,
             cast = p.dtype != DType::f32;
  if (!affine && !move && !cast) return ok_status();
  Constants c;
  if (affine) {
    FOLD8_TRY(c, constants(p, wanted.shape[1]));
  }
  g.value(network).name = g.fresh_name(p.input + "/preprocessed");
  graph::ValueId at = g.add_value(
      p.input,
      TensorType{p.dtype, move ? to_channels_last(wanted.shape) : wanted.shape, {}, Layout::plain});
  *it = at;
  // The last step writes the value the network reads.
  const auto step = [&](graph::Op op, const std::string& suffix, std::vector<graph::ValueId> inputs,
                        DType dtype, bool last) {
    const graph::ValueId to = last
                                  ? network
                                  : g.add_value(g.fresh_name(p.input + "/" + suffix),
                                                TensorType{dtype, wanted.shape, {}, Layout::plain});
    g.add_node(std::move(op), p.input + "/" + suffix, std::move(inputs), {to});
    at = to;
  };
  if (move) {
    graph::Ints perm{0, rank - 1};
    for (int a = 1; a + 1 < rank; ++a) perm.push_back(a);
    step(graph::Transpose{perm}, "transpose", {at}, p.dtype, !cast && !affine);
  }
  if (cast) step(graph::Cast{DType::f32}, "cast", {at}, DType::f32, !affine);
  if (affine) {
    const Shape channels{static_cast<std::int64_t>(c.scale.size())};
    const auto scale = g.add_constant<float>(g.fresh_name(p.input + "/scale"), channels, c.scale);
    const auto shift = g.add_constant<float>(g.fresh_name(p.input + "/shift"), channels, c.shift);
    step(graph::Affine{1}, "standardize", {at, scale, shift}, DType::f32, true);
  }
  return ok_status();
}

}  // namespace fold8::data
