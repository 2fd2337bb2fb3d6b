// Counts calls of the allocator: malloc and its kin, free, mmap, operator new. count_allocations.cc
// interposes them, so a test that links it is a program of its own.
#pragma once

namespace fold8::testing {

void begin_counting_allocations();
int end_counting_allocations();  // calls since begin, from any thread

template <class F>
int allocator_calls(F&& run) {
  begin_counting_allocations();
  run();
  return end_counting_allocations();
}

}  // namespace fold8::testing
