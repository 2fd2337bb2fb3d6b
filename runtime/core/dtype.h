// Element types. All of them can be named in a graph from the start; each operator says which it
// accepts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace fold8 {

// The numbers are stored in .f8 files: append only.
enum class DType : std::uint8_t {
  f32 = 0,
  s32 = 1,
  s64 = 2,
  u8 = 3,
  s8 = 4,
  boolean = 5,
  f16 = 6,
  bf16 = 7,
  f64 = 8,
  s16 = 9,
  u16 = 10,
  u32 = 11,
  u64 = 12,
  s4 = 13,
  u4 = 14,
};
inline constexpr int kDTypeCount = 15;

// "f32", "s32", ... as printed in the text form.
std::string_view name(DType dtype);
std::optional<DType> dtype_from_name(std::string_view name);

// Bytes of one element. s4 and u4 are held one element per byte inside fold8 (packed only in
// files).
std::size_t size_of(DType dtype);

bool is_floating(DType dtype);  // f32 f16 bf16 f64
bool is_integer(DType dtype);   // everything else but boolean
inline bool is_quantizable(DType d) { return d == DType::u8 || d == DType::s8; }

// The C++ type of a DType's elements, and back (only those with a C++ type of their own; f16/bf16
// are bit patterns).
template <class T>
struct dtype_of;
template <>
struct dtype_of<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct dtype_of<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct dtype_of<std::int8_t> {
  static constexpr DType value = DType::s8;
};
template <>
struct dtype_of<std::uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct dtype_of<std::int16_t> {
  static constexpr DType value = DType::s16;
};
template <>
struct dtype_of<std::uint16_t> {
  static constexpr DType value = DType::u16;
};
template <>
struct dtype_of<std::int32_t> {
  static constexpr DType value = DType::s32;
};
template <>
struct dtype_of<std::uint32_t> {
  static constexpr DType value = DType::u32;
};
template <>
struct dtype_of<std::int64_t> {
  static constexpr DType value = DType::s64;
};
template <>
struct dtype_of<std::uint64_t> {
  static constexpr DType value = DType::u64;
};
template <>
struct dtype_of<bool> {
  static constexpr DType value = DType::boolean;
};

}  // namespace fold8
