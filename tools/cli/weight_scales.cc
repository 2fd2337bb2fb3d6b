#include "tools/cli/weight_scales.h"

#include <charconv>

namespace fold8::cli {
namespace {

constexpr std::int64_t kSmallest = 4, kLargest = 65536;

}  // namespace

Result<std::int64_t> weight_group_of(const std::string& text) {
  constexpr std::string_view kPrefix = "group:";
  const Error error = invalid_argument(
      "--weights " + text +
      ": expected channel, tensor or group:N with N from 4 to 65536, e.g. group:64");
  if (text.rfind(kPrefix, 0) != 0) return error;
  std::int64_t n = 0;
  const char *begin = text.data() + kPrefix.size(), *end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(begin, end, n);
  if (problem != std::errc() || rest != end || n < kSmallest || n > kLargest) return error;
  return n;
}

Status no_group_activations(const std::string& text) {
  if (text.find("group") == std::string::npos) return ok_status();
  return invalid_argument(
      "--activations " + text +
      ": activations have one scale for each token, not for each group of a token: norms and "
      "layers "
      "round a token in the pass that writes it, once its largest value is known. --activations "
      "dynamic with --weights group:N is what there is");
}

}  // namespace fold8::cli
