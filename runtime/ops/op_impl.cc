#include "runtime/ops/op_impl.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace fold8::ops {
namespace {

template <class Out, class T>
Out widen(const void* data, std::size_t n) {
  const T* p = static_cast<const T*>(data);
  return Out(p, p + n);
}

// Elements (a vector of Dim or std::int64_t) of a constant of at most KnownInts::kMaxInts integers
// or booleans and rank 0 or 1.
template <class Out>
std::optional<Out> constant_ints(const TensorType& type, const void* data) {
  if (data == nullptr || type.shape.rank() > 1) return std::nullopt;
  const auto n = type.shape.elements();
  if (!n || *n > KnownInts::kMaxInts) return std::nullopt;
  const auto count = static_cast<std::size_t>(*n);
  switch (type.dtype) {
    case DType::s64:
      return widen<Out, std::int64_t>(data, count);
    case DType::s32:
      return widen<Out, std::int32_t>(data, count);
    case DType::u8:
    case DType::boolean:
      return widen<Out, std::uint8_t>(data, count);
    case DType::s8:
      return widen<Out, std::int8_t>(data, count);
    default:
      return std::nullopt;
  }
}

std::optional<std::vector<double>> constant_reals(const TensorType& type, const void* data) {
  const auto n = type.shape.elements();
  if (data == nullptr || type.shape.rank() > 1 || !n || *n > KnownInts::kMaxInts)
    return std::nullopt;
  const auto count = static_cast<std::size_t>(*n);
  if (type.dtype == DType::f32) {
    const float* p = static_cast<const float*>(data);
    return std::vector<double>(p, p + count);
  }
  if (type.dtype == DType::f64) {
    const double* p = static_cast<const double*>(data);
    return std::vector<double>(p, p + count);
  }
  return std::nullopt;
}

}  // namespace

namespace {

constexpr std::size_t kBlockStep = 64, kBlockClasses = 48, kMostBlocks = 8;

std::size_t block_class(std::size_t bytes) { return (bytes - 1) / kBlockStep; }

// Freed blocks of a thread, by size. Few: what a plan of common operators needs at once.
struct KeptBlocks {
  struct Stack {
    std::array<void*, kMostBlocks> blocks;
    std::size_t count = 0;
  };
  std::array<Stack, kBlockClasses> stacks;
  ~KeptBlocks();
};

// Steps may outlive what their thread keeps: sessions in static storage.
thread_local bool blocks_are_gone = false;

KeptBlocks::~KeptBlocks() {
  blocks_are_gone = true;
  for (Stack& s : stacks)
    for (std::size_t i = 0; i < s.count; ++i) ::operator delete(s.blocks[i]);
}

// Null: blocks of this size are not kept.
KeptBlocks::Stack* kept_blocks(std::size_t bytes) {
  if (bytes == 0 || block_class(bytes) >= kBlockClasses || blocks_are_gone) return nullptr;
  thread_local KeptBlocks kept;
  return &kept.stacks[block_class(bytes)];
}

}  // namespace

void* take_block(std::size_t bytes) {
  KeptBlocks::Stack* kept = kept_blocks(bytes);
  if (kept == nullptr) return ::operator new(bytes);
  if (kept->count > 0) return kept->blocks[--kept->count];
  return ::operator new((block_class(bytes) + 1) * kBlockStep);
}

void give_block(void* block, std::size_t bytes) noexcept {
  KeptBlocks::Stack* kept = kept_blocks(bytes);
  if (kept == nullptr || kept->count == kMostBlocks) return ::operator delete(block);
  kept->blocks[kept->count++] = block;
}

bool KnownInts::all_known() const {
  return !real && std::all_of(values.begin(), values.end(), [](Dim d) { return d.known(); });
}

std::optional<KnownInts> InferContext::ints(std::size_t i) const {
  if (!has(i)) return std::nullopt;
  if (inputs[i].ints != nullptr) {
    if (inputs[i].ints->real) return std::nullopt;
    return *inputs[i].ints;
  }
  auto v = constant_ints<Dims>(type(i), inputs[i].constant);
  if (!v) return std::nullopt;
  KnownInts k;
  k.scalar = shape(i).rank() == 0;
  k.values = std::move(*v);
  return k;
}

std::span<const float> InferContext::floats(std::size_t i) const {
  if (!has(i) || inputs[i].constant == nullptr || type(i).dtype != DType::f32) return {};
  return {static_cast<const float*>(inputs[i].constant),
          static_cast<std::size_t>(shape(i).count())};
}

std::optional<std::vector<double>> InferContext::reals(std::size_t i) const {
  if (!has(i)) return std::nullopt;
  if (inputs[i].ints != nullptr) {
    if (!inputs[i].ints->real) return std::nullopt;
    return inputs[i].ints->reals;
  }
  return constant_reals(type(i), inputs[i].constant);
}

void InferContext::set(std::size_t o, DType dtype, const Shape& shape) {
  if (o >= outputs.size()) return;
  if (!outputs[o].typed) outputs[o].type.dtype = dtype;
  outputs[o].type.shape = shape;
}

std::optional<std::vector<std::int64_t>> PrepareContext::ints(std::size_t i) const {
  if (!has(i)) return std::nullopt;
  if (inputs[i].constant != nullptr)
    return constant_ints<std::vector<std::int64_t>>(type(i), inputs[i].constant);
  const KnownInts* k = inputs[i].ints;
  if (k == nullptr || !k->all_known()) return std::nullopt;
  std::vector<std::int64_t> v;
  for (Dim d : k->values) v.push_back(d.value());
  return v;
}

std::optional<std::vector<double>> PrepareContext::reals(std::size_t i) const {
  if (!has(i)) return std::nullopt;
  if (inputs[i].constant != nullptr) return constant_reals(type(i), inputs[i].constant);
  const KnownInts* k = inputs[i].ints;
  if (k == nullptr || !k->real) return std::nullopt;
  return k->reals;
}

}  // namespace fold8::ops
