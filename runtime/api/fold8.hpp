// fold8 for C++17 and later: RAII over the C ABI of fold8.h. Header only; throws fold8::Error.
//
//   fold8::Model model("net.f8");
//   fold8::Session session(model);
//   session.set_input<float>(0, {1, 3, 224, 224}, pixels);
//   session.run();
//   for (float p : session.output(0).as<float>()) ...
#ifndef FOLD8_FOLD8_HPP
#define FOLD8_FOLD8_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#if __has_include(<version>)
#include <version>
#endif
#if defined(__cpp_lib_span)
#include <span>
#endif

#include "fold8.h"

namespace fold8 {
inline namespace v1 {

#if defined(__cpp_lib_span)
template <class T>
using Span = std::span<T>;
#else
// What C++17 lacks of std::span.
template <class T>
class Span {
 public:
  constexpr Span() = default;
  constexpr Span(T* data, std::size_t size) : data_(data), size_(size) {}
  template <class Container, class = decltype(std::declval<Container&>().data())>
  constexpr Span(Container& c) : data_(c.data()), size_(c.size()) {}
  constexpr T* data() const { return data_; }
  constexpr std::size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr T* begin() const { return data_; }
  constexpr T* end() const { return data_ + size_; }
  constexpr T& operator[](std::size_t i) const { return data_[i]; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};
#endif

class Error : public std::runtime_error {
 public:
  Error(fold8_status status, const std::string& message)
      : std::runtime_error(message), status_(status) {}
  fold8_status status() const noexcept { return status_; }

 private:
  fold8_status status_;
};

inline void check(fold8_status status) {
  if (status != FOLD8_OK) throw Error(status, fold8_last_error());
}

// The dtype of elements of type T. f16, bf16, s4 and u4 have no C++ type: use the untyped
// functions.
template <class T>
struct ElementType;
template <>
struct ElementType<float> {
  static constexpr fold8_dtype value = FOLD8_F32;
};
template <>
struct ElementType<double> {
  static constexpr fold8_dtype value = FOLD8_F64;
};
template <>
struct ElementType<std::int8_t> {
  static constexpr fold8_dtype value = FOLD8_S8;
};
template <>
struct ElementType<std::uint8_t> {
  static constexpr fold8_dtype value = FOLD8_U8;
};
template <>
struct ElementType<std::int16_t> {
  static constexpr fold8_dtype value = FOLD8_S16;
};
template <>
struct ElementType<std::uint16_t> {
  static constexpr fold8_dtype value = FOLD8_U16;
};
template <>
struct ElementType<std::int32_t> {
  static constexpr fold8_dtype value = FOLD8_S32;
};
template <>
struct ElementType<std::uint32_t> {
  static constexpr fold8_dtype value = FOLD8_U32;
};
template <>
struct ElementType<std::int64_t> {
  static constexpr fold8_dtype value = FOLD8_S64;
};
template <>
struct ElementType<std::uint64_t> {
  static constexpr fold8_dtype value = FOLD8_U64;
};
template <>
struct ElementType<bool> {
  static constexpr fold8_dtype value = FOLD8_BOOL;
};

// An input or output of a model. Extents of -1 are dynamic; symbols[axis] may name them.
struct TensorInfo {
  std::string name;
  fold8_dtype dtype = FOLD8_F32;
  std::vector<std::int64_t> dims;
  std::vector<std::string> symbols;
  bool quantized = false;
  float scale = 0;
  std::int32_t zero_point = 0;
};

class Model {
 public:
  explicit Model(const std::string& path, bool verify_weights = false) {
    fold8_model* model = nullptr;
    check(fold8_model_load(path.c_str(), verify_weights ? FOLD8_VERIFY_FULL : 0, &model));
    handle_.reset(model);
  }

  std::size_t input_count() const { return fold8_model_input_count(handle_.get()); }
  std::size_t output_count() const { return fold8_model_output_count(handle_.get()); }
  TensorInfo input(std::size_t index) const { return info(fold8_model_input_info, index); }
  TensorInfo output(std::size_t index) const { return info(fold8_model_output_info, index); }
  std::size_t find_input(const std::string& name) const {
    return find(fold8_model_find_input, name);
  }
  std::size_t find_output(const std::string& name) const {
    return find(fold8_model_find_output, name);
  }
  std::string target() const { return fold8_model_target(handle_.get()); }
  const fold8_model* handle() const { return handle_.get(); }

 private:
  struct Release {
    void operator()(fold8_model* m) const { fold8_model_release(m); }
  };

  TensorInfo info(fold8_status (*get)(const fold8_model*, std::size_t, fold8_tensor_info*),
                  std::size_t index) const {
    fold8_tensor_info raw{};
    raw.struct_size = sizeof raw;
    check(get(handle_.get(), index, &raw));
    TensorInfo t;
    t.name = raw.name;
    t.dtype = raw.dtype;
    for (std::int32_t a = 0; a < raw.rank; ++a) {
      t.dims.push_back(raw.dims[a]);
      t.symbols.emplace_back(raw.symbols[a] == nullptr ? "" : raw.symbols[a]);
    }
    t.quantized = raw.quantized != 0;
    t.scale = raw.scale;
    t.zero_point = raw.zero_point;
    return t;
  }
  std::size_t find(fold8_status (*get)(const fold8_model*, const char*, std::size_t*),
                   const std::string& name) const {
    std::size_t index = 0;
    check(get(handle_.get(), name.c_str(), &index));
    return index;
  }

  std::unique_ptr<fold8_model, Release> handle_;
};

struct SessionOptions {
  int threads = 1;  // 0: every CPU this process may use
  int plan_cache = 16;
  std::string engine = "fold8";
  std::uint64_t memory_limit = 0;  // 0: 75 % of the physical memory
};

// An output; its data belongs to the session and is valid until the session's next run.
class Output {
 public:
  explicit Output(const fold8_tensor& tensor) : tensor_(tensor) {}
  fold8_dtype dtype() const { return tensor_.dtype; }
  Span<const std::int64_t> dims() const {
    return {tensor_.dims, static_cast<std::size_t>(tensor_.rank)};
  }
  const void* data() const { return tensor_.data; }
  std::size_t bytes() const { return tensor_.bytes; }
  template <class T>
  Span<const T> as() const {
    if (ElementType<T>::value != tensor_.dtype)
      throw Error(FOLD8_INVALID_ARGUMENT, std::string("the output is ") +
                                              fold8_dtype_name(tensor_.dtype) + ", not " +
                                              fold8_dtype_name(ElementType<T>::value));
    return {static_cast<const T*>(tensor_.data), tensor_.bytes / sizeof(T)};
  }

 private:
  fold8_tensor tensor_;
};

// One thread at a time. May outlive its Model object.
class Session {
 public:
  explicit Session(const Model& model, const SessionOptions& options = {}) {
    fold8_session_options raw;
    fold8_session_options_init(&raw);
    raw.threads = options.threads;
    raw.plan_cache = options.plan_cache;
    raw.engine = options.engine.c_str();
    raw.memory_limit = options.memory_limit;
    fold8_session* session = nullptr;
    check(fold8_session_create(model.handle(), &raw, &session));
    handle_.reset(session);
  }

  // Borrows `data` until run() has returned; its size must be the product of dims.
  template <class T>
  void set_input(std::size_t index, std::initializer_list<std::int64_t> dims, Span<const T> data) {
    set_input<T>(index, Span<const std::int64_t>(dims.begin(), dims.size()), data);
  }
  template <class T>
  void set_input(std::size_t index, Span<const std::int64_t> dims, Span<const T> data) {
    std::size_t elements = 1;
    for (std::int64_t d : dims) elements *= static_cast<std::size_t>(d);
    if (elements != data.size())
      throw Error(FOLD8_INVALID_ARGUMENT, "input " + std::to_string(index) + ": the shape has " +
                                              std::to_string(elements) + " elements, the data " +
                                              std::to_string(data.size()));
    set_input(index, ElementType<T>::value, dims, data.data());
  }
  void set_input(std::size_t index, fold8_dtype dtype, Span<const std::int64_t> dims,
                 const void* data) {
    check(fold8_session_set_input(handle_.get(), index, dtype,
                                  static_cast<std::int32_t>(dims.size()), dims.data(), data));
  }

  void run() { check(fold8_session_run(handle_.get())); }

  Output output(std::size_t index) const {
    fold8_tensor tensor{};
    tensor.struct_size = sizeof tensor;
    check(fold8_session_output(handle_.get(), index, &tensor));
    return Output(tensor);
  }

  // Outputs kept as inputs of the next run; names may hold '*', as in "present.*", "past.*".
  void add_state(const std::string& output, const std::string& input, std::int64_t capacity = 0) {
    check(fold8_session_add_state(handle_.get(), output.c_str(), input.c_str(), capacity));
  }
  std::size_t state_count() const { return fold8_session_state_count(handle_.get()); }
  std::int64_t state_length(std::size_t index) const {
    return fold8_session_state_length(handle_.get(), index);
  }
  // A copy, valid until the next call.
  Output state(std::size_t index) {
    fold8_tensor tensor{};
    tensor.struct_size = sizeof tensor;
    check(fold8_session_state(handle_.get(), index, &tensor));
    return Output(tensor);
  }
  void reset_states() { check(fold8_session_reset_states(handle_.get())); }
  void truncate_states(std::int64_t length) {
    check(fold8_session_truncate_states(handle_.get(), length));
  }

  std::size_t arena_bytes() const { return fold8_session_arena_bytes(handle_.get()); }

 private:
  struct Release {
    void operator()(fold8_session* s) const { fold8_session_release(s); }
  };
  std::unique_ptr<fold8_session, Release> handle_;
};

}  // namespace v1
}  // namespace fold8

#endif
