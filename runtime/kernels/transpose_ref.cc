#include <cstring>

#include "runtime/kernels/transpose.h"

namespace fold8::kernels::reference {
namespace {

struct Copy {
  const TransposePlan& plan;
  const std::byte* x;
  std::byte* y;
  std::size_t size[kMaxTransposeRank];  // of y below an axis, in elements
};

void copy(const Copy& c, int axis, std::size_t begin, std::size_t end, std::size_t from,
          std::size_t to) {
  for (std::size_t i = begin; i < end; ++i) {
    const std::size_t x = from + i * c.plan.stride[axis], y = to + i * c.size[axis];
    if (axis + 1 < c.plan.rank)
      copy(c, axis + 1, 0, c.plan.extent[axis + 1], x, y);
    else
      std::memcpy(c.y + y * c.plan.element_size, c.x + x * c.plan.element_size,
                  c.plan.element_size);
  }
}

}  // namespace

void transpose(const TransposeArgs& args) {
  Copy c{args.plan, static_cast<const std::byte*>(args.x), static_cast<std::byte*>(args.y), {}};
  std::size_t elements = 1;
  for (int i = args.plan.rank - 1; i >= 0; --i) {
    c.size[i] = elements;
    elements *= args.plan.extent[i];
  }
  copy(c, 0, args.begin, args.end, 0, 0);
}

}  // namespace fold8::kernels::reference
