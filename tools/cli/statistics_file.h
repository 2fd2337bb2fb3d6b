// Files of statistics (quant/statistics.h): read, written, shown.
#pragma once

#include <optional>
#include <string>

#include "quant/statistics.h"
#include "tools/cli/common.h"

namespace fold8::cli {

// The file begins as one of statistics does, whole or not. False for what cannot be read.
bool is_statistics_file(const std::string& path);
// Errors name the file.
Result<quant::Statistics> read_statistics(const std::string& path);
Status write_statistics(const quant::Statistics& s, const std::string& path);

// Samples, tensors and warnings: what calibrate, merge and inspect say.
void say_warnings(const quant::CalibrationTable& table);
Json statistics_json(const quant::Statistics& s, const char* schema);
// `fold8 inspect STATS`: a line a tensor with its range and how many values were seen.
Result<int> inspect_statistics(const std::string& path, const std::string& json);

}  // namespace fold8::cli
