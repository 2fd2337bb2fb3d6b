// Right classes of samples, from a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/core/result.h"

namespace fold8::cli {

// A .npy of integers.
Result<std::vector<std::int64_t>> read_labels(const std::string& path);

}  // namespace fold8::cli
