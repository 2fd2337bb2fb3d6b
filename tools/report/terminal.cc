// The report as a table of at most kWidth columns.
#include <fmt/format.h>

#include <algorithm>

#include "tools/report/advice.h"
#include "tools/report/report.h"
#include "tools/report/text.h"

namespace fold8::report {
namespace {

constexpr std::size_t kWidth = 100;

std::string decibels(const quant::ErrorSummary& e) {
  if (e.exact) return "exact";
  return e.sqnr_db ? fmt::format("{:.1f}", *e.sqnr_db) : "-";
}

std::string number(const char* format, const std::optional<double>& v) {
  return v ? fmt::format(fmt::runtime(format), *v) : "-";
}

// "0.012 %"; figures that would show as zero keep one digit.
std::string percent(const std::optional<double>& share) {
  if (!share) return "-";
  if (*share == 0) return "0 %";
  const double p = *share * 100;
  return p >= 10 ? fmt::format("{:.1f} %", p) : p >= 0.001 ? fmt::format("{:.3f} %", p) : "<.001 %";
}

// Left-justified in `width` characters, shortened if there are more.
std::string cell(const std::string& text, std::size_t width) {
  const std::string s = shortened(printable(text), width);
  return s + std::string(width - columns(s), ' ');
}

std::string paragraph(const std::string& text, std::size_t indent, const std::string& first = "") {
  std::string out, lead = first + std::string(indent - std::min(indent, columns(first)), ' ');
  for (const std::string& line : wrapped(printable(text), kWidth - indent)) {
    out += lead + line + "\n";
    lead = std::string(indent, ' ');
  }
  return out;
}

// Worst first: by own error, layers that cannot be run alone by their accumulated one, exact ones
// last.
double badness(const quant::LayerError& l) {
  const quant::ErrorSummary& e = l.own ? *l.own : l.accumulated;
  if (e.exact || !e.sqnr_db) return -1e9;
  return -*e.sqnr_db;
}

std::string head(const Report& r) {
  const Environment& env = r.environment;
  std::string out = paragraph(env.other.path + " against " + env.reference.path, 0);
  out += paragraph(
      fmt::format("{} samples, target {}, engine {}", r.comparison.samples, env.target, env.engine),
      0);
  if (env.random_data)
    out += "the data are random numbers: these figures say nothing about accuracy on real data\n";
  out += fmt::format("int8_mac_share {}   int8_attention_share {}\n",
                     number("{:.3f}", r.int8_mac_share), number("{:.3f}", r.int8_attention_share));
  for (const Accuracy& a : r.accuracy) {
    const quant::Interval interval = quant::difference_interval(a.counts);
    out += paragraph(
        fmt::format("accuracy of '{}': {:.2f} % reference, {:.2f} % other, difference {:+.2f} "
                    "points (95 % interval {:+.2f} to {:+.2f}; {} labels)",
                    a.output, a.counts.reference() * 100, a.counts.other() * 100,
                    a.counts.difference() * 100, interval.low * 100, interval.high * 100,
                    a.counts.samples()),
        0);
  }
  if (r.times && r.times->other_us > 0)
    out += fmt::format(
        "time of one sample: {:.3f} ms reference, {:.3f} ms other, {:.2f} times as "
        "fast ({} threads)\n",
        r.times->reference_us / 1e3, r.times->other_us / 1e3,
        r.times->reference_us / r.times->other_us, env.threads);
  return out;
}

std::string output_table(const Report& r) {
  constexpr std::size_t kName = 43;
  std::string out =
      fmt::format("\n{} {:>7} {:>9} {:>10} {:>9} {:>7} {:>7}\n", cell("output", kName), "SQNR dB",
                  "cosine", "max error", "rel L2", "top-1", "top-5");
  for (const auto& o : r.comparison.outputs)
    out += fmt::format("{} {:>7} {:>9} {:>10.4g} {:>9} {:>7} {:>7}\n", cell(o.name, kName),
                       decibels(o.error), number("{:.6f}", o.error.cosine), o.error.max_abs,
                       number("{:.2e}", o.error.rel_l2), number("{:.3f}", o.top1),
                       number("{:.3f}", o.top5));
  return out;
}

std::string layer_table(const Report& r, std::size_t most) {
  std::vector<const quant::LayerError*> layers;
  for (const auto& l : r.comparison.layers) layers.push_back(&l);
  if (layers.empty()) return "";
  std::stable_sort(layers.begin(), layers.end(),
                   [](auto* a, auto* b) { return badness(*a) > badness(*b); });
  layers.resize(std::min(most, layers.size()));
  const bool costs = !r.sensitivity.empty();
  const std::size_t name = costs ? 33 : 48;
  std::string out = fmt::format("\n{} of {} layers, largest own error first\n", layers.size(),
                                r.comparison.layers.size());
  out += fmt::format("{:>6} {:>6} ", "own", "accum");
  if (costs) out += fmt::format("{:>6} {:>7} ", "alone", "gain");
  out += fmt::format("{:>8} {:>5} {:<5} {:<14} {}\n", "clipped", "codes", "type", "operator",
                     "tensor");
  for (const auto* l : layers) {
    out += fmt::format("{:>6} {:>6} ", l->own ? decibels(*l->own) : "?", decibels(l->accumulated));
    if (costs) {
      const quant::LayerSensitivity* c = sensitivity_of(r, l->name);
      out += fmt::format(
          "{:>6} {:>7} ",
          c && c->alone_exact ? "exact" : number("{:.1f}", c ? c->alone_db : std::nullopt),
          number("{:+.2f}", c ? c->gain_db : std::nullopt));
    }
    out += fmt::format("{:>8} {:>5} {:<5} {} {}\n", percent(l->clipped),
                       l->codes_used ? std::to_string(*l->codes_used) : "-",
                       l->int8 ? "int8" : "float", cell(l->op, 14),
                       shortened(printable(l->name), name));
  }
  out += paragraph(
      "SQNR in dB, more is better. own: the layer alone, from float inputs; accum: in the whole "
      "run; ?: cannot be run alone. clipped: float values beyond the codes; codes: used of 256.",
      0);
  if (costs)
    out += paragraph(
        "alone: SQNR of the worst output if only this layer is INT8; gain: what it wins if this "
        "layer is float.",
        0);
  return out;
}

}  // namespace

std::string terminal_text(const Report& r, std::size_t worst_layers) {
  std::string out = head(r) + output_table(r) + layer_table(r, worst_layers) + what_to_do(r);
  for (const Check& c : r.checks)
    if (!c.failure.empty()) out += paragraph(c.failure, 8, "MISSED: ");
  return out;
}

}  // namespace fold8::report
