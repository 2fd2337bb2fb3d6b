// Cost tables: what they say of layers between their rows, and what a file must not hold.
#include "fusion/cost_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fold8::fusion {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kHead =
    "# a comment\n# target: toy\n\nkind,m,n,k,int8_us,f32_us,int8_to_f32_us,f32_to_int8_us\n";

CostTable table_of(const std::string& rows) {
  auto t = CostTable::parse(kHead + rows, "toy.csv");
  EXPECT_TRUE(t.ok()) << t.error().message;
  return t.ok() ? *t : CostTable();
}

TEST(CostTable, ARowOfThatShapeGivesItsOwnTimes) {
  const CostTable t = table_of(
      "linear,1,64,64,2,3,2.5,4\n  linear , 2,64,64, 5,7,1,1 \r\n# "
      "between\nconv,1,64,64,11,13,1,1");
  EXPECT_EQ(t.target(), "toy");
  const auto c = t.estimate({CostKind::linear, 1, 64, 64});
  ASSERT_TRUE(c);
  EXPECT_EQ(c->int8_us, 2);
  EXPECT_EQ(c->f32_us, 3);
  EXPECT_EQ(c->int8_to_f32_us, 2.5);
  EXPECT_EQ(c->f32_to_int8_us, 4);
  EXPECT_EQ(t.estimate({CostKind::linear, 2, 64, 64})->int8_us, 5);
  EXPECT_EQ(t.estimate({CostKind::conv, 1, 64, 64})->f32_us, 13);
}

TEST(CostTable, BetweenRowsTheRateIsAMeanAndFarFromThemTheMultiplyAddsCount) {
  const CostTable t = table_of("linear,1,16,16,1,2,1,2\nlinear,16,16,16,8,32,8,32\n");
  // In the middle of both, in logarithms: sqrt(1/256 * 8/4096) a multiply-add.
  const auto middle = t.estimate({CostKind::linear, 4, 16, 16});
  EXPECT_NEAR(middle->int8_us, 1024 * std::sqrt(1.0 / 256 * 8 / 4096), 1e-9);
  EXPECT_NEAR(middle->f32_us, 1024 * 2.0 / 256, 1e-9);
  const CostTable one = table_of("conv,10,10,10,5,20,6,21\n");
  EXPECT_NEAR(one.estimate({CostKind::conv, 20, 30, 40})->int8_us, 5 * 24, 1e-9);
  EXPECT_NEAR(one.estimate({CostKind::conv, 20, 30, 40})->f32_to_int8_us, 21 * 24, 1e-9);
  EXPECT_EQ(one.estimate({CostKind::conv, 1, 1, 1})->f32_us, 20) << "never less than any row";
}

TEST(CostTable, OnlyTheFourNearestRowsCount) {
  std::string rows;
  for (int m : {8, 9, 11, 12})
    rows += "conv," + std::to_string(m) + ",1,1," + std::to_string(m) + ",1,1,1\n";
  rows += "conv,100000,1,1,1,1,1,1\n";
  EXPECT_NEAR(table_of(rows).estimate({CostKind::conv, 10, 1, 1})->int8_us, 10, 1e-9);
}

TEST(CostTable, KindsWithoutRowsAreTakenForOthers) {
  const CostTable t = table_of("conv,1,2,3,4,5,4,5\nquantize,10,1,1,1,0,0,0\n");
  for (CostKind k : {CostKind::grouped, CostKind::depthwise, CostKind::transposed})
    EXPECT_EQ(t.estimate({k, 1, 2, 3})->f32_us, 5) << name(k);
  EXPECT_NEAR(t.estimate({CostKind::quantize_rows, 5, 4, 1})->int8_us, 2, 1e-9);
  EXPECT_EQ(t.estimate({CostKind::quantize_rows, 5, 4, 1})->f32_us, 0);
  EXPECT_FALSE(t.estimate({CostKind::linear, 1, 2, 3}));
}

TEST(CostTable, RefusedWithFileAndLine) {
  const std::string row = "conv,1,2,3,4,5,4,5\n";
  const std::pair<std::string, std::vector<std::string>> refused[] = {
      {"", {"toy.csv", "header"}},
      {"# target: toy\n", {"toy.csv", "header"}},
      {kHead, {"toy.csv", "no rows"}},
      {kHead.substr(kHead.find("kind")) + row, {"toy.csv", "# target: NAME"}},
      {"# target: a\n" + kHead, {"toy.csv:3", "second target"}},
      {"# target: a\nkind,m,n,k\n", {"toy.csv:2", "expected the header", "'kind,m,n,k'"}},
      {kHead + "conv,1,2,3,4,5\n", {"toy.csv:5", "6 fields", "expected 8"}},
      {kHead + "conv,1,2,3,4,5,6,7,8\n", {"toy.csv:5", "9 fields"}},
      {kHead + row + "magic,1,2,3,4,5,6,7\n", {"toy.csv:6", "'magic'", "depthwise"}},
      {kHead + "conv,0,2,3,4,5,6,7\n", {"toy.csv:5", "m is '0'"}},
      {kHead + "conv,1,-2,3,4,5,6,7\n", {"toy.csv:5", "n is '-2'"}},
      {kHead + "conv,1,2,3.5,4,5,6,7\n", {"toy.csv:5", "k is '3.5'"}},
      {kHead + "conv,1,2,3000000000,4,5,6,7\n", {"toy.csv:5", "k is"}},
      {kHead + "conv,1,2,99999999999999999999,4,5,6,7\n", {"toy.csv:5", "k is"}},
      {kHead + "conv,1,2,3,,5,6,7\n", {"toy.csv:5", "int8_us is ''"}},
      {kHead + "conv,1,2,3,4,nan,6,7\n", {"toy.csv:5", "f32_us is 'nan'"}},
      {kHead + "conv,1,2,3,4,5,inf,7\n", {"toy.csv:5", "int8_to_f32_us is 'inf'"}},
      {kHead + "conv,1,2,3,4,5,6,0\n", {"toy.csv:5", "f32_to_int8_us is '0'"}},
      {kHead + "conv,1,2,3,-4,5,6,7\n", {"toy.csv:5", "int8_us is '-4'"}},
      {kHead + "conv,1,2,3,4us,5,6,7\n", {"toy.csv:5", "int8_us is '4us'"}},
      {kHead + "conv,1,2,3,4e12,5,6,7\n", {"toy.csv:5", "int8_us"}},
      {kHead + "quantize,1,1,1,4,5,0,0\n", {"toy.csv:5", "f32_us is '5'", "no layer"}},
      {kHead + row + row, {"toy.csv:6", "same kind, m, n and k"}},
      {kHead + std::string(1, '\0') + row, {"toy.csv:5"}},
  };
  for (const auto& [text, words] : refused) {
    const auto t = CostTable::parse(text, "toy.csv");
    ASSERT_FALSE(t.ok()) << text;
    EXPECT_EQ(t.error().code, Code::invalid_model);
    for (const std::string& w : words) EXPECT_THAT(t.error().message, HasSubstr(w)) << text;
    EXPECT_LT(t.error().message.size(), 300u);
  }
}

TEST(CostTable, ThoseThatShipAreWholeAndOfTheTargetTheyAreNamedFor) {
  for (const std::string target : {"avx2", "avx512_vnni"}) {
    const auto text = shipped_cost_table(target);
    ASSERT_TRUE(text) << target;
    EXPECT_THAT(shipped_cost_table_names(), HasSubstr(target));
    const auto table = CostTable::parse(*text, target);
    ASSERT_TRUE(table.ok()) << table.error().message;
    EXPECT_EQ(table->target(), target);
    for (CostKind k : {CostKind::linear, CostKind::conv, CostKind::depthwise, CostKind::grouped,
                       CostKind::transposed, CostKind::quantize, CostKind::quantize_rows}) {
      const std::string row = "\n" + std::string(name(k)) + ",";
      EXPECT_THAT(std::string(*text), HasSubstr(row));
    }
  }
  EXPECT_FALSE(shipped_cost_table("reference"));
  EXPECT_FALSE(shipped_cost_table(""));
}

}  // namespace
}  // namespace fold8::fusion
