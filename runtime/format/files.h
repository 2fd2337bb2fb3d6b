// Files mapped read-only and files written whole. Internal to runtime/format.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "runtime/core/result.h"

namespace fold8::format {

struct Mapping {
  const void* data = nullptr;
  std::size_t bytes = 0;
  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();
};

// An empty file, a folder, a device: an Error.
Result<std::shared_ptr<const Mapping>> map_file(const std::string& path);

// Bytes that follow each other in a file.
struct Piece {
  const void* data = nullptr;
  std::size_t bytes = 0;
};
Status write_pieces(const std::string& path, std::span<const Piece> pieces);  // as write_atomically

}  // namespace fold8::format
