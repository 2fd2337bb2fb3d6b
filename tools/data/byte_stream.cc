#include "tools/data/byte_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace fold8::data {
namespace {

class FileStream final : public ByteStream {
 public:
  FileStream(int fd, std::string path, std::uint64_t at, std::uint64_t bytes)
      : fd_(fd), path_(std::move(path)), at_(at), left_(bytes), size_(bytes) {}
  ~FileStream() override { close(fd_); }

  Status read(void* to, std::size_t n) override {
    if (n > left_) return invalid_model("'" + path_ + "' ends early");
    auto* p = static_cast<char*>(to);
    while (n > 0) {
      const ssize_t got = pread(fd_, p, n, static_cast<off_t>(at_));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return io_error("cannot read '" + path_ + "': " + std::strerror(errno));
      if (got == 0) return invalid_model("'" + path_ + "' ends early");
      p += got;
      n -= static_cast<std::size_t>(got);
      at_ += static_cast<std::uint64_t>(got);
      left_ -= static_cast<std::uint64_t>(got);
    }
    return ok_status();
  }
  Status skip(std::uint64_t n) override {
    if (n > left_) return invalid_model("'" + path_ + "' ends early");
    at_ += n;
    left_ -= n;
    return ok_status();
  }
  std::uint64_t size() const override { return size_; }

 private:
  int fd_;
  std::string path_;
  std::uint64_t at_, left_, size_;
};

}  // namespace

Status ByteStream::skip(std::uint64_t n) {
  std::vector<char> block(static_cast<std::size_t>(std::min<std::uint64_t>(n, 1 << 16)));
  while (n > 0) {
    const auto step = static_cast<std::size_t>(std::min<std::uint64_t>(n, block.size()));
    FOLD8_CHECK_OK(read(block.data(), step));
    n -= step;
  }
  return ok_status();
}

Result<std::unique_ptr<ByteStream>> open_file(const std::string& path, std::uint64_t offset,
                                              std::int64_t bytes) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return io_error("cannot open '" + path + "': " + std::strerror(errno));
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return io_error("'" + path + "' is no regular file");
  }
  const auto size = static_cast<std::uint64_t>(info.st_size);
  const std::uint64_t length =
      bytes >= 0 ? static_cast<std::uint64_t>(bytes) : size - std::min(size, offset);
  if (offset > size || length > size - offset) {
    close(fd);
    return invalid_model("'" + path + "' ends early");
  }
  return std::unique_ptr<ByteStream>(std::make_unique<FileStream>(fd, path, offset, length));
}

Result<std::string> read_small_file(const std::string& path, std::uint64_t limit) {
  FOLD8_TRY(auto stream, open_file(path));
  if (stream->size() > limit)
    return invalid_model("'" + path + "' has " + std::to_string(stream->size()) +
                         " bytes, more than the " + std::to_string(limit) + " allowed");
  std::string bytes(static_cast<std::size_t>(stream->size()), '\0');
  FOLD8_CHECK_OK(stream->read(bytes.data(), bytes.size()));
  return bytes;
}

Status write_file(const std::string& path, const std::string& bytes) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return io_error("cannot write '" + path + "': " + std::strerror(errno));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const std::string why = std::strerror(errno);
      close(fd);
      return io_error("cannot write '" + path + "': " + why);
    }
    done += static_cast<std::size_t>(n);
  }
  if (close(fd) != 0) return io_error("cannot write '" + path + "': " + std::strerror(errno));
  return ok_status();
}

}  // namespace fold8::data
