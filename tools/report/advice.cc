#include "tools/report/advice.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/report/metrics_json.h"
#include "tools/report/text.h"

namespace fold8::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kShown = 3;

// The finding about this layer: its own, or one it suffers from too.
const quant::Finding* finding_of(const Report& r, const std::string& layer) {
  for (const quant::Finding& f : r.findings)
    if (f.layer == layer) return &f;
  for (const quant::Finding& f : r.findings)
    if (f.tensor == layer || std::find(f.also.begin(), f.also.end(), layer) != f.also.end())
      return &f;
  return nullptr;
}

Json fixes_json(const std::vector<quant::Fix>& fixes) {
  Json list = Json::array();
  for (const quant::Fix& f : fixes)
    list.push_back({{"flag", f.flag},
                    {"text", quant::text(f)},
                    {"gained_db", number_or_null(f.gained_db)},
                    {"measured", f.measured},
                    {"float_mac_share", f.float_share}});
  return list;
}

// Lines of at most 100 columns, all but the first behind `indent` spaces.
std::string paragraph(const std::string& text, std::size_t indent, const std::string& start) {
  std::string out;
  for (const std::string& line : wrapped(printable(text), 100 - indent))
    out += (out.empty() ? start : std::string(indent, ' ')) + line + "\n";
  return out;
}

}  // namespace

std::string what_to_do(const Report& r) {
  if (r.findings.empty()) return "";
  std::string out = "\nWhat to do\n";
  for (std::size_t i = 0; i < std::min(kShown, r.findings.size()); ++i) {
    const quant::Finding& f = r.findings[i];
    out += fmt::format("{}. {}", i + 1, printable(f.layer));
    if (f.share) out += fmt::format(" (alone {:.0f} % of the error)", *f.share * 100);
    out += "\n" + paragraph(f.cause.text, 10, "   cause: ");
    for (const quant::Fix& fix : f.fixes)  // a flag is never broken: it is there to be pasted
      out += fix.flag.empty() ? paragraph(quant::text(fix), 10, "   model: ")
                              : fmt::format("   try:   {}\n", fix.flag) +
                                    paragraph(quant::text(fix), 10, "          ");
  }
  if (r.findings.size() > kShown)
    out += fmt::format("{} more in the JSON report\n", r.findings.size() - kShown);
  return out;
}

void add_advice(const Report& r, Json& json) {
  for (Json& layer : json["layers"]) {
    const quant::Finding* f = finding_of(r, layer["name"].get<std::string>());
    layer["cause"] = f ? Json(f->cause.text) : Json(nullptr);
    layer["cause_kind"] = f ? Json(quant::name(f->cause.kind)) : Json(nullptr);
    layer["fixes"] = f ? fixes_json(f->fixes) : Json::array();
  }
  json["what_to_do"] = Json::array();
  for (const quant::Finding& f : r.findings)
    json["what_to_do"].push_back({{"layer", f.layer},
                                  {"tensor", f.tensor.empty() ? Json(nullptr) : Json(f.tensor)},
                                  {"also", f.also},
                                  {"error_share", number_or_null(f.share)},
                                  {"cause_kind", quant::name(f.cause.kind)},
                                  {"cause", f.cause.text},
                                  {"channels", f.cause.channels},
                                  {"samples", f.cause.samples},
                                  {"fixes", fixes_json(f.fixes)}});
}

}  // namespace fold8::report
