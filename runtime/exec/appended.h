// How a graph makes a value longer.
#pragma once

#include <optional>

#include "runtime/exec/plan.h"

namespace fold8::exec {

struct Appended {
  graph::NodeId node = graph::kNoNode;  // puts something behind `input`: `output`
  std::size_t index = 0;                // which of ops::appends()
  int axis = 0;
  bool in_place = false;  // both may lie in one block of memory, with room behind each row
};
std::optional<Appended> find_appended(const GraphInfo& info, graph::ValueId output,
                                      graph::ValueId input);

}  // namespace fold8::exec
