// Just enough of zip for .npz: stored and deflated entries, zip64, no encryption, one disk. Every
// size is checked.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tools/data/byte_stream.h"

namespace fold8::data {

struct ZipEntry {
  std::string name;
  bool deflated = false;
  std::uint64_t packed = 0, size = 0;  // bytes in the file, bytes unpacked
  std::uint64_t header = 0;            // offset of the local header
};

// The central directory of the file. At most 65,536 entries.
Result<std::vector<ZipEntry>> list_zip(const std::string& path);
// The bytes of one entry, unpacked as they are read; memory does not depend on its size.
Result<std::unique_ptr<ByteStream>> open_entry(const std::string& path, const ZipEntry& entry);

// A zip of stored entries, as numpy.savez writes.
class ZipWriter {
 public:
  Status add(const std::string& name, const std::string& bytes);
  Result<std::string> finish();

 private:
  std::string body_, directory_;
  std::uint16_t count_ = 0;
};

}  // namespace fold8::data
