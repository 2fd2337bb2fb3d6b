// The only place where threads appear. A small pool: static, deterministic partition; workers sleep
// between calls.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace fold8 {

// A reference to a callable void(std::size_t begin, std::size_t end, std::size_t part); never
// allocates.
class RangeFn {
 public:
  template <class F>
  RangeFn(const F& f)
      : object_(&f), call_([](const void* o, std::size_t b, std::size_t e, std::size_t p) {
          (*static_cast<const F*>(o))(b, e, p);
        }) {}
  void operator()(std::size_t begin, std::size_t end, std::size_t part) const {
    call_(object_, begin, end, part);
  }

 private:
  const void* object_;
  void (*call_)(const void*, std::size_t, std::size_t, std::size_t);
};

class ThreadPool {
 public:
  // threads >= 1 counts the caller; 1 starts none. Throws std::system_error if the system gives no
  // more threads.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Splits [0, n) into at most threads() parts of at least `grain` and runs fn(begin, end, part) on
  // each, the caller taking part 0. The split depends on n, grain and threads() only. Returns when
  // all are done. Not re-entrant.
  void parallel_for(std::size_t n, std::size_t grain, RangeFn fn);

 private:
  struct State;
  int threads_;
  std::unique_ptr<State> state_;
};

// CPUs this process may use: affinity mask and cgroup quota respected; at least 1.
int usable_cpus();

// Sets MXCSR to its default (round to nearest, no flush-to-zero, no denormals-are-zero, exceptions
// masked) for the life of the object: a host that loaded a -ffast-math library runs us with
// flush-to-zero on.
class DefaultFloatMode {
 public:
  DefaultFloatMode();
  ~DefaultFloatMode();
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;

 private:
  unsigned saved_;
};

}  // namespace fold8
