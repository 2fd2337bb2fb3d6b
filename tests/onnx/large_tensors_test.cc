// Large weights are read from the file into their place; nothing else of the import may notice.
#include <gmock/gmock.h>

#include "tests/data/temp_folder.h"
#include "tests/onnx/import_support.h"
#include "tools/onnx/large_tensors.h"

namespace fold8::onnx_io {
namespace {

using namespace fold8::testing;
using ::testing::HasSubstr;

constexpr std::int64_t kRows = 200, kCols = 100;  // 80 kB: large

std::vector<float> numbers(std::size_t n, float from) {
  std::vector<float> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = from + static_cast<float>(i) / 7;
  return v;
}

Message large(const std::string& name, float from) {
  return floats(name, {kRows, kCols}, numbers(static_cast<std::size_t>(kRows * kCols), from));
}

// A large weight, a small one, a large one whose type stands behind its data, large integers.
ModelWriter model() {
  const std::vector<float> late = numbers(static_cast<std::size_t>(kRows * kCols), -3);
  Message b;
  b.text(9, {reinterpret_cast<const char*>(late.data()), late.size() * sizeof(float)});
  b.text(8, "b").number(2, kFloat).number(1, kRows).number(1, kCols);
  return ModelWriter()
      .input("x", {std::to_string(kRows), std::to_string(kCols)})
      .initializer(large("a", 1))
      .initializer(floats("s", {1}, {0.5f}))
      .initializer(b)
      .initializer(ints("i", {10000}, std::vector<std::int64_t>(10000, 7)))
      .node("Mul", {"x", "a"}, {"u"})
      .node("Mul", {"u", "s"}, {"v"})
      .node("Add", {"v", "b"}, {"y"})
      .output("y")
      .output("i", {"10000"}, kInt64);
}

TEST(LargeTensors, AFileImportsAsItsBytes) {
  const TempFolder folder;
  const std::string bytes = model().bytes();
  const auto file = import_file(folder.write("m.onnx", bytes));
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(graph::to_text(file->graph), graph::to_text(imported(model())));
  const auto a = file->graph.constant<float>(file->graph.find_value("a"));
  EXPECT_EQ(std::vector<float>(a.begin(), a.end()), numbers(a.size(), 1));
}

TEST(LargeTensors, AreLeftOutOfWhatIsParsed) {
  const TempFolder folder;
  const std::string bytes = model().bytes();
  const auto file = OpenFile::open(folder.write("m.onnx", bytes));
  ASSERT_TRUE(file.ok());
  LargeTensors left_out;
  const auto slim = without_large_tensors(*file, left_out);
  ASSERT_TRUE(slim.ok()) << slim.error().message;
  EXPECT_EQ(left_out.at(0)->bytes, 80000u);
  EXPECT_FALSE(left_out.at(1));
  EXPECT_EQ(left_out.at(2)->bytes, 80000u);
  EXPECT_FALSE(left_out.at(3));  // no floats
  EXPECT_FALSE(left_out.at(4));
  EXPECT_NEAR(static_cast<double>(slim->size()), static_cast<double>(bytes.size()) - 160000, 32);
}

TEST(LargeTensors, AWrongSizeIsAnErrorThatNamesTheTensor) {
  const TempFolder folder;
  const auto r = import_file(
      folder.write("m.onnx", ModelWriter()
                                 .input("x", {"1"})
                                 .initializer(floats("kernel", {3, 4}, numbers(20000, 0)))
                                 .node("Add", {"x", "kernel"}, {"y"})
                                 .output("y")
                                 .bytes()));
  ASSERT_FALSE(r.ok());
  EXPECT_THAT(r.error().message, HasSubstr("'kernel'"));
  EXPECT_THAT(r.error().message, HasSubstr("raw_data has 80000"));
}

// Cut anywhere, or with any byte changed: what the import of the bytes says, the file says too.
TEST(LargeTensors, DamagedFilesAreRefusedAsTheirBytesAre) {
  const TempFolder folder;
  const std::string whole = model().bytes();
  std::vector<std::string> damaged;
  for (std::size_t at = 0; at < 60; ++at) {
    damaged.push_back(whole.substr(0, at * whole.size() / 60));
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x85);
    damaged.push_back(changed);
  }
  damaged.push_back(whole + whole);  // two graphs, which protobuf merges
  damaged.push_back(whole + "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
  for (const std::string& bytes : damaged) {
    const auto file = import_file(folder.write("m.onnx", bytes)), memory = import_bytes(bytes, "");
    ASSERT_EQ(file.ok(), memory.ok());
    if (file.ok())
      EXPECT_EQ(graph::to_text(file->graph), graph::to_text(memory->graph));
    else
      EXPECT_EQ(file.error().code, memory.error().code);
  }
}

}  // namespace
}  // namespace fold8::onnx_io
