#include "runtime/kernels/broadcast.h"

namespace fold8::kernels {

Broadcast collapse(int rank, const std::size_t* shape, const std::ptrdiff_t* a,
                   const std::ptrdiff_t* b) noexcept {
  Broadcast plan;
  int n = 0;
  for (int i = 0; i < rank; ++i) {
    if (shape[i] == 1) continue;
    const auto extent = static_cast<std::ptrdiff_t>(shape[i]);
    if (n > 0 && plan.a_stride[n - 1] == a[i] * extent && plan.b_stride[n - 1] == b[i] * extent) {
      plan.shape[n - 1] *= shape[i];
      plan.a_stride[n - 1] = a[i];
      plan.b_stride[n - 1] = b[i];
      continue;
    }
    plan.shape[n] = shape[i];
    plan.a_stride[n] = a[i];
    plan.b_stride[n] = b[i];
    ++n;
  }
  plan.rank = n > 0 ? n : 1;
  return plan;
}

BroadcastCursor seek(const Broadcast& plan, std::size_t element) noexcept {
  BroadcastCursor cursor;
  cursor.column = element % plan.shape[plan.rank - 1];
  std::size_t rest = element / plan.shape[plan.rank - 1];
  for (int i = plan.rank - 2; i >= 0; --i) {
    cursor.index[i] = rest % plan.shape[i];
    rest /= plan.shape[i];
    cursor.a += static_cast<std::ptrdiff_t>(cursor.index[i]) * plan.a_stride[i];
    cursor.b += static_cast<std::ptrdiff_t>(cursor.index[i]) * plan.b_stride[i];
  }
  return cursor;
}

void next_row(const Broadcast& plan, BroadcastCursor& cursor) noexcept {
  cursor.column = 0;
  for (int i = plan.rank - 2; i >= 0; --i) {
    cursor.a += plan.a_stride[i];
    cursor.b += plan.b_stride[i];
    if (++cursor.index[i] < plan.shape[i]) return;
    cursor.a -= static_cast<std::ptrdiff_t>(plan.shape[i]) * plan.a_stride[i];
    cursor.b -= static_cast<std::ptrdiff_t>(plan.shape[i]) * plan.b_stride[i];
    cursor.index[i] = 0;
  }
}

}  // namespace fold8::kernels
