// External data: only regular files inside the model's folder, and never more than the shape needs.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/data/temp_folder.h"
#include "tests/onnx/import_support.h"

namespace fold8::onnx_io {
namespace {

using namespace fold8::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// w: two floats in `location`.
std::string model(const std::string& location, const std::string& offset = "",
                  const std::string& length = "") {
  Message w;
  w.number(1, 2).number(2, kFloat).text(8, "kernel").number(14, 1);
  const auto entry = [&](const char* key, const std::string& value) {
    if (!value.empty()) w.message(13, Message().text(1, key).text(2, value));
  };
  entry("location", location);
  entry("offset", offset);
  entry("length", length);
  return ModelWriter()
      .input("x", {"2"})
      .initializer(w)
      .node("Add", {"x", "kernel"}, {"y"})
      .output("y")
      .bytes();
}

std::string floats_of(std::initializer_list<float> v) {
  const std::vector<float> f(v);
  return {reinterpret_cast<const char*>(f.data()), f.size() * sizeof(float)};
}

TEST(ExternalData, IsReadBesideTheModel) {
  const TempFolder folder;
  std::filesystem::create_directory(folder / "sub");
  folder.write("sub/w.bin", floats_of({9, 1, 2}));
  const auto r = import_file(folder.write("m.onnx", model("sub/w.bin", "4", "8")));
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_THAT(r->graph.constant<float>(r->graph.find_value("kernel")), ElementsAre(1, 2));
}

TEST(ExternalData, EveryBadPlaceIsAnErrorThatNamesTheTensor) {
  const TempFolder folder, outside;
  folder.write("w.bin", floats_of({1, 2}));
  outside.write("secret.bin", floats_of({1, 2}));
  std::filesystem::create_symlink(outside / "secret.bin", folder / "link.bin");
  std::filesystem::create_directory_symlink(outside.path(), folder / "door");
  std::filesystem::create_directory(folder / "folder");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  struct Bad {
    std::string location, offset, length;
    const char* says;
  };
  for (const Bad& b :
       {Bad{outside / "secret.bin", "", "", "absolute"}, Bad{"../x.bin", "", "", "outside"},
        Bad{"folder/../w.bin", "", "", "outside"}, Bad{"link.bin", "", "", "link"},
        Bad{"door/secret.bin", "", "", "link"}, Bad{"folder", "", "", "regular"},
        Bad{"pipe", "", "", "regular"}, Bad{"absent.bin", "", "", "absent.bin"},
        Bad{"", "", "", "location"}, Bad{"w.bin", "-1", "", "offset"},
        Bad{"w.bin", "many", "", "offset"}, Bad{"w.bin", "4", "", "offset"},
        Bad{"w.bin", "9", "", "offset"}, Bad{"w.bin", "9223372036854775807", "8", "offset"},
        Bad{"w.bin", "99999999999999999999", "", "offset"},
        Bad{"w.bin", "", "1099511627776", "length"}, Bad{"w.bin", "", "4", "length"}}) {
    const auto r = import_file(folder.write("m.onnx", model(b.location, b.offset, b.length)));
    ASSERT_FALSE(r.ok()) << b.location << " " << b.offset << " " << b.length;
    EXPECT_THAT(r.error().message, HasSubstr("'kernel'"));
    EXPECT_THAT(r.error().message, HasSubstr(b.says));
  }
}

TEST(ExternalData, ModelsFromMemoryHaveNone) {
  const auto r = import_bytes(model("w.bin"), "");
  ASSERT_FALSE(r.ok());
  EXPECT_THAT(r.error().message, HasSubstr("without a folder"));
}

}  // namespace
}  // namespace fold8::onnx_io
