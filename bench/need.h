// How a program run by hand gives up.
#pragma once

#include <errno.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "runtime/core/result.h"

namespace fold8::bench {

[[noreturn]] inline void stop(const std::string& why) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, why.c_str());
  std::exit(2);
}

template <class T>
T need(Result<T> r) {
  if (!r.ok()) stop(r.error().message);
  return std::move(r).value();
}

}  // namespace fold8::bench
