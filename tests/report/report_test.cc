#include "tools/report/report.h"

#include <gmock/gmock.h>

#include <regex>
#include <sstream>

#include "tools/report/page.h"
#include "tools/report/plot_data.h"
#include "tools/report/text.h"

namespace fold8::report {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

quant::ErrorSummary error(double db, double cosine = 0.99, double max_abs = 0.5) {
  quant::ErrorSummary e;
  e.sqnr_db = db;
  e.cosine = cosine;
  e.max_abs = max_abs;
  e.rel_l2 = 0.01;
  e.elements = 10;
  return e;
}
quant::ErrorSummary exact() {
  quant::ErrorSummary e;
  e.exact = true;
  e.elements = 10;
  return e;
}

// Outputs: logits (class scores), box, mask (exact), none (no elements).
Report sample() {
  Report r;
  r.environment.reference.path = "float.f8";
  r.environment.other.path = "int8.f8";
  r.environment.target = "avx2";
  r.environment.data = {"held_out"};
  r.comparison.samples = 7;
  r.comparison.outputs = {{"logits", error(21.5), 0.97, 1.0, 0.001},
                          {"box", error(40, 0.9999, 3), {}, {}, {}},
                          {"mask", exact(), {}, {}, {}},
                          {"none", {}, {}, {}, {}}};
  quant::LayerError l;
  l.name =
      "model/encoder/layer.0/attention/output/dense/a_rather_long_name_of_a_tensor/Add_output_0";
  l.node = "dense";
  l.op = "linear";
  l.int8 = true;
  l.own = error(30);
  l.accumulated = error(25);
  l.clipped = 0.00002;
  l.codes_used = 77;
  r.comparison.layers.push_back(l);
  l.name = "second";
  l.own.reset();
  l.own_missing = "operand 'z' has no float counterpart";
  l.accumulated = exact();
  r.comparison.layers.push_back(l);
  r.accuracy = {{"logits", {90, 5, 2, 3}}};
  return r;
}

Thresholds thresholds(const std::vector<std::string>& sqnr) {
  Thresholds t;
  for (const auto& text : sqnr) EXPECT_TRUE(t.min_sqnr_db.add(text, -1e9, 1e9).ok()) << text;
  return t;
}
std::vector<std::string> failures(const Thresholds& t, Report r = sample()) {
  judge(t, r);
  std::vector<std::string> list;
  for (const Check& c : r.checks)
    if (!c.failure.empty()) list.push_back(c.failure);
  EXPECT_EQ(list.empty(), r.passed());
  return list;
}

TEST(Thresholds, WhatIsMissedSaysByHowMuch) {
  EXPECT_THAT(failures(thresholds({"30"})),
              ElementsAre("output 'logits': SQNR is 21.5 dB, at least 30 dB asked for: 8.5 dB "
                          "short"));
  EXPECT_TRUE(failures(thresholds({"21.5"})).empty());
  Thresholds t;
  ASSERT_TRUE(t.max_abs.add("2", 0, 1e9).ok());
  EXPECT_THAT(failures(t), ElementsAre("output 'box': largest error is 3, at most 2 asked for: 1 "
                                       "too much"));
}

TEST(Thresholds, AnOutputCanHaveItsOwnLimit) {
  EXPECT_TRUE(failures(thresholds({"logits=20", "30"})).empty());
  EXPECT_THAT(failures(thresholds({"30", "box=50", "logits=20"})), ElementsAre(HasSubstr("'box'")));
  EXPECT_TRUE(failures(thresholds({"mask=300"})).empty());  // exact
  EXPECT_THAT(failures(thresholds({"none=1"})), ElementsAre(HasSubstr("undefined")));
  EXPECT_TRUE(failures(thresholds({"-3", "logits=-3"})).empty());
}

TEST(Thresholds, AGateThatMeasuresNothingDoesNotPass) {
  Report r = sample();
  r.comparison.outputs[0].top1.reset();
  Thresholds t;
  ASSERT_TRUE(t.min_top1.add("0.5", 0, 1).ok());
  EXPECT_THAT(failures(t, r), ElementsAre(HasSubstr("top-1 agreement: no output")));
  Thresholds named;
  ASSERT_TRUE(named.min_top1.add("box=0.5", 0, 1).ok());
  EXPECT_THAT(failures(named), ElementsAre(AllOf(HasSubstr("'box'"), HasSubstr("undefined"))));
}

TEST(Thresholds, AGateWithoutElementsSaysSo) {
  Report empty = sample();
  empty.comparison.outputs = {{"none", {}, {}, {}, {}}};
  EXPECT_THAT(failures(thresholds({"3"}), empty), ElementsAre(HasSubstr("empty in every sample")));
  empty.comparison.samples = 0;
  EXPECT_THAT(failures(thresholds({"3"}), empty), ElementsAre(HasSubstr("no sample")));
}

TEST(Thresholds, AccuracyAgainstLabels) {
  Thresholds t;
  ASSERT_TRUE(t.min_accuracy.add("0.93", 0, 1).ok());
  ASSERT_TRUE(t.max_accuracy_drop.add("0.01", 0, 1).ok());
  EXPECT_THAT(
      failures(t),
      ElementsAre(AllOf(HasSubstr("accuracy is 0.92"), HasSubstr("0.01 short")),
                  AllOf(HasSubstr("loss of accuracy is 0.03"), HasSubstr("0.02 too much"))));
}

TEST(Thresholds, Refusals) {
  for (const char* text : {"", "x", "1x", "logits=", "logits=nan", "inf", "1e999", "2", "-1"}) {
    Limits l;
    EXPECT_FALSE(l.add(text, 0, 1).ok()) << text;
    EXPECT_TRUE(l.empty());
  }
  Limits twice;
  ASSERT_TRUE(twice.add("1", 0, 1).ok());
  EXPECT_THAT(twice.add("0.5", 0, 1).error().message, HasSubstr("already"));
  ASSERT_TRUE(twice.add("a=b=1", 0, 1).ok());
  EXPECT_EQ(twice.of("a=b"), 1.0);
  EXPECT_THAT(twice.add("a=b=0.5", 0, 1).error().message, HasSubstr("already"));
  const Status s = check_names(thresholds({"lgits=3"}), {"logits", "box"});
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().code, Code::invalid_argument);
  EXPECT_THAT(s.error().message, AllOf(HasSubstr("'lgits'"), HasSubstr("logits, box")));
}

TEST(Terminal, FitsAHundredColumns) {
  Report r = sample();
  r.environment.other.path = "int8\x1b[31m.f8";
  r.comparison.layers[1].name =
      std::string("a\x1b]0;title\x07\xff\xe2\x80\xae") + std::string(400, 'b');
  r.sensitivity = {{r.comparison.layers[0].name, 12.5, -0.25, {12.5}, {-0.25}, false, ""}};
  judge(thresholds({"300"}), r);
  for (const bool costs : {true, false}) {
    if (!costs) r.sensitivity.clear();
    const std::string text = terminal_text(r, 20);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(columns(line), 100u) << line;
    for (const char c : text) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20);
    EXPECT_THAT(text, AllOf(HasSubstr("own: the layer alone"), HasSubstr("MISSED"),
                            HasSubstr("95 % interval"), HasSubstr("\xe2\x80\xa6")));
    EXPECT_EQ(text.find("-0.25") != std::string::npos, costs);
  }
}

TEST(Text, LongNamesKeepTheirEnds) {
  EXPECT_EQ(shortened("abcdefgh", 8), "abcdefgh");
  EXPECT_EQ(shortened("abcdefghi", 8), "abcd\xe2\x80\xa6ghi");
  EXPECT_EQ(columns(shortened(std::string("\xc3\xbc\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4\xc3\xb6"), 4)),
            4u);
  EXPECT_EQ(printable("a\nb\x01"), "a b ");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");  // a surrogate
  EXPECT_EQ(printable("\xc3"), "\xef\xbf\xbd");
  EXPECT_THAT(wrapped("a bb  ccc", 4), ElementsAre("a bb", "ccc"));
}

TEST(Json, WhatIsUndefinedIsNull) {
  Report r = sample();
  r.comparison.outputs[1].error.cosine.reset();
  r.comparison.outputs[1].error.sqnr_db = std::nullopt;
  const auto j = to_json(r);
  EXPECT_EQ(j["schema"], "fold8.report/1");
  EXPECT_TRUE(j["outputs"][1]["sqnr_db"].is_null());
  EXPECT_TRUE(j["outputs"][1]["cosine"].is_null());
  EXPECT_TRUE(j["outputs"][2]["exact"]);
  EXPECT_TRUE(j["layers"][1]["own"]["sqnr_db"].is_null());
  EXPECT_EQ(j["layers"][1]["own"]["why"], "operand 'z' has no float counterpart");
  EXPECT_TRUE(j["layers"][0]["alone_db"].is_null());
  EXPECT_NEAR(j["accuracy"]["difference"].get<double>(), -0.03, 1e-12);
  EXPECT_TRUE(j["passed"]);
}

TEST(JUnit, NamesAreEscaped) {
  Report r = sample();
  r.comparison.outputs[0].name = "a<b>&\"\x01\xff";
  Thresholds t = thresholds({"30"});
  judge(t, r);
  const std::string xml = junit_xml(r);
  EXPECT_THAT(xml, HasSubstr("tests=\"3\" failures=\"1\""));
  EXPECT_THAT(xml, HasSubstr("name=\"a&lt;b&gt;&amp;&quot; \xef\xbf\xbd: SQNR\""));
  EXPECT_THAT(xml, Not(HasSubstr("\x01")));
}

TEST(Html, NamesCannotLeaveTheirScript) {
  Report r = sample();
  r.comparison.layers[0].name = "</script><script>alert(1)</script>/*SCRIPT*/<!--";
  const std::string page = html(r);
  const std::string::size_type data = page.find("id=\"data\">");
  ASSERT_NE(data, std::string::npos);
  const std::string text = page.substr(data + 10, page.find("</script>", data) - data - 10);
  const auto j = nlohmann::json::parse(text);
  EXPECT_EQ(j["report"]["layers"][0]["name"], r.comparison.layers[0].name);
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
}

TEST(Html, NeedsNothingElse) {
  for (const std::string_view part : {kPageHtml, kPageCss, kPageJs}) {
    const std::string text(part);
    std::smatch found;
    EXPECT_FALSE(std::regex_search(text, found, std::regex("https?://(?!www.w3.org/2000/svg)")))
        << found.str();
    EXPECT_THAT(text, Not(HasSubstr("@import")));
    EXPECT_THAT(text, Not(HasSubstr("innerHTML")));
  }
}

TEST(PlotData, DigitsCoverTheRange) {
  EXPECT_EQ(digits({0, 1, 0.5, -3, 7}, 0, 1), "AA//gAAA//");
  EXPECT_EQ(digits({5, 6}, 5, 5), "AAAA");
  EXPECT_EQ(digits({}, 0, 1), "");
}

}  // namespace
}  // namespace fold8::report
