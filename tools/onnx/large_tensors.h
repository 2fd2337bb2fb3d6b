// Weights of an ONNX file that never pass through protobuf. Its messages hold them as strings: a
// file of them is read once more, copied, and copied again. Here the file is walked, the large ones
// are left out of what protobuf parses, and each is read from where it lies into the memory that
// keeps it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "runtime/core/result.h"

namespace fold8::onnx_io {

// An open file; closed with the last copy.
class OpenFile {
 public:
  // A regular file; errors name the path.
  static Result<OpenFile> open(const std::string& path);
  std::uint64_t size() const { return size_; }
  // All of [at, at + bytes), else an error.
  Status read(std::uint64_t at, void* to, std::size_t bytes) const;

 private:
  std::shared_ptr<const int> fd_;
  std::uint64_t size_ = 0;
  std::string path_;
};

// raw_data of a tensor, in a file.
struct RawData {
  const OpenFile* file;
  std::uint64_t offset;
  std::size_t bytes;
  Status read(void* to) const { return file->read(offset, to, bytes); }
};

// Those of some initializers of a model's graph, by their number there.
class LargeTensors {
 public:
  std::optional<RawData> at(std::size_t initializer) const;

 private:
  friend Result<std::string> without_large_tensors(const OpenFile& file, LargeTensors& left_out);
  std::shared_ptr<const OpenFile> file_;
  std::map<std::size_t, RawData> places_;
};

// The bytes of a ModelProto without the raw_data of its large f32 initializers, which are found in
// `left_out`. A file whose wire format is not understood (damaged, or with unusual repetitions) is
// an error: then all of it is to be parsed, which says what is wrong.
Result<std::string> without_large_tensors(const OpenFile& file, LargeTensors& left_out);

}  // namespace fold8::onnx_io
