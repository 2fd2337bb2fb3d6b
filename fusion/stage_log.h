// Stages as convert() runs them: timed, reported as progress, with what they declined remembered.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "fusion/convert.h"

namespace fold8::fusion {

class StageLog {
 public:
  // Both must outlive the log.
  StageLog(const ConvertOptions& options, ConvertSummary& summary)
      : options_(options), summary_(summary) {}

  // Runs the stage of that pipeline name ("fold", ..); `as` is what people read.
  Status run(std::string_view stage, graph::Graph& g, std::string as = "");
  // "calibrate": 3 of 8 samples.
  void progress(const std::string& stage, std::size_t done, std::size_t total) const {
    if (options_.progress) options_.progress(stage, done, total);
  }

  // Adds the time of a scope to the stage of that name, and tells the caller that it began.
  class Clock {
   public:
    Clock(StageLog& log, std::string name);
    ~Clock();
    Clock(const Clock&) = delete;
    Clock& operator=(const Clock&) = delete;

   private:
    StageLog& log_;
    std::string name_;
    std::chrono::steady_clock::time_point begin_;
  };

 private:
  const ConvertOptions& options_;
  ConvertSummary& summary_;
};

// Appends those that are not there yet.
void remember(const std::vector<Declined>& from, std::vector<Declined>& to);

}  // namespace fold8::fusion
