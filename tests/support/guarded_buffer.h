// Memory that ends (or begins) at an unmapped page: an access outside it is a crash, not luck.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <span>
#include <stdexcept>

namespace fold8::testing {

template <class T>
class GuardedBuffer {
 public:
  // `count` elements whose last byte is the last before an unmapped page. `align_front` pads
  // nothing: the start is then only aligned as far as count * sizeof(T) allows. Filled with 0xCD.
  explicit GuardedBuffer(std::size_t count) : count_(count) {
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t bytes = count * sizeof(T);
    mapped_ = (bytes + page - 1) / page * page + 2 * page;
    base_ = static_cast<std::byte*>(
        mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED) throw std::runtime_error("mmap");
    if (mprotect(base_ + page, mapped_ - 2 * page, PROT_READ | PROT_WRITE) != 0)
      throw std::runtime_error("mprotect");
    data_ = reinterpret_cast<T*>(base_ + mapped_ - page - bytes);
    std::memset(static_cast<void*>(data_), 0xCD, bytes);
  }
  ~GuardedBuffer() { munmap(base_, mapped_); }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return count_; }
  T& operator[](std::size_t i) { return data_[i]; }
  std::span<T> span() { return {data_, count_}; }

 private:
  std::size_t count_, mapped_ = 0;
  std::byte* base_ = nullptr;
  T* data_ = nullptr;
};

}  // namespace fold8::testing
