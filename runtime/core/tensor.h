// Tensors in memory: a view of someone else's bytes, and an owner of bytes.
#pragma once

#include <cassert>
#include <cstddef>
#include <memory>
#include <span>

#include "runtime/core/aligned.h"
#include "runtime/core/tensor_type.h"

namespace fold8 {

// Someone else's memory seen as a dense tensor with a known shape. Views do not own and are cheap
// to copy.
struct TensorView {
  DType dtype = DType::f32;
  Shape shape;  // known
  void* data = nullptr;
  Layout layout = Layout::plain;

  std::size_t bytes() const { return static_cast<std::size_t>(shape.count()) * size_of(dtype); }
  template <class T>
  std::span<T> as() const {
    assert(dtype_of<std::remove_const_t<T>>::value == dtype || sizeof(T) == size_of(dtype));
    return {static_cast<T*>(data), static_cast<std::size_t>(shape.count())};
  }
};

// Immutable, shared bytes: constants of a graph, whether owned or mapped from a file.
// Always 64-byte aligned and followed by at least 64 readable bytes of padding when made by
// allocate().
class Buffer {
 public:
  static std::shared_ptr<Buffer> allocate(std::size_t bytes);  // zeroed
  // Bytes kept alive by `owner` (a mapping, another buffer).
  static std::shared_ptr<Buffer> borrow(const void* data, std::size_t bytes,
                                        std::shared_ptr<const void> owner);

  const std::byte* data() const { return data_; }
  std::byte* mutable_data() {
    assert(owned_);
    return const_cast<std::byte*>(data_);
  }
  std::size_t size() const { return size_; }

 private:
  Buffer() = default;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  AlignedBytes owned_;
  std::shared_ptr<const void> owner_;
};

// A dense tensor that owns its bytes (inputs read from files, results handed to callers,
// calibration samples).
class Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype, const Shape& shape);  // zeroed; shape known
  TensorView view() const {
    return {dtype_, shape_, const_cast<std::byte*>(buffer_->data()), Layout::plain};
  }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::size_t bytes() const { return buffer_ ? buffer_->size() : 0; }
  template <class T>
  std::span<T> as() {
    return view().as<T>();
  }
  template <class T>
  std::span<const T> as() const {
    return view().as<const T>();
  }
  const std::shared_ptr<Buffer>& buffer() const { return buffer_; }

 private:
  DType dtype_ = DType::f32;
  Shape shape_;
  std::shared_ptr<Buffer> buffer_;
};

}  // namespace fold8
