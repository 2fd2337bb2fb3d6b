#include <gtest/gtest.h>
#include <stdlib.h>

#include "runtime/kernels/kernel_table.h"

namespace fold8::kernels {
namespace {

TEST(Targets, TheForcedOneIsTheOneThatRuns) {
  const char* before = std::getenv("FOLD8_TARGET");
  const std::string saved = before ? before : "";
  for (const Target& t : targets()) {
    setenv("FOLD8_TARGET", std::string(t.name).c_str(), 1);
    const auto chosen = select_target();
    ASSERT_EQ(chosen.ok(), t.cpu_can_run());
    if (chosen.ok()) {
      EXPECT_EQ((*chosen)->name, t.name);
    }
  }
  setenv("FOLD8_TARGET", "sse9", 1);
  EXPECT_EQ(select_target().error().code, Code::invalid_argument);
  before ? setenv("FOLD8_TARGET", saved.c_str(), 1) : unsetenv("FOLD8_TARGET");
}

TEST(Targets, ReferenceComesLast) { EXPECT_EQ(targets().back().name, "reference"); }

}  // namespace
}  // namespace fold8::kernels
