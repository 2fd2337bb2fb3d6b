#include "tools/cli/labels.h"

#include <limits>

#include "tools/data/npy.h"

namespace fold8::cli {
namespace {

template <class T>
std::vector<std::int64_t> classes(const Tensor& t) {
  std::vector<std::int64_t> labels;
  for (const T v : t.as<T>()) labels.push_back(static_cast<std::int64_t>(v));
  return labels;
}

Result<std::vector<std::int64_t>> classes_of(const Tensor& t) {
  switch (t.dtype()) {
    case DType::s64:
      return classes<std::int64_t>(t);
    case DType::s32:
      return classes<std::int32_t>(t);
    case DType::s16:
      return classes<std::int16_t>(t);
    case DType::s8:
      return classes<std::int8_t>(t);
    case DType::u64:
      for (const std::uint64_t v : t.as<std::uint64_t>())
        if (v > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
          return invalid_model(std::to_string(v) + " is no class");
      return classes<std::uint64_t>(t);
    case DType::u32:
      return classes<std::uint32_t>(t);
    case DType::u16:
      return classes<std::uint16_t>(t);
    case DType::u8:
      return classes<std::uint8_t>(t);
    case DType::boolean:
      return classes<bool>(t);
    default:
      return invalid_model("expected integers (the right classes), found " +
                           std::string(name(t.dtype())) +
                           "; what a regression gives is judged by its SQNR");
  }
}

}  // namespace

Result<std::vector<std::int64_t>> read_labels(const std::string& path) {
  FOLD8_TRY(const Tensor t, data::read_npy(path));
  auto labels = classes_of(t);
  if (!labels.ok()) return in_context("--labels " + path, labels.error());
  if (labels->empty())
    return invalid_model("--labels " + path + ": it holds none; expected the class of each sample");
  return labels;
}

}  // namespace fold8::cli
