#include <charconv>
#include <cstring>

#include "runtime/graph/enum_names.h"
#include "runtime/graph/text.h"

namespace fold8::graph {
namespace {

std::string number(float v) {
  char buffer[32];
  const auto r = std::to_chars(buffer, buffer + sizeof buffer, v);
  return {buffer, r.ptr};
}

bool plain_name(std::string_view s) {
  if (s.empty() || s == "_" || s == "return" || s == "const") return false;
  for (char c : s)
    if (!(std::isalnum(static_cast<unsigned char>(c)) || std::strchr("_./:-", c) != nullptr))
      return false;
  return std::isdigit(static_cast<unsigned char>(s[0])) == 0 &&
         s.find(':') == std::string_view::npos;
}

std::string quoted(const std::string& s) {
  if (plain_name(s)) return s;
  std::string out = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string type_text(const Graph& g, const TensorType& t) {
  std::string out(fold8::name(t.dtype));
  out += to_string(t.shape, g.symbols);
  if (t.quant) out += " " + to_string(*t.quant);
  if (t.layout == Layout::channels_last) out += " nhwc";
  if (t.layout == Layout::packed_s8 || t.layout == Layout::packed_f32) out += " packed";
  if (t.layout == Layout::depthwise_s8 || t.layout == Layout::depthwise_f32)
    out += " packed_depthwise";
  return out;
}

struct AttributePrinter {
  std::string text;
  template <class T>
  void operator()(std::string_view field, const T& v) {
    text += " " + std::string(field) + "=" + form(v);
  }

  static std::string form(bool v) { return v ? "true" : "false"; }
  static std::string form(float v) { return number(v); }
  static std::string form(std::int64_t v) { return std::to_string(v); }
  static std::string form(const std::string& v) { return quoted(v); }
  static std::string form(const std::shared_ptr<const Graph>& v) {
    return v ? "{ " + std::to_string(v->live_nodes()) + " nodes }" : "{}";
  }
  static std::string form(const Ints& v) {
    std::string s = "[";
    for (std::size_t i = 0; i < v.size(); ++i) s += (i ? "," : "") + std::to_string(v[i]);
    return s + "]";
  }
  template <class E>
  requires std::is_enum_v<E>
  static std::string form(E v) { return std::string(enumerator_name(v)); }
};

std::string attributes(const Op& op) {
  AttributePrinter p;
  std::visit(
      [&](const auto& o) {
        using O = std::decay_t<decltype(o)>;
        const O defaults{};
        O::each_field_of(o, [&](std::string_view field, const auto& mine) {
          O::each_field_of(defaults, [&](std::string_view other, const auto& standard) {
            if constexpr (std::is_same_v<decltype(mine), decltype(standard)>)
              if (field == other && !(mine == standard)) p(field, mine);
          });
        });
      },
      op);
  return p.text;
}

std::string operand(const Graph& g, ValueId v) {
  return v == kNoValue ? "_" : quoted(g.value(v).name);
}

// The elements of a small f32 or s64 constant, `{1,2}`; empty for others.
std::string elements(const Graph& g, ValueId v) {
  constexpr std::int64_t kShown = 8;
  const TensorType& t = g.type(v);
  if (t.layout != Layout::plain || t.shape.count() > kShown) return "";
  std::string s = "{";
  if (t.dtype == DType::f32)
    for (float x : g.constant<float>(v)) s += (s.size() > 1 ? "," : "") + number(x);
  else if (t.dtype == DType::s64)
    for (std::int64_t x : g.constant<std::int64_t>(v))
      s += (s.size() > 1 ? "," : "") + std::to_string(x);
  else
    return "";
  return s + "}";
}

}  // namespace

std::string to_text(const Graph& g, NodeId id) {
  const Node& n = g.node(id);
  std::string line;
  for (std::size_t i = 0; i < n.outputs.size(); ++i) {
    if (i > 0) line += ", ";
    line += operand(g, n.outputs[i]);
    if (n.outputs[i] != kNoValue && g.value(n.outputs[i]).has_type)
      line += ": " + type_text(g, g.type(n.outputs[i]));
  }
  line += " = " + std::string(name(n.op)) + "(";
  for (std::size_t i = 0; i < n.inputs.size(); ++i)
    line += (i > 0 ? ", " : "") + operand(g, n.inputs[i]);
  return line + ")" + attributes(n.op);
}

std::string to_text(const Graph& g) {
  std::string out;
  for (ValueId v : g.inputs) out += quoted(g.value(v).name) + ": " + type_text(g, g.type(v)) + "\n";
  for (ValueId v = 0; v < g.value_count(); ++v)
    if (g.is_constant(v))
      out +=
          quoted(g.value(v).name) + " = const " + type_text(g, g.type(v)) + elements(g, v) + "\n";
  const auto order = g.topological_order();
  if (order.ok()) {
    for (NodeId n : *order) out += to_text(g, n) + "\n";
  } else {
    out += "# " + order.error().message + "\n";
    for (NodeId n = 0; n < g.node_count(); ++n)
      if (!g.node(n).dead) out += to_text(g, n) + "\n";
  }
  out += "return";
  for (std::size_t i = 0; i < g.outputs.size(); ++i)
    out += (i > 0 ? ", " : " ") + quoted(g.value(g.outputs[i]).name);
  return out + "\n";
}

}  // namespace fold8::graph
