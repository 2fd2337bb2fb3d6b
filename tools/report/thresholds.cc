#include "tools/report/thresholds.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "tools/report/report.h"

namespace fold8::report {

Status Limits::add(const std::string& text, double low, double high) {
  const std::size_t equals = text.rfind('=');
  const std::string number = equals == std::string::npos ? text : text.substr(equals + 1);
  double value = 0;
  const char* end = number.data() + number.size();
  const auto r = std::from_chars(number.data(), end, value);
  if (r.ec != std::errc() || r.ptr != end || !std::isfinite(value))
    return invalid_argument("'" + text + "': expected a number, or OUTPUT=NUMBER");
  if (value < low || value > high)
    return invalid_argument(
        fmt::format("'{}': expected a number from {:g} to {:g}", text, low, high));
  if (equals == std::string::npos) {
    if (every_)
      return invalid_argument("'" + text + "': there is a limit for every output already");
    every_ = value;
    return ok_status();
  }
  const std::string output = text.substr(0, equals);
  if (names(output)) return invalid_argument("'" + text + "': that output has a limit already");
  named_.push_back({output, value});
  return ok_status();
}

std::optional<double> Limits::of(const std::string& output) const {
  for (const auto& [name, value] : named_)
    if (name == output) return value;
  return every_;
}

bool Limits::names(const std::string& output) const {
  return std::any_of(named_.begin(), named_.end(),
                     [&](const auto& limit) { return limit.first == output; });
}

namespace {

// A figure that limits apply to.
struct Figure {
  const char* what;
  const char* unit;
  bool at_least;
};

// What an output has of it: an exact one passes any limit on likeness, an undefined one none.
struct Value {
  std::optional<double> number;
  bool exact = false;
};

std::string failure_of(const Check& c) {
  const std::string limit =
      fmt::format("{} {:g}{} asked for", c.at_least ? "at least" : "at most", *c.limit, c.unit);
  if (c.exact) return "";
  if (!c.value) return fmt::format("output '{}': {} is undefined, {}", c.output, c.what, limit);
  const double missing = c.at_least ? *c.limit - *c.value : *c.value - *c.limit;
  if (missing <= 0) return "";
  return fmt::format("output '{}': {} is {:.6g}{}, {}: {:.2g}{} {}", c.output, c.what, *c.value,
                     c.unit, limit, missing, c.unit, c.at_least ? "short" : "too much");
}

// Why no output has a figure.
const char* missing_figure(const Report& report) {
  if (report.comparison.samples == 0) return "there was no sample, nothing was compared";
  const auto& outputs = report.comparison.outputs;
  return std::all_of(outputs.begin(), outputs.end(),
                     [](const auto& o) { return o.error.elements == 0; })
             ? "all outputs are empty in every sample, nothing was compared"
             : "no output has that figure";
}

// value(output): what is judged. applies(output): whether a limit for every output concerns it.
template <class Applies, class ValueOf>
void judge(const Figure& f, const Limits& limits, const Applies& applies, const ValueOf& value,
           Report& report) {
  if (limits.empty()) return;
  bool any = false;
  for (const auto& o : report.comparison.outputs) {
    const std::optional<double> limit = limits.of(o.name);
    if (!limit || !(applies(o) || limits.names(o.name))) continue;
    any = true;
    const Value v = value(o);
    Check c{o.name, f.what, f.unit, f.at_least, v.exact, limit, v.number, ""};
    c.failure = failure_of(c);
    report.checks.push_back(std::move(c));
  }
  if (!any)
    report.checks.push_back({"", f.what, f.unit, f.at_least, false, std::nullopt, std::nullopt,
                             fmt::format("{}: {}", f.what, missing_figure(report))});
}

}  // namespace

Status check_names(const Thresholds& t, const std::vector<std::string>& outputs) {
  for (const Limits* limits : {&t.min_sqnr_db, &t.min_cosine, &t.min_top1, &t.max_abs,
                               &t.min_accuracy, &t.max_accuracy_drop})
    for (const auto& [name, value] : limits->named())
      if (std::find(outputs.begin(), outputs.end(), name) == outputs.end())
        return invalid_argument(
            fmt::format("a threshold names output '{}'; the outputs that both models have are: {}",
                        name, fmt::join(outputs, ", ")));
  return ok_status();
}

void judge(const Thresholds& t, Report& r) {
  using Output = quant::OutputComparison;
  const auto filled = [](const Output& o) { return o.error.elements > 0; };
  const auto classes = [](const Output& o) { return o.top1.has_value(); };
  const auto labelled = [&](const Output& o) { return accuracy_of(r, o.name) != nullptr; };
  judge(
      {"SQNR", " dB", true}, t.min_sqnr_db, filled,
      [](const Output& o) {
        return Value{o.error.sqnr_db, o.error.exact};
      },
      r);
  judge(
      {"cosine", "", true}, t.min_cosine, filled,
      [](const Output& o) {
        return Value{o.error.cosine, o.error.exact};
      },
      r);
  judge(
      {"largest error", "", false}, t.max_abs, filled,
      [&](const Output& o) {
        return Value{filled(o) ? std::optional(o.error.max_abs) : std::nullopt};
      },
      r);
  judge(
      {"top-1 agreement", "", true}, t.min_top1, classes,
      [](const Output& o) { return Value{o.top1}; }, r);
  judge(
      {"accuracy", "", true}, t.min_accuracy, labelled,
      [&](const Output& o) {
        const Accuracy* a = accuracy_of(r, o.name);
        return Value{a ? std::optional(a->counts.other()) : std::nullopt};
      },
      r);
  judge(
      {"loss of accuracy", "", false}, t.max_accuracy_drop, labelled,
      [&](const Output& o) {
        const Accuracy* a = accuracy_of(r, o.name);
        return Value{a ? std::optional(-a->counts.difference()) : std::nullopt};
      },
      r);
}

}  // namespace fold8::report
