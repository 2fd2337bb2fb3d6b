#include "tools/onnx/large_tensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

namespace fold8::onnx_io {
namespace {

// Field numbers of onnx.proto, and its number for f32.
constexpr std::uint64_t kGraph = 7, kInitializer = 5, kDataType = 2, kRawData = 9, kFloat = 1;
constexpr std::size_t kLarge = std::size_t{64} << 10;  // bytes; below, a read is no cheaper
constexpr unsigned kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;

Error not_understood() { return invalid_model("its wire format is not understood"); }

struct Field {
  std::uint64_t number = 0, value = 0;  // of a varint
  unsigned wire = kVarint;
  std::uint64_t tag = 0, begin = 0, end = 0;  // where the tag is, and the content
};

// A message of the file, field by field. What it reads of the file it keeps a window of.
class Walker {
 public:
  explicit Walker(const OpenFile& file) : file_(file) {}

  // The field at `at` of a message that ends at `end`.
  Result<Field> field(std::uint64_t at, std::uint64_t end) {
    Field f;
    f.tag = at;
    FOLD8_TRY(const std::uint64_t key, varint(at, end));
    f.number = key >> 3;
    f.wire = static_cast<unsigned>(key & 7);
    f.begin = at;
    std::uint64_t length = 0;
    switch (f.wire) {
      case kVarint: {
        FOLD8_TRY(f.value, varint(at, end));
        f.end = at;
        return f;
      }
      case kFixed64:
        length = 8;
        break;
      case kFixed32:
        length = 4;
        break;
      case kBytes: {
        FOLD8_TRY(length, varint(at, end));
        f.begin = at;
        break;
      }
      default:
        return not_understood();
    }
    if (length > end - f.begin) return not_understood();
    f.end = f.begin + length;
    return f;
  }

  Status append(std::uint64_t begin, std::uint64_t end, std::string& to) {
    const std::size_t before = to.size(), bytes = static_cast<std::size_t>(end - begin);
    to.resize(before + bytes);
    if (bytes <= kWindow) {
      FOLD8_CHECK_OK(see(begin, bytes));
      std::memcpy(to.data() + before, window_.data() + (begin - at_), bytes);
      return ok_status();
    }
    return file_.read(begin, to.data() + before, bytes);
  }

 private:
  static constexpr std::size_t kWindow = std::size_t{64} << 10;

  Status see(std::uint64_t at, std::size_t bytes) {
    if (at >= at_ && at + bytes <= at_ + window_.size()) return ok_status();
    at_ = at;
    window_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kWindow, file_.size() - at)));
    return file_.read(at, window_.data(), window_.size());
  }

  Result<std::uint64_t> varint(std::uint64_t& at, std::uint64_t end) {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && at < end; shift += 7) {
      FOLD8_CHECK_OK(see(at, 1));
      const auto byte = static_cast<unsigned char>(window_[static_cast<std::size_t>(at - at_)]);
      ++at;
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return not_understood();
  }

  const OpenFile& file_;
  std::string window_;
  std::uint64_t at_ = 0;
};

void append_varint(std::uint64_t v, std::string& to) {
  for (; v >= 0x80; v >>= 7) to.push_back(static_cast<char>(v | 0x80));
  to.push_back(static_cast<char>(v));
}

// One initializer: where its raw_data lies, if it is left out, and what is left.
struct Tensor {
  std::optional<Field> raw;
  std::string rest;
};

Result<Tensor> tensor(Walker& walker, const Field& message) {
  Tensor t;
  bool is_float = false;
  for (std::uint64_t at = message.begin; at < message.end;) {
    FOLD8_TRY(const Field f, walker.field(at, message.end));
    at = f.end;
    if (f.number == kDataType && f.wire == kVarint) is_float = f.value == kFloat;
    if (f.number != kRawData || f.wire != kBytes) continue;
    if (t.raw) return not_understood();
    t.raw = f;
  }
  if (!is_float || !t.raw || t.raw->end - t.raw->begin < kLarge) return Tensor{};
  FOLD8_CHECK_OK(walker.append(message.begin, t.raw->tag, t.rest));
  FOLD8_CHECK_OK(walker.append(t.raw->end, message.end, t.rest));
  return t;
}

}  // namespace

Result<OpenFile> OpenFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return io_error("cannot open '" + path + "': " + std::strerror(errno));
  OpenFile file;
  file.fd_ = std::shared_ptr<const int>(new int(fd), [](const int* p) {
    close(*p);
    delete p;
  });
  file.path_ = path;
  struct stat info {};
  if (fstat(fd, &info) != 0) return io_error("cannot read '" + path + "': " + std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return io_error("'" + path + "' is no regular file");
  file.size_ = static_cast<std::uint64_t>(info.st_size);
  return file;
}

Status OpenFile::read(std::uint64_t at, void* to, std::size_t bytes) const {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t n =
        pread(*fd_, static_cast<char*>(to) + done, bytes - done, static_cast<off_t>(at + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error("cannot read '" + path_ + "': " + std::strerror(errno));
    if (n == 0) return io_error("'" + path_ + "' became shorter while it was read");
    done += static_cast<std::size_t>(n);
  }
  return ok_status();
}

std::optional<RawData> LargeTensors::at(std::size_t initializer) const {
  const auto it = places_.find(initializer);
  return it == places_.end() ? std::nullopt : std::optional(it->second);
}

Result<std::string> without_large_tensors(const OpenFile& file, LargeTensors& left_out) {
  left_out.file_ = std::make_shared<const OpenFile>(file);
  Walker walker(file);
  std::optional<Field> graph;
  for (std::uint64_t at = 0; at < file.size();) {
    FOLD8_TRY(const Field f, walker.field(at, file.size()));
    at = f.end;
    if (f.number != kGraph) continue;
    if (f.wire != kBytes || graph) return not_understood();
    graph = f;
  }
  if (!graph) return not_understood();
  std::string kept;  // of the graph
  std::uint64_t copied = graph->begin;
  std::size_t number = 0;
  for (std::uint64_t at = graph->begin; at < graph->end;) {
    FOLD8_TRY(const Field f, walker.field(at, graph->end));
    at = f.end;
    if (f.number != kInitializer || f.wire != kBytes) continue;
    const std::size_t mine = number++;
    if (f.end - f.begin < kLarge) continue;
    FOLD8_TRY(const Tensor t, tensor(walker, f));
    if (!t.raw) continue;
    FOLD8_CHECK_OK(walker.append(copied, f.tag, kept));
    append_varint(kInitializer << 3 | kBytes, kept);
    append_varint(t.rest.size(), kept);
    kept += t.rest;
    copied = f.end;
    left_out.places_[mine] = {left_out.file_.get(), t.raw->begin,
                              static_cast<std::size_t>(t.raw->end - t.raw->begin)};
  }
  FOLD8_CHECK_OK(walker.append(copied, graph->end, kept));
  std::string model;
  FOLD8_CHECK_OK(walker.append(0, graph->tag, model));
  append_varint(kGraph << 3 | kBytes, model);
  append_varint(kept.size(), model);
  model += kept;
  kept = std::string();
  FOLD8_CHECK_OK(walker.append(graph->end, file.size(), model));
  return model;
}

}  // namespace fold8::onnx_io
