#include <fmt/format.h>

#include <algorithm>

#include "tools/report/report.h"
#include "tools/report/text.h"

namespace fold8::report {
namespace {

// For attributes: what XML reserves, and control characters, which it forbids.
std::string escaped(const std::string& s) {
  std::string out;
  for (const char c : printable(s)) {
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
        out += c;
    }
  }
  return out;
}

}  // namespace

std::string junit_xml(const Report& r) {
  const auto failures = std::count_if(r.checks.begin(), r.checks.end(),
                                      [](const Check& c) { return !c.failure.empty(); });
  std::string out = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"fold8 report\" tests=\"{}\" "
      "failures=\"{}\">\n",
      r.checks.size(), failures);
  for (const Check& c : r.checks) {
    out +=
        fmt::format("  <testcase classname=\"{}\" name=\"{}\"", escaped(r.environment.other.path),
                    escaped(c.output.empty() ? c.what : c.output + ": " + c.what));
    out += c.failure.empty()
               ? "/>\n"
               : fmt::format("><failure message=\"{}\"/></testcase>\n", escaped(c.failure));
  }
  return out + "</testsuite>\n";
}

}  // namespace fold8::report
