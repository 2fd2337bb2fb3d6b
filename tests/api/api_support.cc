#include "tests/api/api_support.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "runtime/format/f8.h"
#include "runtime/graph/text.h"

namespace fold8::testing {

std::string write_model(const std::string& text) {
  static int count = 0;
  const std::string path = ::testing::TempDir() + "fold8_api_" + std::to_string(::getpid()) + "_" +
                           std::to_string(count++) + ".f8";
  const auto g = graph::parse(text);
  if (!g.ok()) {
    ADD_FAILURE() << g.error().message;
    return path;
  }
  const auto s = format::write_file(*g, path);
  if (!s.ok()) ADD_FAILURE() << s.error().message;
  return path;
}

}  // namespace fold8::testing
