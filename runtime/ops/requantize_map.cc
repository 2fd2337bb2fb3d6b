#include "runtime/ops/requantize_map.h"

namespace fold8::ops {

Result<std::optional<RequantizeMap>> requantize_map(const TensorType& from, const TensorType& to) {
  if (from.quant == to.quant || !is_quantizable(from.dtype)) return std::optional<RequantizeMap>();
  if (!from.quant || !to.quant || !from.quant->is_per_tensor() || !to.quant->is_per_tensor())
    return unsupported("a tensor of type " + describe(from) + " cannot become " + describe(to) +
                       ": both need per-tensor quantization parameters");
  // s8 bytes are the u8 codes less 128: the same table, its index and value shifted.
  const int shift = from.dtype == DType::s8 ? 128 : 0;
  std::uint8_t table[256];
  kernels::requantize_table(from.quant->scale(), from.quant->zero_point() + shift,
                            to.quant->scale(), to.quant->zero_point() + shift, table);
  RequantizeMap map;
  for (std::size_t i = 0; i < 256; ++i)
    map[i] = static_cast<std::uint8_t>(table[(i + static_cast<std::size_t>(shift)) % 256] - shift);
  return std::optional<RequantizeMap>(map);
}

namespace {

void mapped_axes(const CopyPlan& p, int axis, const RequantizeMap& map, const std::uint8_t* src,
                 std::uint8_t* dst) {
  for (std::int64_t i = 0; i < p.extent[axis]; ++i) {
    if (axis == p.rank - 1)
      dst[i * p.dst[axis]] = map[src[i * p.src[axis]]];
    else
      mapped_axes(p, axis + 1, map, src + i * p.src[axis], dst + i * p.dst[axis]);
  }
}

}  // namespace

void run_mapped_copy(const RunContext& c, const CopyPlan& plan, const RequantizeMap& map,
                     const void* src, void* dst) {
  if (plan.empty) return;
  std::size_t inner = 1;
  for (int i = 1; i < plan.rank; ++i) inner *= static_cast<std::size_t>(plan.extent[i]);
  parallel(c, static_cast<std::size_t>(plan.extent[0]), grain_for(inner),
           [&](std::size_t b, std::size_t e, std::size_t) {
             CopyPlan part = plan;
             part.extent[0] = static_cast<std::int64_t>(e - b);
             const auto at = static_cast<std::int64_t>(b);
             mapped_axes(part, 0, map, static_cast<const std::uint8_t*>(src) + at * plan.src[0],
                         static_cast<std::uint8_t*>(dst) + at * plan.dst[0]);
           });
}

}  // namespace fold8::ops
