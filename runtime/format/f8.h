// The .f8 file: header, FlatBuffers graph (model.fbs), 64-byte aligned data, checksums (XXH3).
// Same graph -> same bytes. Written to a temporary file, synced, renamed: nothing half-written is
// left behind.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "runtime/core/result.h"
#include "runtime/graph/graph.h"

namespace fold8::format {

inline constexpr std::uint32_t kFormatMajor =
    2;  // a reader refuses another major, and a newer minor with unknown parts
inline constexpr std::uint32_t kFormatMinor = 0;

Result<std::string> to_bytes(const graph::Graph& g);
Status write_file(const graph::Graph& g, const std::string& path);

struct Loaded {
  graph::Graph graph;  // constants borrow from the mapping
  std::size_t file_bytes = 0;
};
// Constants borrow from `data`, kept alive by `owner`; without an owner, or if it is not 64-byte
// aligned, it is copied. verify_data: also check the checksum of every tensor. Every offset is
// checked; a hostile file costs an error.
Result<Loaded> read_file(const std::string& path, bool verify_data);
Result<Loaded> read_bytes(const void* data, std::size_t bytes, bool verify_data,
                          std::shared_ptr<const void> owner);

// Writes bytes to `path` atomically (temporary file in the same folder, fsync, rename); removes the
// temporary on error.
Status write_atomically(const std::string& path, const void* data, std::size_t bytes);

}  // namespace fold8::format
