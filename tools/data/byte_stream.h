// Forward readers of bytes, so that large arrays are never wholly in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/core/result.h"

namespace fold8::data {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Exactly n bytes, or an error (invalid_model where the data ends early).
  virtual Status read(void* to, std::size_t n) = 0;
  virtual Status skip(std::uint64_t n);    // by reading, unless overridden
  virtual std::uint64_t size() const = 0;  // of all of it, as announced
};

// [offset, offset + bytes) of a regular file; bytes < 0: to its end.
Result<std::unique_ptr<ByteStream>> open_file(const std::string& path, std::uint64_t offset = 0,
                                              std::int64_t bytes = -1);

// A whole small file (pictures, protobuf); larger than `limit`: an error.
Result<std::string> read_small_file(const std::string& path, std::uint64_t limit);

Status write_file(const std::string& path, const std::string& bytes);

}  // namespace fold8::data
