// `convert --prefer`: which layers become INT8, and the cost table that decides it.
#pragma once

#include <optional>
#include <string>

#include "fusion/cost_table.h"
#include "tools/cli/common.h"

namespace fold8::cli {

struct PreferArgs {
  std::string prefer = "int8";  // every layer that can be; "speed": only those that gain by it
  std::string target, cost_table;
};
void add_prefer_options(CLI::App& app, PreferArgs& args);

// nullopt for `--prefer int8`. Otherwise the file of --cost-table, or the table shipped for
// --target, or (neither given) for the best target of this machine (FOLD8_TARGET caps it) that one
// ships for.
Result<std::optional<fusion::CostTable>> open_cost_table(const PreferArgs& args);

}  // namespace fold8::cli
