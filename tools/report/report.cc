#include "tools/report/report.h"

#include <algorithm>

#include "tools/report/advice.h"
#include "tools/report/metrics_json.h"

namespace fold8::report {
namespace {

using Json = nlohmann::ordered_json;

template <class Item>
const Item* find(const std::vector<Item>& items, const std::string& name) {
  const auto it =
      std::find_if(items.begin(), items.end(), [&](const Item& item) { return item.name == name; });
  return it == items.end() ? nullptr : &*it;
}

Json text_or_null(const std::string& s) { return s.empty() ? Json(nullptr) : Json(s); }

Json file_json(const FileFacts& f) {
  return {{"path", f.path}, {"bytes", f.bytes}, {"xxh3", text_or_null(f.xxh3)}};
}

Json accuracy_json(const Accuracy& a) {
  const quant::PairedCounts& n = a.counts;
  const quant::Interval interval = quant::difference_interval(n);
  return {{"output", a.output},
          {"samples", n.samples()},
          {"reference", n.reference()},
          {"other", n.other()},
          {"difference", n.difference()},
          {"interval95", {interval.low, interval.high}},
          {"mcnemar_p", quant::mcnemar_p(n)},
          {"both_right", n.both},
          {"only_reference_right", n.only_reference},
          {"only_other_right", n.only_other},
          {"both_wrong", n.neither}};
}

Json output_json(const Report& r, const quant::OutputComparison& o) {
  Json e{{"name", o.name}};
  e.update(error_json(o.error));
  e["elements"] = o.error.elements;
  e["top1_agreement"] = number_or_null(o.top1);
  e["top5_agreement"] = number_or_null(o.top5);
  e["kl"] = number_or_null(o.kl);
  if (const Accuracy* a = accuracy_of(r, o.name)) e["accuracy"] = accuracy_json(*a);
  return e;
}

Json numbers_json(const std::vector<std::optional<double>>& numbers) {
  Json list = Json::array();
  for (const auto& v : numbers) list.push_back(number_or_null(v));
  return list;
}

// What was asked for beside the errors: what the layer costs at the outputs, why it is off, its
// time.
void add_findings(const Report& r, const std::string& layer, Json& j) {
  j["alone_db"] = j["gain_db"] = nullptr;
  if (const quant::LayerSensitivity* s = sensitivity_of(r, layer)) {
    j["alone_db"] = number_or_null(s->alone_db);
    j["alone_exact"] = s->alone_exact;
    j["gain_db"] = number_or_null(s->gain_db);
    j["alone_outputs_db"] = numbers_json(s->alone_outputs_db);
    j["gain_outputs_db"] = numbers_json(s->gain_outputs_db);
    if (!s->why_missing.empty()) j["sensitivity_missing"] = s->why_missing;
  }
  j["cause"] = j["cause_kind"] = nullptr;
  j["fixes"] = Json::array();
  if (!r.times) return;
  const LayerTime* time = find(r.times->layers, layer);
  j["time_us"] = {{"reference", number_or_null(time ? time->reference_us : std::nullopt)},
                  {"other", number_or_null(time ? time->other_us : std::nullopt)}};
}

Json layer_json(const Report& r, const quant::LayerError& l) {
  Json e{{"name", l.name}, {"node", l.node}, {"op", l.op}, {"int8", l.int8}, {"inside", l.inside}};
  e["own"] = l.own ? error_json(*l.own) : Json{{"sqnr_db", nullptr}, {"why", l.own_missing}};
  e["accumulated"] = error_json(l.accumulated);
  e["clipped"] = number_or_null(l.clipped);
  e["codes_used"] = l.codes_used ? Json(*l.codes_used) : Json(nullptr);
  add_findings(r, l.name, e);
  return e;
}

}  // namespace

bool Report::passed() const {
  return std::all_of(checks.begin(), checks.end(),
                     [](const Check& c) { return c.failure.empty(); });
}

const quant::OutputComparison* worst_output(const Report& r) {
  const quant::OutputComparison* worst = nullptr;
  for (const auto& o : r.comparison.outputs)
    if (o.error.sqnr_db && (worst == nullptr || *o.error.sqnr_db < *worst->error.sqnr_db))
      worst = &o;
  return worst;
}

const Accuracy* accuracy_of(const Report& r, const std::string& output) {
  const auto it = std::find_if(r.accuracy.begin(), r.accuracy.end(),
                               [&](const Accuracy& a) { return a.output == output; });
  return it == r.accuracy.end() ? nullptr : &*it;
}
const quant::LayerSensitivity* sensitivity_of(const Report& r, const std::string& layer) {
  return find(r.sensitivity, layer);
}

Json to_json(const Report& r) {
  const Environment& env = r.environment;
  Json j{
      {"schema", "fold8.report/1"},
      {"reference", env.reference.path},
      {"other", env.other.path},
      {"target", env.target},
      {"engine", env.engine},
      {"cpu", env.cpu},
      {"version", env.version},
      {"threads", env.threads},
      {"files", {{"reference", file_json(env.reference)}, {"other", file_json(env.other)}}},
      {"data",
       {{"paths", env.data}, {"random", env.random_data}, {"xxh3", text_or_null(env.data_xxh3)}}},
      {"samples", r.comparison.samples}};
  j["int8_mac_share"] = number_or_null(r.int8_mac_share);
  j["int8_attention_share"] = number_or_null(r.int8_attention_share);
  if (!r.accuracy.empty()) j["accuracy"] = accuracy_json(r.accuracy[0]);
  j["outputs"] = Json::array();
  for (const auto& o : r.comparison.outputs) j["outputs"].push_back(output_json(r, o));
  j["layers"] = Json::array();
  for (const auto& l : r.comparison.layers) j["layers"].push_back(layer_json(r, l));
  add_advice(r, j);
  if (r.times) j["time_us"] = {{"reference", r.times->reference_us}, {"other", r.times->other_us}};
  j["checks"] = Json::array();
  j["missed"] = Json::array();
  for (const Check& c : r.checks) {
    j["checks"].push_back({{"output", text_or_null(c.output)},
                           {"what", c.what},
                           {"unit", c.unit},
                           {"at_least", c.at_least},
                           {"limit", number_or_null(c.limit)},
                           {"value", number_or_null(c.value)},
                           {"exact", c.exact},
                           {"passed", c.failure.empty()}});
    if (!c.failure.empty()) j["missed"].push_back(c.failure);
  }
  j["passed"] = r.passed();
  return j;
}

}  // namespace fold8::report
