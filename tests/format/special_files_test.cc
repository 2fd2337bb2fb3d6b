// What a writer may not replace: devices, FIFOs, folders; links are followed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "runtime/format/f8.h"

namespace fold8::format {
namespace {

namespace fs = std::filesystem;

class SpecialFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "fold8_special_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const char* name) const { return folder_ / name; }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }
  fs::path folder_;
};

TEST_F(SpecialFiles, AFifoStaysAFifo) {
  ASSERT_EQ(mkfifo(path("p").c_str(), 0600), 0);
  std::string got;
  const int fd = open(path("p").c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(fd, 0);
  EXPECT_TRUE(write_atomically(path("p"), "hello", 5).ok());
  char buffer[16];
  EXPECT_EQ(read(fd, buffer, sizeof buffer), 5);
  close(fd);
  EXPECT_TRUE(fs::is_fifo(path("p")));
  EXPECT_EQ(entries(), 1u);
}

TEST_F(SpecialFiles, AFifoNobodyReadsIsAnErrorAtOnce) {
  ASSERT_EQ(mkfifo(path("p").c_str(), 0600), 0);
  const Status s = write_atomically(path("p"), "hello", 5);
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().code, Code::io);
}

TEST_F(SpecialFiles, AFolderIsRefusedAndALinkFollowed) {
  fs::create_directory(path("d"));
  EXPECT_FALSE(write_atomically(path("d"), "x", 1).ok());
  std::ofstream(path("target")) << "old";
  fs::create_symlink(path("target"), path("link"));
  EXPECT_TRUE(write_atomically(path("link"), "new", 3).ok());
  EXPECT_TRUE(fs::is_symlink(path("link")));
  std::string text;
  std::ifstream(path("target")) >> text;
  EXPECT_EQ(text, "new");
}

TEST_F(SpecialFiles, AFullDeviceIsAnError) {
  struct stat info {};
  ASSERT_EQ(stat("/dev/full", &info), 0);
  ASSERT_TRUE(S_ISCHR(info.st_mode));
  const Status s = write_atomically("/dev/full", "hello", 5);
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().code, Code::io);
  ASSERT_EQ(stat("/dev/full", &info), 0);
  EXPECT_TRUE(S_ISCHR(info.st_mode));
}

}  // namespace
}  // namespace fold8::format
