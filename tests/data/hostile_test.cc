// Files made to hurt: an error each, no crash, no large allocation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/temp_folder.h"
#include "tests/support/random.h"
#include "tools/data/image.h"
#include "tools/data/npy.h"
#include "tools/onnx/tensor_file.h"

namespace fold8::data {
namespace {

using ::testing::HasSubstr;
using testing::SeededRng;
using testing::TempFolder;

std::string npy_with(const std::string& dictionary, const std::string& data = "") {
  std::string s("\x93NUMPY\x01\x00", 8);
  const auto length = static_cast<std::uint16_t>(dictionary.size());
  s.append(reinterpret_cast<const char*>(&length), 2);
  return s + dictionary + data;
}

struct BadNpy {
  std::string dictionary;
  const char* says;
};

TEST(HostileNpy, EveryBadHeaderIsAnError) {
  const TempFolder folder;
  const std::string start = "{'descr': '<f4', 'fortran_order': False, 'shape': ";
  for (const BadNpy& bad :
       {BadNpy{start + "(1000000000000,)}", "does not fit"},
        BadNpy{start + "(4294967296, 4294967296)}", "impossible"},
        BadNpy{start + "(-1,)}", "shape"}, BadNpy{start + "(2,", "does not end"},
        BadNpy{start + "7}", "tuple"}, BadNpy{start + "(1,1,1,1,1,1,1,1,1)}", "axes"},
        BadNpy{"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "|O"},
        BadNpy{"{'descr': [('a','<f4')], 'fortran_order': False, 'shape': (1,)}", "structured"},
        BadNpy{"", "descr"}, BadNpy{"{'descr': '<f4'}", "fortran_order"}}) {
    const auto t = read_npy(folder.write("x.npy", npy_with(bad.dictionary, "1234")));
    ASSERT_FALSE(t.ok()) << bad.dictionary;
    EXPECT_THAT(t.error().message, HasSubstr(bad.says));
    EXPECT_THAT(t.error().message, HasSubstr("x.npy"));
  }
}

TEST(HostileNpy, EveryTruncationIsAnError) {
  const TempFolder folder;
  const Tensor t(DType::f32, Shape{2, 3});
  const std::string whole = npy_bytes(t.view()).value();
  for (std::size_t n = 0; n < whole.size(); ++n)
    EXPECT_FALSE(read_npy(folder.write("x.npy", whole.substr(0, n))).ok()) << n;
  EXPECT_FALSE(read_npy(folder.write("x.npy", whole + "x")).ok());
}

// Every byte of a sound file changed, one at a time: an error or a tensor, nothing worse.
void damage(const std::string& sound, const std::string& file, void (*read)(const std::string&)) {
  const TempFolder folder;
  SeededRng rng;
  for (std::size_t i = 0; i < sound.size(); i += 1 + sound.size() / 400) {
    std::string bytes = sound;
    bytes[i] = static_cast<char>(bytes[i] ^ static_cast<char>(rng.integer(1, 255)));
    read(folder.write(file, bytes));
  }
  for (std::size_t n = 0; n < sound.size(); n += 1 + sound.size() / 100)
    read(folder.write(file, sound.substr(0, n)));
}

TEST(HostileNpz, DamagedStoredFilesNeverCrash) {
  const TempFolder folder;
  const Tensor a(DType::f32, Shape{2, 3}), b(DType::u8, Shape{5});
  ASSERT_TRUE(write_npz(folder / "x.npz", {{"a", a.view()}, {"b", b.view()}}).ok());
  damage(testing::read_bytes(folder / "x.npz"), "x.npz",
         [](const std::string& p) { (void)read_npz(p).ok(); });
}

TEST(HostileNpz, DamagedDeflatedFilesNeverCrash) {
  damage(testing::read_bytes("tests/data/digits_calib.npz"), "x.npz",
         [](const std::string& p) { (void)read_npz(p).ok(); });
}

TEST(HostileNpz, ClaimOfATerabyteIsRefusedBeforeMemoryIsTaken) {
  const TempFolder folder;
  const Tensor a(DType::f32, Shape{2});
  ASSERT_TRUE(write_npz(folder / "x.npz", {{"a", a.view()}}).ok());
  std::string bytes = testing::read_bytes(folder / "x.npz");
  const std::size_t central = bytes.find("PK\1\2");
  bytes[central + 10] = 8;  // deflated
  for (int i = 24; i < 28; ++i)
    bytes[central + static_cast<std::size_t>(i)] = '\xfe';  // 4 GB unpacked
  const auto r = read_npz(folder.write("y.npz", bytes));
  ASSERT_FALSE(r.ok());
  EXPECT_THAT(r.error().message, HasSubstr("impossible size"));
}

TEST(HostilePictures, NoiseAndDamageAreErrors) {
  damage("P6 2 2 255\n123456789abc", "x.ppm",
         [](const std::string& p) { (void)read_picture(p, 3).ok(); });
  const TempFolder folder;
  const auto huge = read_picture(folder.write("x.ppm", "P6 60000 60000 255\n123"), 3);
  ASSERT_FALSE(huge.ok());
  EXPECT_THAT(huge.error().message, HasSubstr("60000x60000"));
  EXPECT_FALSE(read_picture(folder.write("x.png", "no picture"), 3).ok());
  EXPECT_FALSE(read_picture(folder.write("x.png", ""), 3).ok());
}

TEST(HostileTensorFiles, NoiseIsAnError) {
  const TempFolder folder;
  EXPECT_FALSE(onnx_io::read_tensor_file(folder.write("input_0.pb", "")).ok());
  EXPECT_FALSE(onnx_io::read_tensor_file(folder.write("input_0.pb", "a text")).ok());
  // dims 2^40, float, no data
  const auto r = onnx_io::read_tensor_file(
      folder.write("input_0.pb", std::string("\x08\x80\x80\x80\x80\x80\x20\x10\x01", 9)));
  ASSERT_FALSE(r.ok());
  EXPECT_THAT(r.error().message, HasSubstr("elements"));
}

}  // namespace
}  // namespace fold8::data
