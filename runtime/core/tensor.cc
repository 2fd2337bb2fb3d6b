#include "runtime/core/tensor.h"

#include <cstring>

namespace fold8 {

std::shared_ptr<Buffer> Buffer::allocate(std::size_t bytes) {
  std::shared_ptr<Buffer> b(new Buffer());
  b->owned_ = allocate_aligned(bytes);
  std::memset(b->owned_.get(), 0, bytes + kTailPadding);
  b->data_ = b->owned_.get();
  b->size_ = bytes;
  return b;
}

std::shared_ptr<Buffer> Buffer::borrow(const void* data, std::size_t bytes,
                                       std::shared_ptr<const void> owner) {
  std::shared_ptr<Buffer> b(new Buffer());
  b->data_ = static_cast<const std::byte*>(data);
  b->size_ = bytes;
  b->owner_ = std::move(owner);
  return b;
}

Tensor::Tensor(DType dtype, const Shape& shape)
    : dtype_(dtype),
      shape_(shape),
      buffer_(Buffer::allocate(static_cast<std::size_t>(shape.count()) * size_of(dtype))) {}

}  // namespace fold8
