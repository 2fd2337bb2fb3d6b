#include "runtime/core/dtype.h"

#include <array>

namespace fold8 {
namespace {

struct Entry {
  std::string_view name;
  std::size_t size;
};

constexpr std::array<Entry, kDTypeCount> kEntries = {{
    {"f32", 4},
    {"s32", 4},
    {"s64", 8},
    {"u8", 1},
    {"s8", 1},
    {"bool", 1},
    {"f16", 2},
    {"bf16", 2},
    {"f64", 8},
    {"s16", 2},
    {"u16", 2},
    {"u32", 4},
    {"u64", 8},
    {"s4", 1},
    {"u4", 1},
}};

}  // namespace

std::string_view name(DType dtype) { return kEntries[static_cast<std::size_t>(dtype)].name; }

std::optional<DType> dtype_from_name(std::string_view text) {
  for (std::size_t i = 0; i < kEntries.size(); ++i)
    if (kEntries[i].name == text) return static_cast<DType>(i);
  return std::nullopt;
}

std::size_t size_of(DType dtype) { return kEntries[static_cast<std::size_t>(dtype)].size; }

bool is_floating(DType d) {
  return d == DType::f32 || d == DType::f16 || d == DType::bf16 || d == DType::f64;
}

bool is_integer(DType d) { return !is_floating(d) && d != DType::boolean; }

}  // namespace fold8
