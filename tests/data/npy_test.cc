#include "tools/data/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/data/temp_folder.h"

namespace fold8::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempFolder;

Tensor counted(DType dtype, const Shape& shape) {
  Tensor t(dtype, shape);
  auto* bytes = static_cast<std::byte*>(t.view().data);
  for (std::size_t i = 0; i < t.bytes(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
  return t;
}

// A version 1 .npy with that dictionary in front of the data.
std::string npy_with(const std::string& dictionary, const std::string& data) {
  std::string header = dictionary + "\n";
  std::string s("\x93NUMPY\x01\x00", 8);
  const auto length = static_cast<std::uint16_t>(header.size());
  s.append(reinterpret_cast<const char*>(&length), 2);
  return s + header + data;
}

TEST(Npy, RoundTripKeepsEveryTypeAndShape) {
  const TempFolder folder;
  for (DType d : {DType::f32, DType::f64, DType::f16, DType::s8, DType::s16, DType::s32, DType::s64,
                  DType::u8, DType::u16, DType::u32, DType::u64})
    for (const Shape& shape : {Shape(), Shape{3}, Shape{0, 2}, Shape{2, 3, 4}}) {
      const Tensor t = counted(d, shape);
      ASSERT_TRUE(write_npy(folder / "t.npy", t.view()).ok());
      const auto back = read_npy(folder / "t.npy");
      ASSERT_TRUE(back.ok()) << back.error().message;
      EXPECT_EQ(back->dtype(), d);
      EXPECT_TRUE(back->shape() == shape);
      ASSERT_EQ(back->bytes(), t.bytes());
      EXPECT_EQ(std::memcmp(back->buffer()->data(), t.buffer()->data(), t.bytes()), 0);
    }
}

TEST(Npy, DataBeginsAtAMultipleOf64) {
  const Tensor t = counted(DType::f32, Shape{2, 3});
  const auto bytes = npy_bytes(t.view());
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ((bytes->size() - t.bytes()) % 64, 0u);
}

TEST(Npy, ColumnsFirstIsTransposed) {
  const TempFolder folder;
  const float columns[] = {1, 4, 2, 5, 3, 6};  // of [[1,2,3],[4,5,6]]
  const auto path = folder.write(
      "f.npy", npy_with("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }",
                        std::string(reinterpret_cast<const char*>(columns), sizeof columns)));
  const auto t = read_npy(path);
  ASSERT_TRUE(t.ok()) << t.error().message;
  EXPECT_THAT(t->as<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Npy, BigEndianIsSwapped) {
  const TempFolder folder;
  const auto t = read_npy(
      folder.write("b.npy", npy_with("{'descr': '>i4', 'fortran_order': False, 'shape': (1,), }",
                                     std::string("\0\0\1\2", 4))));
  ASSERT_TRUE(t.ok()) << t.error().message;
  EXPECT_EQ(t->as<std::int32_t>()[0], 258);
}

TEST(Npz, RoundTripKeepsNamesAndOrder) {
  const TempFolder folder;
  const Tensor a = counted(DType::f32, Shape{2}), b = counted(DType::s64, Shape{1, 3});
  ASSERT_TRUE(write_npz(folder / "x.npz", {{"a/b:0", a.view()}, {"β", b.view()}}).ok());
  const auto back = read_npz(folder / "x.npz");
  ASSERT_TRUE(back.ok()) << back.error().message;
  ASSERT_EQ(back->size(), 2u);
  EXPECT_EQ((*back)[0].first, "a/b:0");
  EXPECT_EQ((*back)[1].first, "β");
  EXPECT_EQ((*back)[1].second.dtype(), DType::s64);
}

TEST(Npz, ReadsDeflatedArraysThatNumpyWrote) {
  const auto arrays = read_npz("tests/data/digits_calib.npz");
  ASSERT_TRUE(arrays.ok()) << arrays.error().message;
  ASSERT_FALSE(arrays->empty());
  EXPECT_GT((*arrays)[0].second.bytes(), 0u);
}

TEST(Npz, MissingFileIsAnIoError) {
  const auto r = read_npz("/nonexistent/x.npz");
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().code, Code::io);
  EXPECT_THAT(r.error().message, HasSubstr("/nonexistent/x.npz"));
}

}  // namespace
}  // namespace fold8::data
