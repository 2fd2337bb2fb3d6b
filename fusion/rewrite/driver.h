// Runs passes. Shared safety is here, once, and in no pass: an inner value of a match that
// something else reads, or that the graph returns, declines the rewrite with a reason that names
// it. After each pass that changed something the graph is compacted and verified.
//
// Names: a replacement's output keeps the name of the pattern's last value; the names of inner
// values and nodes that vanish go into Node::inside.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "fusion/rewrite/rewrite.h"

namespace fold8::fusion {

// One pass to its fixed point. The declines are those that hold at the end.
Result<Tally> run(const Pass& pass, graph::Graph& g, const Context& context = {});

struct Stage {
  std::string_view name;
  std::vector<Pass> passes;
};

// All passes in order, again and again until none of them changes anything. Types are inferred
// first and whenever a pass left values without one. The declines are those of the last round.
Result<Tally> run(const Stage& stage, graph::Graph& g, const Context& context = {});

}  // namespace fold8::fusion
