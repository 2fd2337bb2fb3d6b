// Best times of programs that run in turns in one process, so that a busy machine slows all alike.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace fold8::bench {

struct Entry {
  std::string name;
  std::function<void()> run;
  double bytes = 0;   // moved per element, where that is printed
  double best = 1e9;  // seconds a call
};

inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// `rounds` batches of calls of each entry in turn.
inline void race(std::vector<Entry>& entries, int rounds) {
  std::vector<int> calls;
  for (Entry& e : entries) {
    e.run();
    const double begin = seconds();
    e.run();
    calls.push_back(std::clamp(static_cast<int>(2e-4 / (seconds() - begin)), 1, 1000));
  }
  for (int r = 0; r < rounds; ++r)
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const double begin = seconds();
      for (int k = 0; k < calls[i]; ++k) entries[i].run();
      entries[i].best = std::min(entries[i].best, (seconds() - begin) / calls[i]);
    }
}

}  // namespace fold8::bench
