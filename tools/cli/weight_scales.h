// The parts of --weights and --activations that are about groups of inputs.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/core/result.h"

namespace fold8::cli {

// N of "group:N"; error: anything else.
Result<std::int64_t> weight_group_of(const std::string& text);
// Error, with the reason, for "dynamic:group" and the like.
Status no_group_activations(const std::string& text);

}  // namespace fold8::cli
