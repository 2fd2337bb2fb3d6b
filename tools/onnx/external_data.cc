#include "tools/onnx/external_data.h"

#include <fcntl.h>
#include <onnx/onnx_pb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>

namespace fold8::onnx_io {
namespace {

namespace fs = std::filesystem;

struct Place {
  std::string location;
  std::int64_t offset = 0;
  std::optional<std::int64_t> length;
};

Error bad(const onnx::TensorProto& t, const std::string& why) {
  return invalid_model("tensor '" + t.name() + "': external data: " + why);
}

Result<std::int64_t> parse_count(const onnx::TensorProto& t, const std::string& key,
                                 const std::string& text) {
  std::int64_t v = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc() || end != text.data() + text.size())
    return bad(t, key + " '" + text.substr(0, 40) + "' is not a number of bytes");
  if (v < 0) return bad(t, key + " " + text + " is negative");
  return v;
}

Result<Place> parse_place(const onnx::TensorProto& t) {
  Place p;
  for (const auto& entry : t.external_data()) {
    if (entry.key() == "location") p.location = entry.value();
    if (entry.key() == "offset") {
      FOLD8_TRY(p.offset, parse_count(t, "offset", entry.value()));
    }
    if (entry.key() == "length") {
      FOLD8_TRY(p.length, parse_count(t, "length", entry.value()));
    }
  }
  if (p.location.empty()) return bad(t, "no location is given");
  return p;
}

// The file's real path, after every link, if it lies inside the real folder.
Result<std::string> resolve(const onnx::TensorProto& t, const std::string& location,
                            const std::string& folder) {
  if (location.find('\0') != std::string::npos) return bad(t, "the location holds a zero byte");
  const fs::path relative(location);
  if (relative.is_absolute())
    return bad(
        t, "location '" + location + "' is an absolute path; it must lie in the model's folder");
  for (const auto& part : relative)
    if (part == "..") return bad(t, "location '" + location + "' leads outside the model's folder");
  std::error_code error;
  const fs::path root = fs::canonical(fs::path(folder), error);
  if (error) return io_error("cannot open the model's folder '" + folder + "': " + error.message());
  const fs::path file = fs::canonical(root / relative, error);
  if (error) {
    const std::string message = "tensor '" + t.name() + "': cannot open external data file '" +
                                location + "' in '" + folder + "': " + error.message();
    return error == std::errc::no_such_file_or_directory ? invalid_model(message)
                                                         : io_error(message);
  }
  const auto inside = file.lexically_relative(root);
  if (inside.empty() || *inside.begin() == "..")
    return bad(t, "'" + location + "' is a link that leads outside the model's folder");
  return file.string();
}

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

Status read_all(int fd, std::int64_t offset, Buffer& out) {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t n = pread(fd, out.mutable_data() + done, out.size() - done,
                            static_cast<off_t>(offset + static_cast<std::int64_t>(done)));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      return io_error(n < 0 ? std::strerror(errno) : "the file became shorter while it was read");
    done += static_cast<std::size_t>(n);
  }
  return ok_status();
}

Status check_range(const onnx::TensorProto& t, const Place& p, std::size_t need,
                   std::int64_t size) {
  const std::string file = "'" + p.location + "' (size " + std::to_string(size) + " bytes)";
  const auto wanted = static_cast<std::int64_t>(need);
  if (p.length && *p.length != wanted)
    return bad(t, "length " + std::to_string(*p.length) + " in " + file + ", but its shape needs " +
                      std::to_string(need) + " bytes");
  if (p.offset > size)
    return bad(t, "offset " + std::to_string(p.offset) + " lies behind the end of " + file);
  if (wanted > size - p.offset)
    return bad(t, "offset " + std::to_string(p.offset) + " plus length " + std::to_string(need) +
                      " lies behind the end of " + file);
  return ok_status();
}

}  // namespace

Result<std::shared_ptr<Buffer>> read_external(const onnx::TensorProto& tensor, std::size_t need,
                                              const std::string& folder) {
  FOLD8_TRY(const Place place, parse_place(tensor));
  if (folder.empty())
    return bad(tensor,
               "'" + place.location + "' cannot be read: this model comes without a folder");
  FOLD8_TRY(const std::string path, resolve(tensor, place.location, folder));
  Descriptor file;
  file.fd = open(path.c_str(),
                 O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);  // a FIFO must not block us
  if (file.fd < 0)
    return io_error("tensor '" + tensor.name() + "': cannot open external data file '" + path +
                    "': " + std::strerror(errno));
  struct stat info {};
  if (fstat(file.fd, &info) != 0)
    return io_error("cannot read external data file '" + path + "': " + std::strerror(errno));
  if (!S_ISREG(info.st_mode))
    return bad(tensor, "location '" + place.location + "' is no regular file (a folder, perhaps)");
  FOLD8_CHECK_OK(check_range(tensor, place, need, info.st_size));
  auto buffer = Buffer::allocate(need);
  if (auto s = read_all(file.fd, place.offset, *buffer); !s.ok())
    return in_context("tensor '" + tensor.name() + "', external data file '" + path + "'",
                      s.error());
  return buffer;
}

}  // namespace fold8::onnx_io
