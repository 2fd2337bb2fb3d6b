// A pass: a pattern and one function that replaces or declines with a reason; or, for the few that
// are no single pattern, a function over the graph. See driver.h for who runs them and what it
// guarantees.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fusion/rewrite/pattern.h"
#include "runtime/core/result.h"
#include "runtime/graph/graph.h"

namespace fold8::fusion {

class WeightCache;

// What passes may ask about the conversion they are part of.
struct Context {
  // An affine on a graph input (z-score, mean and std of pictures) stays where it is: an INT8 model
  // puts it into its input quantizer (input_affine.h). Float models fold it into the first layer.
  bool keep_input_affine = false;
  WeightCache* weights = nullptr;  // packed before (weight_cache.h); null: none were
  // Called after each pass that changed something; an error stops the pipeline. Tests and debug
  // builds compare the two graphs' results here (the float-equivalence check).
  std::function<Status(const graph::Graph& before, const graph::Graph& after,
                       std::string_view pass)>
      after_pass;
};

// The root node becomes `op` over `inputs`; its output keeps its name. apply() may have added
// constants, and nodes whose results only the replacement reads.
struct Replace {
  graph::Op op;
  std::vector<graph::ValueId> inputs;
  std::string node_name;  // empty: the root keeps its own
};
// The root's output is this value: the root goes.
struct Forward {
  graph::ValueId value;
};
struct Decline {
  std::string why;  // kept, and shown by `fold8 inspect --why`
};
// The pattern matched by accident (a Mul by a constant is not always a scale): nothing a person
// wants to read.
struct NotMine {};
using Outcome = std::variant<Replace, Forward, Decline, NotMine>;

struct Rewrite {
  std::string_view name;
  std::vector<Pattern> (*patterns)();  // tried in order
  Result<Outcome> (*apply)(const Match&, graph::Graph&, const Context&);
  // Other readers of an inner value that are no obstacle (null: every other reader is one).
  bool (*reader_may_stay)(const graph::Op&) = nullptr;
  // Obstacles are not reported: nobody expects this rewrite to happen at any particular place.
  bool quiet = false;
};

struct Declined {
  std::string pass, node, why;
  friend bool operator==(const Declined&, const Declined&) = default;
};
struct Tally {
  int applied = 0;
  std::vector<Declined> declined;  // in the order of nodes, without repeats
};

struct GraphPass {
  std::string_view name;
  Result<Tally> (*run)(graph::Graph&, const Context&);
};

using Pass = std::variant<const Rewrite*, const GraphPass*>;
inline std::string_view name(const Pass& pass) {
  return std::visit([](const auto* p) { return p->name; }, pass);
}

}  // namespace fold8::fusion
