#include "runtime/core/parallel.h"

#include <sched.h>
#include <xmmintrin.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace fold8 {

struct ThreadPool::State {
  std::mutex mutex;
  std::condition_variable start, done;
  std::vector<std::thread> workers;
  const RangeFn* fn = nullptr;
  std::size_t n = 0, parts = 0;
  unsigned long generation = 0;
  std::size_t running = 0;
  bool stop = false;

  // Part p of `parts`: the first n % parts of them get one element more.
  std::pair<std::size_t, std::size_t> range(std::size_t p) const {
    const std::size_t base = n / parts, extra = n % parts;
    const std::size_t begin = p * base + std::min(p, extra);
    return {begin, begin + base + (p < extra ? 1 : 0)};
  }

  void join_all() {
    {
      std::lock_guard lock(mutex);
      stop = true;
    }
    start.notify_all();
    for (std::thread& t : workers) t.join();
  }

  void work(std::size_t part) {
    DefaultFloatMode mode;
    unsigned long seen = 0;
    std::unique_lock lock(mutex);
    for (;;) {
      start.wait(lock, [&] { return stop || generation != seen; });
      if (stop) return;
      seen = generation;
      if (part >= parts) continue;
      const RangeFn* job = fn;
      const auto [begin, end] = range(part);
      lock.unlock();
      (*job)(begin, end, part);
      lock.lock();
      if (--running == 0) done.notify_one();
    }
  }
};

ThreadPool::ThreadPool(int threads)
    : threads_(std::max(1, threads)), state_(std::make_unique<State>()) {
  try {
    for (int i = 1; i < threads_; ++i)
      state_->workers.emplace_back([s = state_.get(), i] { s->work(static_cast<std::size_t>(i)); });
  } catch (...) {  // the system gives no more threads: those that run must end first
    state_->join_all();
    throw;
  }
}

ThreadPool::~ThreadPool() { state_->join_all(); }

void ThreadPool::parallel_for(std::size_t n, std::size_t grain, RangeFn fn) {
  if (n == 0) return;
  const std::size_t parts = std::clamp<std::size_t>(n / std::max<std::size_t>(grain, 1), 1,
                                                    static_cast<std::size_t>(threads_));
  if (parts == 1) return fn(0, n, 0);
  State& s = *state_;
  {
    std::lock_guard lock(s.mutex);
    s.fn = &fn;
    s.n = n;
    s.parts = parts;
    s.running = parts - 1;
    ++s.generation;
  }
  s.start.notify_all();
  const auto [begin, end] = s.range(0);
  fn(begin, end, 0);
  std::unique_lock lock(s.mutex);
  s.done.wait(lock, [&] { return s.running == 0; });
}

namespace {

// cgroup v2 cpu.max ("200000 100000" or "max 100000"), v1 cfs quota; 0 if there is no limit.
int cgroup_cpus() {
  std::string quota;
  double period = 0;
  if (std::ifstream v2("/sys/fs/cgroup/cpu.max");
      v2 >> quota >> period && quota != "max" && period > 0)
    return static_cast<int>(std::max(1.0, std::strtod(quota.c_str(), nullptr) / period + 0.5));
  double q = -1, p = 0;
  if (std::ifstream a("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"); !(a >> q) || q <= 0) return 0;
  if (std::ifstream b("/sys/fs/cgroup/cpu/cpu.cfs_period_us"); !(b >> p) || p <= 0) return 0;
  return static_cast<int>(std::max(1.0, q / p + 0.5));
}

}  // namespace

int usable_cpus() {
  cpu_set_t set;
  int n = 1;
  if (sched_getaffinity(0, sizeof set, &set) == 0) n = std::max(1, CPU_COUNT(&set));
  if (const int limit = cgroup_cpus(); limit > 0) n = std::min(n, limit);
  return n;
}

namespace {
constexpr unsigned kDefaultMxcsr = 0x1f80;
}

DefaultFloatMode::DefaultFloatMode() : saved_(_mm_getcsr()) { _mm_setcsr(kDefaultMxcsr); }
DefaultFloatMode::~DefaultFloatMode() { _mm_setcsr(saved_); }

}  // namespace fold8
