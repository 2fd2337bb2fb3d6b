// Which passes run, in which order, and why.
#pragma once

#include <string>
#include <vector>

#include "fusion/rewrite/driver.h"

namespace fold8::fusion {

// What happened, for `inspect --why`, convert's summary and reports.
struct PipelineLog {
  struct StageLog {
    std::string name;
    int applied = 0;
  };
  std::vector<StageLog> stages;
  std::vector<Declined> declined;  // without repeats, in the order of the stages
};

// canonicalize, fold, fuse: what a float model goes through.
std::vector<Stage> float_pipeline();
// What follows once layers are INT8 (or, for a float model, at once): lower, emit.
std::vector<Stage> back_pipeline();
// The stage of that name, of either pipeline. Empty passes if there is none.
Stage stage(std::string_view name);

// Runs one stage; or all of them in order. `log` collects over several calls.
Status run_stage(const Stage& stage, graph::Graph& g, const Context& context, PipelineLog& log);
Result<PipelineLog> run_stages(const std::vector<Stage>& stages, graph::Graph& g,
                               const Context& context = {});

}  // namespace fold8::fusion
