// Every trial case (make_cases.py writes them): those that are broken fail at import with the words they ask for, the
// others import. FOLD8_CASES_DIR, or cases/ in the build folder.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tools/onnx/onnx.h"

namespace fold8::onnx_io {
namespace {

namespace fs = std::filesystem;

fs::path cases_folder() {
  const char* given = std::getenv("FOLD8_CASES_DIR");
  return given != nullptr ? fs::path(given) : fs::path(FOLD8_BINARY_DIR) / "cases";
}

std::string lower(std::string s) {
  for (char& c : s) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return s;
}

int exit_status(Code c) {
  switch (c) {
    case Code::invalid_argument: return 2;
    case Code::invalid_model: return 3;
    case Code::unsupported: return 4;
    case Code::io: return 5;
    case Code::internal: break;
  }
  return 70;
}

// Errors that later stages find: bad calibration data, bad weights, a division by zero in the float model.
bool found_later(const std::string& name, const nlohmann::json& c) {
  return c["kind"] == "calibration" || name == "bn_divides_by_zero" || name == "nan_weight";
}

void check_error(const Error& e, const nlohmann::json& c) {
  const std::string message = lower(e.message);
  for (const auto& word : c["error_contains"]) EXPECT_NE(message.find(lower(word)), std::string::npos) << word << " not in: " << e.message;
  for (const auto& group : c["error_any"]) {
    bool any = false;
    for (const auto& word : group) any |= message.find(lower(word)) != std::string::npos;
    EXPECT_TRUE(any) << group << " not in: " << e.message;
  }
  const std::set<int> statuses(c["exit_status"].begin(), c["exit_status"].end());
  EXPECT_TRUE(statuses.empty() || statuses.count(exit_status(e.code)) != 0) << exit_status(e.code);
}

TEST(Cases, ImportOrFailAsTheySay) {
  const fs::path folder = cases_folder();
  if (!fs::is_directory(folder)) GTEST_SKIP() << "no cases in " << folder << "; set FOLD8_CASES_DIR";
  int seen = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    SCOPED_TRACE(name);
    std::ifstream json(entry.path() / "case.json");
    const auto c = nlohmann::json::parse(json);
    const auto imported = import_file((entry.path() / "model.onnx").string());
    ++seen;
    if (c["expect"] == "error" && !found_later(name, c)) {
      EXPECT_FALSE(imported.ok()) << "imported, but should not be";
      if (!imported.ok()) check_error(imported.error(), c);
    } else {
      EXPECT_TRUE(imported.ok()) << imported.error().message;
    }
  }
  EXPECT_GT(seen, 0);
}

}  // namespace
}  // namespace fold8::onnx_io
