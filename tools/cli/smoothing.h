// SmoothQuant at the command line: its option, and how it is told; and how rotations are.
#pragma once

#include <string>
#include <vector>

#include "fusion/convert.h"
#include "tools/cli/common.h"

namespace fold8::cli {

// "auto", "off" or a number in [0, 1].
Result<fusion::Smoothing> smoothing_of(const std::string& text);

// Tensors, alphas and the widest range that shrank in one line; empty if nothing was smoothed.
std::string smoothing_line(const std::vector<fusion::SmoothedTensor>& smoothed);
// How many were rotated; empty if none.
std::string rotation_line(const std::vector<std::string>& rotated);
// One line a tensor, for inspect.
std::string smoothed_line(const fusion::SmoothedTensor& t);
Json smoothed_json(const std::vector<fusion::SmoothedTensor>& smoothed);

}  // namespace fold8::cli
