#include "tools/onnx/model_file.h"

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <onnx/onnx_pb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>

namespace fold8::onnx_io {

Status parse_model(const void* data, std::size_t bytes, const std::string& what,
                   onnx::ModelProto& out) {
  if (bytes == 0) return invalid_model(what + ": the file is empty");
  if (bytes > INT_MAX)
    return invalid_model(
        what + ": larger than 2 GiB, where protobuf ends; store the weights as external data");
  google::protobuf::io::ArrayInputStream stream(data, static_cast<int>(bytes));
  google::protobuf::io::CodedInputStream coded(&stream);
  coded.SetTotalBytesLimit(INT_MAX);
  if (!out.ParseFromCodedStream(&coded) || !coded.ConsumedEntireMessage())
    return invalid_model(
        what +
        ": no readable ONNX model (cut short, damaged, another format, or nested too deeply)");
  if (!out.has_graph()) return invalid_model(what + ": no ONNX model: it holds no graph");
  return ok_status();
}

Result<std::string> read_whole_file(const std::string& path, std::size_t limit) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return io_error("cannot open '" + path + "': " + std::strerror(errno));
  struct stat info {};
  std::string bytes;
  Status status = ok_status();
  if (fstat(fd, &info) != 0) {
    status = io_error("cannot read '" + path + "': " + std::strerror(errno));
  } else if (!S_ISREG(info.st_mode)) {
    status = io_error("'" + path + "' is no regular file");
  } else if (static_cast<std::uint64_t>(info.st_size) > limit) {
    status = invalid_model("'" + path + "' has " + std::to_string(info.st_size) +
                           " bytes, at most " + std::to_string(limit) + " can be read");
  } else {
    bytes.resize(static_cast<std::size_t>(info.st_size));
    std::size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t n = read(fd, bytes.data() + done, bytes.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) status = io_error("cannot read '" + path + "': " + std::strerror(errno));
      if (n <= 0) break;
      done += static_cast<std::size_t>(n);
    }
    bytes.resize(done);
  }
  close(fd);
  if (!status.ok()) return status.error();
  return bytes;
}

Status read_model(const std::string& path, onnx::ModelProto& out, LargeTensors& left_out) {
  FOLD8_TRY(const OpenFile file, OpenFile::open(path));
  if (file.size() <= INT_MAX) {
    auto slim = without_large_tensors(file, left_out);
    if (slim.ok() && parse_model(slim->data(), slim->size(), "'" + path + "'", out).ok())
      return ok_status();
    left_out = {};
    out.Clear();
  }
  auto bytes = read_whole_file(path, INT_MAX);
  if (!bytes.ok()) {
    if (bytes.error().code != Code::invalid_model) return bytes.error();
    return invalid_model(bytes.error().message + "; store the weights as external data");
  }
  return parse_model(bytes->data(), bytes->size(), "'" + path + "'", out);
}

std::string folder_of(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace fold8::onnx_io
