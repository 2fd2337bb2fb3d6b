// The network that convert and calibrate read: statistics of the one fit the other only if both are
// told the same.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/common.h"

namespace fold8::cli {

struct NetworkArgs {
  std::string model;
  std::vector<std::string> preprocess;  // of one input the last one counts
  bool to_rmsnorm = false;
};
void add_network_options(CLI::App& app, NetworkArgs& args);

// Imported, with its preprocessing in front; notes of the import are said if `aloud`.
Result<graph::Graph> import_network(const NetworkArgs& args, bool aloud = true);

}  // namespace fold8::cli
