// Names of the enumerators that appear in attributes: one table each, read by the text form, .f8
// files and JSON.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "runtime/core/activation.h"
#include "runtime/core/dtype.h"
#include "runtime/graph/ops.h"

namespace fold8::graph {

template <class E>
std::span<const std::string_view> enumerators();  // indexed by value

template <class E>
std::string_view enumerator_name(E e) {
  const auto names = enumerators<E>();
  const auto i = static_cast<std::size_t>(e);
  return i < names.size() ? names[i] : std::string_view();
}

template <class E>
std::optional<E> enumerator_from_name(std::string_view text) {
  const auto names = enumerators<E>();
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == text) return static_cast<E>(i);
  return std::nullopt;
}

template <>
std::span<const std::string_view> enumerators<Activation>();
template <>
std::span<const std::string_view> enumerators<DType>();
template <>
std::span<const std::string_view> enumerators<UnaryKind>();
template <>
std::span<const std::string_view> enumerators<BinaryKind>();
template <>
std::span<const std::string_view> enumerators<AutoPad>();
template <>
std::span<const std::string_view> enumerators<PoolKind>();
template <>
std::span<const std::string_view> enumerators<ResizeMode>();
template <>
std::span<const std::string_view> enumerators<Coordinates>();
template <>
std::span<const std::string_view> enumerators<NearestMode>();
template <>
std::span<const std::string_view> enumerators<NormKind>();
template <>
std::span<const std::string_view> enumerators<ReduceKind>();
template <>
std::span<const std::string_view> enumerators<Pad::Mode>();
template <>
std::span<const std::string_view> enumerators<ScatterReduction>();

}  // namespace fold8::graph
