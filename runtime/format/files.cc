#include "runtime/format/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "runtime/format/f8.h"

namespace fold8::format {
namespace {

Error os_error(const std::string& what, const std::string& path, int number) {
  return io_error("cannot " + what + " '" + path + "': " + std::strerror(number));
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }
  // close() reports delayed write errors (network file systems).
  int close() { return ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

// Removes the temporary file unless it was renamed.
class RemoveOnExit {
 public:
  explicit RemoveOnExit(const char* path) : path_(path) {}
  ~RemoveOnExit() {
    if (path_ != nullptr) ::unlink(path_);
  }
  RemoveOnExit(const RemoveOnExit&) = delete;
  RemoveOnExit& operator=(const RemoveOnExit&) = delete;
  void keep() { path_ = nullptr; }

 private:
  const char* path_;
};

int write_all(int fd, const char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t n = ::write(fd, data, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return ENOSPC;
    data += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return 0;
}

// Devices and FIFOs are written to, never replaced: `-o /dev/null` as root must not turn it into a
// file. A FIFO that nobody reads is an error, not a wait without end.
Status write_through(const std::string& path, std::span<const Piece> pieces) {
  FileDescriptor fd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  if (fd.get() < 0) return os_error("open", path, errno);
  if (const int flags = ::fcntl(fd.get(), F_GETFL); flags >= 0)
    (void)::fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK);
  for (const Piece& p : pieces)
    if (const int e = write_all(fd.get(), static_cast<const char*>(p.data), p.bytes))
      return os_error("write", path, e);
  return fd.close() == 0 ? ok_status() : Status(os_error("close", path, errno));
}

// Where a path leads once symbolic links are followed (the link stays a link); the path itself if
// it leads nowhere yet.
std::string resolved(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  return real ? std::string(real.get()) : path;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// A new file beside `path` with the mode any new file gets (mkstemp would make it private). -1:
// errno says why.
int open_beside(const std::string& path, std::string& temporary) {
  static std::atomic<unsigned> counter{0};
  for (int attempt = 0; attempt < 100; ++attempt) {
    temporary = path + ".tmp" + std::to_string(::getpid()) + "." + std::to_string(counter++);
    const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

}  // namespace

Mapping::~Mapping() {
  if (data != nullptr) ::munmap(const_cast<void*>(data), bytes);
}

Result<std::shared_ptr<const Mapping>> map_file(const std::string& path) {
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return os_error("open", path, errno);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return os_error("read", path, errno);
  if (!S_ISREG(info.st_mode)) return io_error("'" + path + "' is not a regular file");
  if (info.st_size == 0) return invalid_model("'" + path + "' is empty");
  const auto bytes = static_cast<std::size_t>(info.st_size);
  void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) return os_error("map", path, errno);
  auto mapping = std::make_shared<Mapping>();
  mapping->data = data;
  mapping->bytes = bytes;
  return std::shared_ptr<const Mapping>(std::move(mapping));
}

Status write_pieces(const std::string& given, std::span<const Piece> pieces) {
  const std::string path = resolved(given);
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    if (S_ISDIR(info.st_mode)) return io_error("cannot write '" + given + "': it is a folder");
    return write_through(path, pieces);
  }
  const std::string folder = folder_of(path);
  std::string temporary;
  FileDescriptor fd(open_beside(path, temporary));
  if (fd.get() < 0) return os_error("create a temporary file for", path, errno);
  RemoveOnExit remove(temporary.c_str());
  for (const Piece& p : pieces)
    if (const int e = write_all(fd.get(), static_cast<const char*>(p.data), p.bytes))
      return os_error("write", path, e);
  if (::fsync(fd.get()) != 0) return os_error("sync", path, errno);
  if (fd.close() != 0) return os_error("close", path, errno);
  if (::rename(temporary.c_str(), path.c_str()) != 0)
    return os_error("rename a temporary file to", path, errno);
  remove.keep();
  // The rename itself is durable once its folder is synced; some file systems refuse that, which
  // loses nothing.
  FileDescriptor parent(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent.get() >= 0) (void)::fsync(parent.get());
  return ok_status();
}

Status write_atomically(const std::string& path, const void* data, std::size_t bytes) {
  const Piece whole{data, bytes};
  return write_pieces(path, {&whole, 1});
}

}  // namespace fold8::format
