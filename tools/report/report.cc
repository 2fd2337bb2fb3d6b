#include "tools/report/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/report/metrics_json.h"

namespace fold8::report {
namespace {

using Json = nlohmann::ordered_json;

std::string decibels(const quant::ErrorSummary& e) {
  if (e.exact) return "exact";
  return e.sqnr_db ? fmt::format("{:.1f}", *e.sqnr_db) : "-";
}

// Worst first: by own error, layers that cannot be run alone by their accumulated one, exact ones
// last.
double badness(const quant::LayerError& l) {
  const quant::ErrorSummary& e = l.own ? *l.own : l.accumulated;
  if (e.exact || !e.sqnr_db) return -1e9;
  return -*e.sqnr_db;
}

// None if it was not asked for.
const quant::LayerSensitivity* sensitivity_of(const Report& r, const std::string& layer) {
  for (const auto& s : r.sensitivity)
    if (s.name == layer) return &s;
  return nullptr;
}

std::string alone_column(const quant::LayerSensitivity& s) {
  if (s.alone_exact) return "exact";
  return s.alone_db ? fmt::format("{:.1f}", *s.alone_db) : "-";
}

struct Check {
  std::string name, failure;  // failure empty: passed
};

std::vector<Check> checks(const Thresholds& t, const Report& r) {
  std::vector<Check> list;
  const auto add = [&](const std::string& output, const char* what, std::optional<double> limit,
                       std::optional<double> got, bool exact, bool at_least) {
    if (!limit) return;
    const bool passed = exact || (got && (at_least ? *got >= *limit : *got <= *limit));
    list.push_back({fmt::format("{}: {}", output, what),
                    passed ? ""
                           : fmt::format("output '{}': {} is {}, {} {:g} asked for", output, what,
                                         got ? fmt::format("{:.4g}", *got) : "undefined",
                                         at_least ? "at least" : "at most", *limit)});
  };
  for (const auto& o : r.comparison.outputs) {
    if (o.error.elements == 0) continue;  // nothing to compare (an empty output)
    add(o.name, "SQNR (dB)", t.min_sqnr_db, o.error.sqnr_db, o.error.exact, true);
    add(o.name, "cosine", t.min_cosine, o.error.cosine, o.error.exact, true);
    add(o.name, "max_abs", t.max_abs, o.error.max_abs, false, false);
    if (o.top1) add(o.name, "top-1 agreement", t.min_top1, o.top1, false, true);
  }
  return list;
}

template <class Item>
const Item* find(const std::vector<Item>& items, const std::string& name) {
  const auto it =
      std::find_if(items.begin(), items.end(), [&](const Item& item) { return item.name == name; });
  return it == items.end() ? nullptr : &*it;
}

// alone_db, gain_db, cause, cause_kind, fixes[]
void add_findings(const Report& r, const std::string& layer, Json& j) {
  const LayerInfluence* influence = find(r.influence, layer);
  j["alone_db"] = number_or_null(influence ? influence->alone_db : std::nullopt);
  j["gain_db"] = number_or_null(influence ? influence->gain_db : std::nullopt);
  if (influence && !influence->why_missing.empty()) j["influence_missing"] = influence->why_missing;
  const LayerAdvice* advice = find(r.advice, layer);
  j["cause"] = advice ? Json(advice->cause) : Json(nullptr);
  j["cause_kind"] = advice ? Json(advice->cause_kind) : Json(nullptr);
  j["fixes"] = Json::array();
  if (!advice) return;
  for (const FixText& f : advice->fixes)
    j["fixes"].push_back(
        {{"flag", f.flag.empty() ? Json(nullptr) : Json(f.flag)}, {"text", f.text}});
}

std::string escaped(const std::string& s) {
  std::string out;
  for (char c : s) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

}  // namespace

void judge(const Thresholds& thresholds, Report& report) {
  for (const Check& c : checks(thresholds, report))
    if (!c.failure.empty()) report.missed.push_back(c.failure);
}

std::string terminal_text(const Report& r, std::size_t worst_layers) {
  std::string out = fmt::format("{} against {}: {} samples, target {}, engine {}\n", r.other_path,
                                r.reference_path, r.comparison.samples, r.target, r.engine);
  out += fmt::format("int8_mac_share {}   int8_attention_share {}\n",
                     r.int8_mac_share ? fmt::format("{:.3f}", *r.int8_mac_share) : "-",
                     r.int8_attention_share ? fmt::format("{:.3f}", *r.int8_attention_share) : "-");
  if (r.accuracy)
    out += fmt::format("accuracy: {:.2f} % reference, {:.2f} % other ({} labels)\n",
                       r.accuracy->reference * 100, r.accuracy->other * 100, r.accuracy->samples);
  out += fmt::format("\n{:<40} {:>8} {:>9} {:>11} {:>9} {:>7} {:>7}\n", "output", "SQNR dB",
                     "cosine", "max error", "rel L2", "top-1", "top-5");
  for (const auto& o : r.comparison.outputs)
    out +=
        fmt::format("{:<40} {:>8} {:>9} {:>11.4g} {:>9} {:>7} {:>7}\n", o.name, decibels(o.error),
                    o.error.cosine ? fmt::format("{:.6f}", *o.error.cosine) : "-", o.error.max_abs,
                    o.error.rel_l2 ? fmt::format("{:.2e}", *o.error.rel_l2) : "-",
                    o.top1 ? fmt::format("{:.3f}", *o.top1) : "-",
                    o.top5 ? fmt::format("{:.3f}", *o.top5) : "-");
  std::vector<const quant::LayerError*> layers;
  for (const auto& l : r.comparison.layers) layers.push_back(&l);
  std::stable_sort(layers.begin(), layers.end(),
                   [](auto* a, auto* b) { return badness(*a) > badness(*b); });
  if (!layers.empty()) {
    out += fmt::format("\n{} of {} layers, largest own error first\n",
                       std::min(worst_layers, layers.size()), layers.size());
    if (!r.sensitivity.empty()) out += fmt::format("{:>8} {:>8} ", "alone dB", "gain dB");
    out += fmt::format("{:>8} {:>8} {:>9} {:>6} {:<5} {:<16} {}\n", "own dB", "accum dB", "clipped",
                       "codes", "type", "operator", "tensor");
  }
  for (std::size_t i = 0; i < std::min(worst_layers, layers.size()); ++i) {
    const auto& l = *layers[i];
    if (const auto* s = sensitivity_of(r, l.name))
      out += fmt::format("{:>8} {:>8} ", alone_column(*s),
                         s->gain_db ? fmt::format("{:+.2f}", *s->gain_db) : "-");
    out += fmt::format("{:>8} {:>8} {:>9} {:>6} {:<5} {:<16} {}\n", l.own ? decibels(*l.own) : "?",
                       decibels(l.accumulated),
                       l.clipped ? fmt::format("{:.3f} %", *l.clipped * 100) : "-",
                       l.codes_used ? std::to_string(*l.codes_used) : "-",
                       l.int8 ? "int8" : "float", l.op, l.name);
  }
  for (const std::string& m : r.missed) out += "MISSED: " + m + "\n";
  return out;
}

Json to_json(const Report& r) {
  Json j{{"schema", "fold8.report/1"},
         {"reference", r.reference_path},
         {"other", r.other_path},
         {"target", r.target},
         {"engine", r.engine},
         {"cpu", r.cpu},
         {"samples", r.comparison.samples}};
  j["int8_mac_share"] = number_or_null(r.int8_mac_share);
  j["int8_attention_share"] = number_or_null(r.int8_attention_share);
  if (r.accuracy)
    j["accuracy"] = {{"reference", r.accuracy->reference},
                     {"other", r.accuracy->other},
                     {"samples", r.accuracy->samples}};
  j["outputs"] = Json::array();
  for (const auto& o : r.comparison.outputs) {
    Json e{{"name", o.name}};
    e.update(error_json(o.error));
    e["top1_agreement"] = number_or_null(o.top1);
    e["top5_agreement"] = number_or_null(o.top5);
    e["kl"] = number_or_null(o.kl);
    j["outputs"].push_back(e);
  }
  j["layers"] = Json::array();
  for (const auto& l : r.comparison.layers) {
    Json e{
        {"name", l.name}, {"node", l.node}, {"op", l.op}, {"int8", l.int8}, {"inside", l.inside}};
    e["own"] = l.own ? error_json(*l.own) : Json{{"sqnr_db", nullptr}, {"why", l.own_missing}};
    e["accumulated"] = error_json(l.accumulated);
    e["clipped"] = number_or_null(l.clipped);
    if (const auto* s = sensitivity_of(r, l.name)) {
      e["alone_db"] = number_or_null(s->alone_db);
      e["alone_exact"] = s->alone_exact;
      e["gain_db"] = number_or_null(s->gain_db);
      e["alone_outputs_db"] = e["gain_outputs_db"] = Json::array();
      for (const auto& db : s->alone_outputs_db)
        e["alone_outputs_db"].push_back(number_or_null(db));
      for (const auto& db : s->gain_outputs_db) e["gain_outputs_db"].push_back(number_or_null(db));
      if (!s->why_missing.empty()) e["sensitivity_missing"] = s->why_missing;
    }
    e["codes_used"] = l.codes_used ? Json(*l.codes_used) : Json(nullptr);
    add_findings(r, l.name, e);
    j["layers"].push_back(e);
  }
  j["missed"] = r.missed;
  j["passed"] = r.missed.empty();
  return j;
}

std::string junit_xml(const Report& r, const Thresholds& thresholds) {
  const auto list = checks(thresholds, r);
  const auto failures =
      std::count_if(list.begin(), list.end(), [](const Check& c) { return !c.failure.empty(); });
  std::string out = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"fold8 report\" tests=\"{}\" "
      "failures=\"{}\">\n",
      list.size(), failures);
  for (const Check& c : list) {
    out += fmt::format("  <testcase classname=\"{}\" name=\"{}\"", escaped(r.other_path),
                       escaped(c.name));
    out += c.failure.empty()
               ? "/>\n"
               : fmt::format("><failure message=\"{}\"/></testcase>\n", escaped(c.failure));
  }
  return out + "</testsuite>\n";
}

}  // namespace fold8::report
