// What convert --reestimate-bn says it did.
#pragma once

#include <string>
#include <vector>

#include "fusion/convert.h"
#include "tools/cli/common.h"

namespace fold8::cli {

// A summary, then the BatchNorms that changed most; none if nothing was re-estimated.
std::vector<std::string> reestimated_lines(const std::vector<fusion::ReestimatedNorm>& norms);
Json reestimated_json(const std::vector<fusion::ReestimatedNorm>& norms);

}  // namespace fold8::cli
