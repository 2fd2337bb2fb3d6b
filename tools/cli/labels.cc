#include "tools/cli/labels.h"

#include "tools/data/npy.h"

namespace fold8::cli {

Result<std::vector<std::int64_t>> read_labels(const std::string& path) {
  FOLD8_TRY(const Tensor t, data::read_npy(path));
  std::vector<std::int64_t> labels;
  switch (t.dtype()) {
    case DType::s64:
      for (auto v : t.as<std::int64_t>()) labels.push_back(v);
      break;
    case DType::s32:
      for (auto v : t.as<std::int32_t>()) labels.push_back(v);
      break;
    case DType::u8:
      for (auto v : t.as<std::uint8_t>()) labels.push_back(v);
      break;
    default:
      return invalid_model("--labels " + path + ": expected integers, found " +
                           std::string(name(t.dtype())));
  }
  return labels;
}

}  // namespace fold8::cli
