#include "runtime/core/parallel.h"

#include <sched.h>
#include <xmmintrin.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace fold8 {

namespace {

// Looks at a condition a few thousand times, some 100 us, before the thread sleeps: waking one
// costs tens of microseconds, as much as a small step takes.
template <class F>
bool spin_until(F done) {
  constexpr int kLooks = 4000;
  for (int i = 0; i < kLooks; ++i) {
    if (done()) return true;
    _mm_pause();
  }
  return done();
}

// A run is what a DefaultFloatMode encloses. Workers look out for more work during one, and sleep
// as soon as it ends.
thread_local int runs = 0;
thread_local std::atomic<bool>* awake_for_run = nullptr;  // of the pool this run used last

}  // namespace

// A job is published by one store: workers whose part is below `parts` then read fn and n, which
// stay as they are until all of them are done; the others touch nothing.
struct ThreadPool::State {
  std::mutex mutex;
  std::condition_variable start, done;
  std::vector<std::thread> workers;
  const RangeFn* fn = nullptr;
  std::size_t n = 0;
  std::atomic<std::uint64_t> job{0};  // a count, and in the low 16 bits `parts`
  std::atomic<std::size_t> running{0};
  std::atomic<bool> stop{false}, awake{false}, caller_sleeps{false};
  std::atomic<int> sleepers{0};

  static constexpr std::uint64_t kPartsMask = 0xffff;

  // Part p of `parts`: the first n % parts of them get one element more.
  std::pair<std::size_t, std::size_t> range(std::size_t p, std::size_t parts) const {
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
    std::uint64_t seen = 0;
    for (;;) {
      wait_for_job(seen);
      if (stop) return;
      seen = job;
      const std::size_t parts = seen & kPartsMask;
      if (part >= parts) continue;
      const auto [begin, end] = range(part, parts);
      (*fn)(begin, end, part);
      if (running.fetch_sub(1) == 1 && caller_sleeps) {
        std::lock_guard lock(mutex);
        done.notify_one();
      }
    }
  }

  void wait_for_job(std::uint64_t seen) {
    const auto called = [&] { return stop || job != seen; };
    if (spin_until([&] { return called() || !awake; }) && called()) return;
    std::unique_lock lock(mutex);
    ++sleepers;
    start.wait(lock, called);
    --sleepers;
  }

  void publish(const RangeFn& f, std::size_t count, std::size_t parts) {
    fn = &f;
    n = count;
    running = parts - 1;
    job = (((job >> 16) + 1) << 16) | parts;
    if (sleepers == 0) return;
    { std::lock_guard lock(mutex); }  // a worker between its look and its sleep gets there first
    start.notify_all();
  }

  void wait_for_workers() {
    const auto all_done = [&] { return running == 0; };
    if (spin_until(all_done)) return;
    std::unique_lock lock(mutex);
    caller_sleeps = true;
    done.wait(lock, all_done);
    caller_sleeps = false;
  }

  void stay_awake() {
    if (runs == 0) return;
    if (awake_for_run != nullptr && awake_for_run != &awake) *awake_for_run = false;
    awake_for_run = &awake;
    awake = true;
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
  s.stay_awake();
  s.publish(fn, n, parts);
  const auto [begin, end] = s.range(0, parts);
  fn(begin, end, 0);
  s.wait_for_workers();
}

namespace {

// Whole CPUs of a quota in microseconds a period; 0 if there is none. A part of a CPU does not
// count: a thread more than the quota would be throttled, and all others wait for it.
int cpus_of_quota(double quota, double period) {
  return quota > 0 && period > 0 ? static_cast<int>(std::max(1.0, quota / period)) : 0;
}

// "200000 100000" or "max 100000" (cgroup v2).
int quota_v2(const std::string& folder) {
  std::string quota;
  double period = 0;
  std::ifstream file(folder + "/cpu.max");
  if (!(file >> quota >> period) || quota == "max") return 0;
  return cpus_of_quota(std::strtod(quota.c_str(), nullptr), period);
}

int quota_v1() {
  double quota = -1, period = 0;
  std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") >> quota;
  std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_period_us") >> period;
  return cpus_of_quota(quota, period);
}

// The least of this process's own group and those above it; 0: no limit. In a container the group
// is the root that it sees.
int cgroup_cpus() {
  int limit = quota_v1();
  std::string path, line;
  std::ifstream membership("/proc/self/cgroup");
  while (std::getline(membership, line))
    if (line.starts_with("0::")) path = line.substr(3);
  for (;;) {
    const int here = quota_v2("/sys/fs/cgroup" + path);
    if (here > 0) limit = limit > 0 ? std::min(limit, here) : here;
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return limit;
    path.resize(slash);
  }
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

DefaultFloatMode::DefaultFloatMode() : saved_(_mm_getcsr()) {
  _mm_setcsr(kDefaultMxcsr);
  ++runs;
}

DefaultFloatMode::~DefaultFloatMode() {
  _mm_setcsr(saved_);
  if (--runs > 0 || awake_for_run == nullptr) return;
  *awake_for_run = false;
  awake_for_run = nullptr;
}

}  // namespace fold8
