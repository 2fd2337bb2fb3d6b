// Causes and fixes in a report: a section of the terminal text, and keys of the JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/report/report.h"

namespace fold8::report {

// "What to do": the worst three layers with cause and fixes; empty if there is nothing to say.
std::string what_to_do(const Report& report);

// layers[].cause (a sentence or null), cause_kind, fixes[]; what_to_do[]: the findings, worst
// first.
void add_advice(const Report& report, nlohmann::ordered_json& json);

}  // namespace fold8::report
