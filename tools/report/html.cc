#include <string_view>

#include "tools/report/page.h"
#include "tools/report/plot_data.h"
#include "tools/report/report.h"

namespace fold8::report {
namespace {

using Json = nlohmann::ordered_json;

Json page_data(const Report& r) {
  const PlotSize size = plot_size(r.comparison.layers.size());
  Json j{{"report", to_json(r)}};
  j["plots"] = Json::array();
  for (const auto& l : r.comparison.layers) j["plots"].push_back(plots_json(l, size));
  j["weights"] = Json::array();
  for (const auto& w : r.weights) j["weights"].push_back(weights_json(w, size));
  return j;
}

// JSON that cannot end the element it stands in, whatever the names are: '<' occurs in strings
// only.
std::string embeddable(const Json& data) {
  std::string out;
  for (const char c : data.dump(-1, ' ', true, Json::error_handler_t::replace)) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

// `text` in the place of the one `mark`.
void put(std::string& page, std::string_view mark, std::string_view text) {
  page.replace(page.find(mark), mark.size(), text);
}

}  // namespace

std::string html(const Report& r) {
  std::string page(kPageHtml);
  put(page, "/*STYLE*/", kPageCss);
  put(page, "/*SCRIPT*/", kPageJs);
  put(page, "/*DATA*/", embeddable(page_data(r)));  // last: names may look like marks
  return page;
}

}  // namespace fold8::report
