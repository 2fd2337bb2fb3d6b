#include "fusion/stage_log.h"

#include <algorithm>

#include "fusion/pipeline.h"

namespace fold8::fusion {

void remember(const std::vector<Declined>& from, std::vector<Declined>& to) {
  for (const Declined& d : from)
    if (std::find(to.begin(), to.end(), d) == to.end()) to.push_back(d);
}

Status StageLog::run(std::string_view stage, graph::Graph& g, std::string as) {
  const Clock clock(*this, as.empty() ? std::string(stage) : std::move(as));
  Context context;
  context.keep_input_affine = !options_.float_only;  // it becomes part of the input quantizer
  FOLD8_TRY(const Tally tally, fusion::run(fusion::stage(stage), g, context));
  remember(tally.declined, summary_.declined);
  return ok_status();
}

StageLog::Clock::Clock(StageLog& log, std::string name)
    : log_(log), name_(std::move(name)), begin_(std::chrono::steady_clock::now()) {
  log_.progress(name_, 0, 0);
}

StageLog::Clock::~Clock() {
  const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  for (StageTime& t : log_.summary_.stages)
    if (t.name == name_) {
      t.seconds += s;
      return;
    }
  log_.summary_.stages.push_back({name_, s});
}

}  // namespace fold8::fusion
