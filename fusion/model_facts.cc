#include "fusion/model_facts.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "runtime/exec/session.h"

namespace fold8::fusion {
namespace {

using graph::Graph;
using graph::Node;

std::string number(double v) {
  char buffer[32];
  const auto r = std::to_chars(buffer, buffer + sizeof buffer, v);
  return {buffer, r.ptr};
}

std::optional<double> parse(const Graph& g, const std::string& key) {
  const auto it = g.metadata.find(key);
  if (it == g.metadata.end()) return std::nullopt;
  double v = 0;
  const auto r = std::from_chars(it->second.data(), it->second.data() + it->second.size(), v);
  return r.ec == std::errc() ? std::optional(v) : std::nullopt;
}

// Lists are stored as one string: items end with '\n', fields are separated by '\t' (neither occurs
// in names: cleaned).
std::string clean(std::string s) {
  for (char& c : s)
    if (c == '\n' || c == '\t') c = ' ';
  return s;
}

std::vector<std::vector<std::string>> rows(const Graph& g, const std::string& key) {
  std::vector<std::vector<std::string>> result;
  const auto it = g.metadata.find(key);
  if (it == g.metadata.end()) return result;
  std::string_view text = it->second;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    std::vector<std::string> fields;
    for (;;) {
      const std::size_t tab = line.find('\t');
      fields.emplace_back(line.substr(0, tab));
      if (tab == std::string_view::npos) break;
      line = line.substr(tab + 1);
    }
    result.push_back(std::move(fields));
  }
  return result;
}

std::string smoothed_text(const std::vector<SmoothedTensor>& smoothed) {
  std::string text;
  for (const SmoothedTensor& t : smoothed) {
    text += clean(t.tensor) + "\t" + clean(t.into) + "\t" + number(t.alpha) + "\t" +
            number(t.range_before) + "\t" + number(t.range_after) + "\t" +
            std::to_string(t.widest_channel);
    for (const std::string& l : t.layers) text += "\t" + clean(l);
    text += "\n";
  }
  return text;
}

double to_double(const std::string& s) {
  double v = 0;
  std::from_chars(s.data(), s.data() + s.size(), v);
  return v;
}

std::optional<SmoothedTensor> smoothed_from(const std::vector<std::string>& fields) {
  if (fields.size() < 6) return std::nullopt;
  SmoothedTensor t;
  t.tensor = fields[0];
  t.into = fields[1];
  t.alpha = to_double(fields[2]);
  t.range_before = to_double(fields[3]);
  t.range_after = to_double(fields[4]);
  t.widest_channel = static_cast<std::size_t>(std::max(0.0, to_double(fields[5])));
  t.layers.assign(fields.begin() + 6, fields.end());
  return t;
}

// Inputs of zeros; where no shapes are given, extents that are not known become small.
std::vector<Tensor> made_up_inputs(const Graph& g, const std::vector<Shape>& shapes) {
  std::vector<Tensor> inputs;
  for (std::size_t k = 0; k < g.inputs.size(); ++k) {
    const graph::ValueId v = g.inputs[k];
    Shape s = shapes.size() == g.inputs.size() ? shapes[k] : g.type(v).shape;
    for (int i = 0; i < s.rank(); ++i)
      if (!s[i].known()) s[i] = Dim(i == 0 ? 1 : s.rank() >= 4 && i >= 2 ? 64 : 16);
    constexpr std::int64_t kMost = std::int64_t{1}
                                   << 26;  // elements; larger inputs are not made up
    if (s.elements().value_or(kMost + 1) > kMost) return {};
    inputs.emplace_back(g.type(v).dtype, s);
  }
  return inputs;
}

struct OneRun {
  std::vector<Tensor> inputs;
  bool done = false;  // false: there is no sample, and a made-up one does not suit the model
};

Result<OneRun> run_once(exec::Session& session, const TypicalInput& input) {
  const Graph& g = session.model().graph();
  const bool real =
      !input.from_shapes && input.samples != nullptr && input.sample < input.samples->count();
  OneRun run;
  if (real) {
    FOLD8_TRY(run.inputs, input.samples->sample(input.sample));
  } else {
    run.inputs = made_up_inputs(g, input.shapes);
    if (run.inputs.size() != g.inputs.size()) return run;
  }
  std::vector<TensorView> views;
  for (const Tensor& t : run.inputs) views.push_back(t.view());
  const Status s = session.run(views);
  // What no sample could change is worth an error now.
  if (!s.ok() && (real || s.error().code == Code::unsupported)) return s.error();
  run.done = s.ok();
  return run;
}

}  // namespace

bool is_linear_layer(const Graph& g, const Node& n) {
  if (n.dead || n.inputs.size() < 2 || !g.is_constant(n.inputs[1])) return false;
  return std::holds_alternative<graph::Linear>(n.op) || std::holds_alternative<graph::Conv>(n.op);
}

bool is_int8_layer(const Graph& g, const Node& n) {
  return is_linear_layer(g, n) && is_quantizable(g.type(n.inputs[0]).dtype) &&
         is_quantizable(g.type(n.inputs[1]).dtype);
}

Result<MacShares> mac_shares(std::shared_ptr<const exec::Model> model, const TypicalInput& input) {
  const Graph& g = model->graph();
  FOLD8_TRY(auto session, exec::Session::create(model));
  session->enable_profile(true);
  FOLD8_TRY(const OneRun first, run_once(*session, input));
  if (!first.done) return MacShares{};
  double linear = 0, linear_int8 = 0, attention = 0, attention_int8 = 0;
  for (const exec::StepProfile& p : session->profile()) {
    const Node& n = g.node(p.node);
    if (is_linear_layer(g, n)) {
      linear += p.macs;
      if (is_int8_layer(g, n)) linear_int8 += p.macs;
    } else if (std::holds_alternative<graph::MatMul>(n.op)) {
      attention += p.macs;
      if (is_quantizable(g.type(n.inputs[0]).dtype)) attention_int8 += p.macs;
    } else if (const auto* op = std::get_if<graph::Attention>(&n.op)) {
      attention += p.macs;
      if (op->int8) attention_int8 += p.macs;
    }
  }
  MacShares shares;
  if (linear > 0) shares.linear = linear_int8 / linear;
  if (attention > 0) shares.attention = attention_int8 / attention;
  return shares;
}

Result<ShapeTable> shapes_of(std::shared_ptr<const exec::Model> model, const TypicalInput& input) {
  const Graph& g = model->graph();
  FOLD8_TRY(auto session, exec::Session::create(model));
  ShapeTable shapes;
  session->set_tap([&](graph::ValueId v, const TensorView& t) {
    shapes.insert_or_assign(g.value(v).name, t.shape);
    return ok_status();
  });
  FOLD8_TRY(const OneRun first, run_once(*session, input));
  if (!first.done) return ShapeTable{};
  for (std::size_t i = 0; i < g.inputs.size(); ++i)
    shapes.insert_or_assign(g.value(g.inputs[i]).name, first.inputs[i].shape());
  return shapes;
}

void store_facts(const ConvertSummary& s, bool is_float, Graph& g) {
  auto& m = g.metadata;
  m["fold8.kind"] = is_float ? "float" : "int8";
  if (!s.speed_target.empty()) m["fold8.speed_target"] = clean(s.speed_target);
  m["fold8.batch_norms_left"] = std::to_string(s.batch_norms_left);
  if (s.int8_mac_share) m["fold8.int8_mac_share"] = number(*s.int8_mac_share);
  if (s.int8_attention_share) m["fold8.int8_attention_share"] = number(*s.int8_attention_share);
  std::string declined, kept, quantized, tables, rotated, warnings;
  for (const Declined& d : s.declined)
    declined += clean(d.pass) + "\t" + clean(d.node) + "\t" + clean(d.why) + "\n";
  for (const FloatLayer& f : s.float_layers)
    kept += clean(f.node) + "\t" + clean(f.op) + "\t" + clean(f.why) + "\n";
  for (const std::string& q : s.quantized_layers) quantized += clean(q) + "\n";
  for (const std::string& t : s.quantized_tables) tables += clean(t) + "\n";
  for (const std::string& t : s.rotated) rotated += clean(t) + "\n";
  for (const std::string& w : s.warnings) warnings += clean(w) + "\n";
  m["fold8.declined"] = declined;
  if (!s.smoothed.empty()) m["fold8.smoothed"] = smoothed_text(s.smoothed);
  m["fold8.float_layers"] = kept;
  m["fold8.quantized_layers"] = quantized;
  if (!tables.empty()) m["fold8.quantized_tables"] = tables;
  if (!rotated.empty()) m["fold8.rotated"] = rotated;
  m["fold8.warnings"] = warnings;
}

ConvertSummary load_facts(const Graph& g) {
  ConvertSummary s;
  s.batch_norms_left = static_cast<int>(parse(g, "fold8.batch_norms_left").value_or(0));
  if (const auto it = g.metadata.find("fold8.speed_target"); it != g.metadata.end())
    s.speed_target = it->second;
  s.int8_mac_share = parse(g, "fold8.int8_mac_share");
  s.int8_attention_share = parse(g, "fold8.int8_attention_share");
  for (auto& r : rows(g, "fold8.declined"))
    if (r.size() == 3) s.declined.push_back({r[0], r[1], r[2]});
  for (auto& r : rows(g, "fold8.float_layers"))
    if (r.size() == 3) s.float_layers.push_back({r[0], r[1], r[2]});
  for (auto& r : rows(g, "fold8.quantized_layers")) s.quantized_layers.push_back(r[0]);
  for (auto& r : rows(g, "fold8.smoothed"))
    if (auto t = smoothed_from(r)) s.smoothed.push_back(*std::move(t));
  for (auto& r : rows(g, "fold8.quantized_tables")) s.quantized_tables.push_back(r[0]);
  for (auto& r : rows(g, "fold8.rotated")) s.rotated.push_back(r[0]);
  for (auto& r : rows(g, "fold8.warnings")) s.warnings.push_back(r[0]);
  return s;
}

}  // namespace fold8::fusion
