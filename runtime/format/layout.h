// Byte layout of a .f8 file, shared by writer and reader. Little endian, as every CPU fold8 runs
// on.
//
//   0            FileHeader (128 bytes)
//   128          FlatBuffers graph (model.fbs), zero padding to a multiple of 64
//   data_offset  tensors, each at a multiple of 64, zero padding between; kTailPadding zero bytes
//   behind the last
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "runtime/core/aligned.h"

namespace fold8::format {

inline constexpr std::array<char, 8> kMagic = {'F', 'O', 'L', 'D', '8', '\0', '\x1a', '\n'};

struct FileHeader {
  std::array<char, 8> magic = kMagic;
  std::uint32_t major = 0, minor = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t graph_offset = 0, graph_bytes = 0;
  std::uint64_t data_offset = 0, data_bytes = 0;
  std::uint64_t graph_checksum = 0;         // XXH3_64bits of the graph section
  std::array<std::uint64_t, 7> reserved{};  // zero
  std::uint64_t header_checksum = 0;        // XXH3_64bits of the bytes before it
};
static_assert(sizeof(FileHeader) == 128 && std::is_trivially_copyable_v<FileHeader>);

inline constexpr std::size_t kHeaderChecked = offsetof(FileHeader, header_checksum);

// Dims in model.fbs.
inline constexpr std::int64_t kUnknownDim = -1;
inline constexpr std::int64_t kSymbolBase = -2;  // symbol s is kSymbolBase - s

// Nesting of If/Loop/Scan that a file may have.
inline constexpr int kMaxGraphDepth = 16;

std::uint64_t checksum(const void* data, std::size_t bytes);

}  // namespace fold8::format
