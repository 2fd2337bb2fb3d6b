// Right classes of samples, from a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/core/result.h"

namespace fold8::cli {

// A .npy of integers of any size, or booleans. Others, and none at all, are refused; whether the
// model has these classes is not known here.
Result<std::vector<std::int64_t>> read_labels(const std::string& path);

}  // namespace fold8::cli
