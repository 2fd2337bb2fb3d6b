#include "runtime/kernels/transpose.h"

namespace fold8::kernels {
namespace {

// Axis a of the plan disappears into its neighbour or was of extent 1.
void remove_axis(TransposePlan& plan, int a) {
  for (int i = a; i + 1 < plan.rank; ++i) {
    plan.extent[i] = plan.extent[i + 1];
    plan.stride[i] = plan.stride[i + 1];
  }
  --plan.rank;
}

// A short contiguous run at the end becomes one larger element.
void widen_element(TransposePlan& plan) {
  const int last = plan.rank - 1;
  if (plan.rank == 1 || plan.stride[last] != 1) return;
  const std::size_t run = plan.extent[last];
  if (run != 2 && run != 4 && run != 8) return;
  if (run * plan.element_size > 8) return;
  plan.element_size *= run;
  --plan.rank;
  for (int i = 0; i < plan.rank; ++i) plan.stride[i] /= run;
}

}  // namespace

TransposePlan make_transpose_plan(std::span<const std::int64_t> extents, std::span<const int> perm,
                                  std::size_t element_size) {
  TransposePlan plan;
  plan.element_size = element_size;
  plan.rank = static_cast<int>(extents.size());
  std::size_t stride[kMaxTransposeRank] = {}, elements = 1;
  for (int i = plan.rank - 1; i >= 0; --i) {
    stride[i] = elements;
    elements *= static_cast<std::size_t>(extents[static_cast<std::size_t>(i)]);
  }
  for (int i = 0; i < plan.rank; ++i) {
    const std::size_t from = static_cast<std::size_t>(perm[static_cast<std::size_t>(i)]);
    plan.extent[i] = static_cast<std::size_t>(extents[from]);
    plan.stride[i] = stride[from];
  }
  if (elements == 0 || plan.rank == 0) {
    plan.rank = 1;
    plan.extent[0] = elements;
    plan.stride[0] = 1;
    return plan;
  }
  for (int i = plan.rank - 1; i >= 0; --i)
    if (plan.extent[i] == 1) remove_axis(plan, i);
  for (int i = plan.rank - 2; i >= 0; --i) {
    if (plan.stride[i] != plan.stride[i + 1] * plan.extent[i + 1]) continue;
    plan.extent[i + 1] *= plan.extent[i];
    remove_axis(plan, i);
  }
  if (plan.rank == 0) {
    plan.rank = 1;
    plan.extent[0] = plan.stride[0] = 1;
  }
  widen_element(plan);
  return plan;
}

TransposePlan to_channels_last(std::size_t batch, std::size_t channels, std::size_t pixels,
                               std::size_t element_size) {
  const std::int64_t extents[] = {static_cast<std::int64_t>(batch),
                                  static_cast<std::int64_t>(channels),
                                  static_cast<std::int64_t>(pixels)};
  const int perm[] = {0, 2, 1};
  return make_transpose_plan(extents, perm, element_size);
}

TransposePlan to_channels_first(std::size_t batch, std::size_t channels, std::size_t pixels,
                                std::size_t element_size) {
  return to_channels_last(batch, pixels, channels, element_size);
}

}  // namespace fold8::kernels
