#include "tools/data/samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "runtime/graph/text.h"
#include "tests/data/temp_folder.h"
#include "tools/data/npy.h"

namespace fold8::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempFolder;

graph::Graph model(const std::string& inputs) {
  graph::Graph g =
      graph::parse(inputs + "y: f32[1] = constant_of_shape(s64{1})\nreturn y\n").value();
  return g;
}

Tensor floats(const Shape& shape, float first) {
  Tensor t(DType::f32, shape);
  for (std::size_t i = 0; i < t.as<float>().size(); ++i)
    t.as<float>()[i] = first + static_cast<float>(i);
  return t;
}

std::string error_of(const DataOptions& o, const graph::Graph& g, std::size_t i = 0) {
  auto source = open_samples(o, g);
  if (!source.ok()) return source.error().message;
  auto s = (*source)->sample(i);
  return s.ok() ? "" : s.error().message;
}

TEST(Samples, NpzFolderInOrderOfNames) {
  const TempFolder folder;
  const graph::Graph g = model("a: f32[n,2]\nb: f32[n]\n");
  for (int i : {1, 0}) {
    const Tensor a = floats({1, 2}, static_cast<float>(10 * i)),
                 b = floats({1}, static_cast<float>(i));
    ASSERT_TRUE(write_npz(folder / ("sample_00" + std::to_string(i) + ".npz"),
                          {{"b", b.view()}, {"a", a.view()}})
                    .ok());
  }
  auto source = open_samples({.paths = {folder.path()}}, g);
  ASSERT_TRUE(source.ok()) << source.error().message;
  ASSERT_EQ((*source)->count(), 2u);
  for (int again = 0; again < 2; ++again) {
    const auto s = (*source)->sample(1);
    ASSERT_TRUE(s.ok()) << s.error().message;
    EXPECT_THAT((*s)[0].as<float>(), ElementsAre(10, 11));
    EXPECT_THAT((*s)[1].as<float>(), ElementsAre(1));
  }
  EXPECT_THAT((*source)->describe(1), HasSubstr("sample_001"));
}

TEST(Samples, FilesComeAsPeopleCount) {
  const TempFolder folder;
  const graph::Graph g = model("a: f32[1]\n");
  for (const int i : {10, 2, 1, 0, 11})
    ASSERT_TRUE(write_npy(folder / ("s" + std::to_string(i) + ".npy"),
                          floats({1}, static_cast<float>(i)).view())
                    .ok());
  auto source = open_samples({.paths = {folder.path()}}, g);
  ASSERT_TRUE(source.ok()) << source.error().message;
  std::vector<float> order;
  for (std::size_t i = 0; i < 5; ++i) {
    const auto sample = (*source)->sample(i);
    ASSERT_TRUE(sample.ok()) << sample.error().message;
    order.push_back((*sample)[0].as<float>()[0]);
  }
  EXPECT_EQ(order, (std::vector<float>{0, 1, 2, 10, 11}));
}

TEST(Samples, StackedRowsForwardAndBack) {
  const TempFolder folder;
  const graph::Graph g = model("a: f32[n,2]\n");
  const Tensor t = floats({5, 2}, 0);
  ASSERT_TRUE(write_npy(folder / "a.npy", t.view()).ok());
  ASSERT_TRUE(write_npz(folder / "b.npz", {{"a", t.view()}}).ok());
  for (const char* file : {"a.npy", "b.npz"}) {
    auto source = open_samples({.paths = {folder / file}, .stacked = true}, g);
    ASSERT_TRUE(source.ok()) << source.error().message;
    ASSERT_EQ((*source)->count(), 5u);
    for (std::size_t i : {0u, 1u, 4u, 2u, 2u, 3u}) {
      const auto s = (*source)->sample(i);
      ASSERT_TRUE(s.ok()) << s.error().message;
      EXPECT_TRUE((*s)[0].shape() == (Shape{1, 2}));
      EXPECT_THAT((*s)[0].as<float>(),
                  ElementsAre(2.0f * static_cast<float>(i), 2.0f * static_cast<float>(i) + 1));
    }
    EXPECT_FALSE((*source)->sample(5).ok());
  }
}

TEST(Samples, StackedDeflatedRows) {
  const auto arrays = read_npz("tests/data/digits_calib.npz");
  ASSERT_TRUE(arrays.ok());
  const auto& [name, all] = (*arrays)[0];
  ASSERT_EQ(all.dtype(), DType::f32);
  Shape row = all.shape();
  row[0] = Dim::unknown();
  graph::Graph g;
  g.inputs.push_back(g.add_value(name, TensorType{DType::f32, row, {}, Layout::plain}));
  auto source = open_samples({.paths = {"tests/data/digits_calib.npz"}, .stacked = true}, g);
  ASSERT_TRUE(source.ok()) << source.error().message;
  const std::size_t last = (*source)->count() - 1, width = all.bytes() / (last + 1);
  for (std::size_t i : {last, std::size_t{0}}) {
    const auto s = (*source)->sample(i);
    ASSERT_TRUE(s.ok()) << s.error().message;
    EXPECT_EQ(std::memcmp((*s)[0].buffer()->data(), all.buffer()->data() + i * width, width), 0);
  }
}

TEST(Samples, ErrorsNameFileInputAndWhatIsWanted) {
  const TempFolder folder;
  const graph::Graph g = model("features: f32[n,4]\n");
  const Tensor good = floats({1, 4}, 0), wide = floats({1, 5}, 0), flat = floats({4}, 0),
               ints(DType::s64, Shape{1, 4});
  ASSERT_TRUE(write_npz(folder / "sample_001.npz", {{"features", wide.view()}}).ok());
  const std::string shape = error_of({.paths = {folder / "sample_001.npz"}}, g);
  for (const char* word : {"sample_001", "features", "[1,5]", "[n,4]"})
    EXPECT_THAT(shape, HasSubstr(word));
  ASSERT_TRUE(write_npz(folder / "sample_001.npz", {{"features", ints.view()}}).ok());
  const std::string type = error_of({.paths = {folder / "sample_001.npz"}}, g);
  for (const char* word : {"features", "float", "int64"}) EXPECT_THAT(type, HasSubstr(word));
  ASSERT_TRUE(write_npz(folder / "sample_001.npz", {{"pixels", good.view()}}).ok());
  const std::string unknown = error_of({.paths = {folder / "sample_001.npz"}}, g);
  for (const char* word : {"pixels", "features"}) EXPECT_THAT(unknown, HasSubstr(word));
  ASSERT_TRUE(write_npy(folder / "x.npy", flat.view()).ok());
  EXPECT_THAT(error_of({.paths = {folder / "x.npy"}}, g), HasSubstr("[4]"));
}

TEST(Samples, EqualSymbolsAreEqualExtents) {
  const TempFolder folder;
  const graph::Graph g = model("a: f32[n]\nb: f32[n]\n");
  const Tensor a = floats({2}, 0), b = floats({3}, 0);
  ASSERT_TRUE(write_npz(folder / "x.npz", {{"a", a.view()}, {"b", b.view()}}).ok());
  EXPECT_THAT(error_of({.paths = {folder / "x.npz"}}, g), HasSubstr("another extent"));
}

TEST(Samples, SafeConversionsHappenWithANote) {
  const TempFolder folder;
  const graph::Graph g = model("a: f32[2]\nb: s64[2]\n");
  Tensor a(DType::f64, Shape{2}), b(DType::s32, Shape{2});
  a.as<double>()[0] = 0.1;
  b.as<std::int32_t>()[1] = -7;
  ASSERT_TRUE(write_npz(folder / "x.npz", {{"a", a.view()}, {"b", b.view()}}).ok());
  auto source = open_samples({.paths = {folder / "x.npz"}}, g);
  ASSERT_TRUE(source.ok());
  const auto s = (*source)->sample(0);
  ASSERT_TRUE(s.ok()) << s.error().message;
  EXPECT_EQ((*s)[0].as<float>()[0], 0.1f);
  EXPECT_EQ((*s)[1].as<std::int64_t>()[1], -7);
  EXPECT_EQ((*source)->notes().size(), 2u);
}

TEST(Samples, TestDataSetFolders) {
  const TempFolder folder;
  const graph::Graph g = model("a: f32[2]\n");
  std::filesystem::create_directory(folder / "test_data_set_0");
  // TensorProto: dims 2, float, name "a", raw_data {1.0f, 2.0f}
  folder.write(
      "test_data_set_0/input_0.pb",
      std::string("\x08\x02\x10\x01\x42\x01\x61\x4a\x08\x00\x00\x80\x3f\x00\x00\x00\x40", 17));
  for (const std::string& path : {folder.path(), folder / "test_data_set_0"}) {
    auto source = open_samples({.paths = {path}}, g);
    ASSERT_TRUE(source.ok()) << source.error().message;
    const auto s = (*source)->sample(0);
    ASSERT_TRUE(s.ok()) << s.error().message;
    EXPECT_THAT((*s)[0].as<float>(), ElementsAre(1, 2));
  }
}

TEST(Samples, EmptyFoldersAndMissingPathsAreErrors) {
  const TempFolder folder;
  const graph::Graph g = model("a: f32[2]\n");
  EXPECT_THAT(error_of({.paths = {folder.path()}}, g), HasSubstr("no samples"));
  EXPECT_THAT(error_of({.paths = {folder / "absent"}}, g), HasSubstr("absent"));
  EXPECT_THAT(error_of({.paths = {folder.write("x.txt", "")}}, g), HasSubstr("x.txt"));
  EXPECT_FALSE(open_samples({}, g).ok());
}

TEST(Samples, RandomIsRepeatableAndSaysThatItIsNotReal) {
  const graph::Graph g = model("a: f32[batch,3]\nids: s64[batch,seq]\n");
  const DataOptions o{.paths = {"random"}, .extents = {{"seq", 7}}};
  auto one = open_samples(o, g), two = open_samples(o, g);
  ASSERT_TRUE(one.ok() && two.ok());
  const auto a = (*one)->sample(3), b = (*two)->sample(3);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_TRUE((*a)[1].shape() == (Shape{1, 7}));
  EXPECT_EQ(std::memcmp((*a)[0].buffer()->data(), (*b)[0].buffer()->data(), (*a)[0].bytes()), 0);
  EXPECT_THAT((*one)->notes()[0], HasSubstr("not real"));
}

}  // namespace
}  // namespace fold8::data
