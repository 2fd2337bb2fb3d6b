#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime/format/layout.h"

namespace fold8::format {

std::uint64_t checksum(const void* data, std::size_t bytes) { return XXH3_64bits(data, bytes); }

}  // namespace fold8::format
