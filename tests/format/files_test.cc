// Files on disk: mapped, written whole or not at all.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "runtime/format/f8.h"
#include "tests/format/sample_graph.h"

namespace fold8 {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "fold8_files_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const char* name) const { return folder_ / name; }
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  fs::path folder_;
};

TEST_F(Files, WrittenAndMapped) {
  ASSERT_TRUE(format::write_file(testing::sample_graph(), path("m.f8")).ok());
  const auto loaded = format::read_file(path("m.f8"), true);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(graph::to_text(loaded->graph), graph::to_text(testing::sample_graph()));
  EXPECT_EQ(loaded->file_bytes, fs::file_size(path("m.f8")));
  EXPECT_EQ(entries(), 1u);
  std::ifstream file(path("m.f8"), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(bytes, format::to_bytes(testing::sample_graph()).value());
}

TEST_F(Files, ConstantsOutliveTheName) {
  ASSERT_TRUE(format::write_file(testing::sample_graph(), path("m.f8")).ok());
  auto loaded = format::read_file(path("m.f8"), false);
  ASSERT_TRUE(loaded.ok());
  fs::remove(path("m.f8"));
  const auto b = loaded->graph.constant<float>(loaded->graph.find_value("b"));
  EXPECT_THAT(std::vector<float>(b.begin(), b.end()), ::testing::ElementsAre(1, 2, 3));
}

TEST_F(Files, ReplacingAMappedFileKeepsTheOldBytes) {
  ASSERT_TRUE(format::write_file(testing::sample_graph(), path("m.f8")).ok());
  const auto loaded = format::read_file(path("m.f8"), false);
  ASSERT_TRUE(loaded.ok());
  ASSERT_TRUE(format::write_atomically(path("m.f8"), "x", 1).ok());
  EXPECT_EQ(loaded->graph.constant<float>(loaded->graph.find_value("b"))[2], 3);
}

TEST_F(Files, MissingEmptyFolderDevice) {
  EXPECT_EQ(format::read_file(path("none"), false).error().code, Code::io);
  EXPECT_THAT(format::read_file(path("none"), false).error().message, HasSubstr("none"));
  EXPECT_EQ(format::read_file(folder_, false).error().code, Code::io);
  EXPECT_EQ(format::read_file("/dev/zero", false).error().code, Code::io);
  std::ofstream(path("empty")).close();
  EXPECT_EQ(format::read_file(path("empty"), false).error().code, Code::invalid_model);
}

TEST_F(Files, NoFolderToWriteTo) {
  const auto s = format::write_atomically(path("no/such/m.f8"), "x", 1);
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().code, Code::io);
  EXPECT_THAT(s.error().message, HasSubstr("no/such/m.f8"));
}

TEST_F(Files, TargetIsAFolder) {
  fs::create_directory(path("m.f8"));
  EXPECT_FALSE(format::write_atomically(path("m.f8"), "x", 1).ok());
  EXPECT_EQ(entries(), 1u);  // no temporary file left behind
}

TEST_F(Files, ModeFollowsUmask) {
  ASSERT_TRUE(format::write_atomically(path("m.f8"), "x", 1).ok());
  std::ofstream(path("plain")) << "x";
  struct stat a {
  }, b{};
  ASSERT_EQ(::stat(path("m.f8").c_str(), &a), 0);
  ASSERT_EQ(::stat(path("plain").c_str(), &b), 0);
  EXPECT_EQ(a.st_mode, b.st_mode);
}

// A full disk, played by a limit on the size of files in a child process.
TEST_F(Files, DiskFullLeavesTheOldFileAndNothingElse) {
  ASSERT_TRUE(format::write_atomically(path("m.f8"), "old", 3).ok());
  const std::string big(1 << 20, 'x');
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{64 << 10, 64 << 10};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto s = format::write_atomically(path("m.f8"), big.data(), big.size());
    ::_exit(!s.ok() && s.error().code == Code::io ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(entries(), 1u);
  EXPECT_EQ(fs::file_size(path("m.f8")), 3u);
}

}  // namespace
}  // namespace fold8
