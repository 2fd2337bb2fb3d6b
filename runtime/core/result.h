// Errors as values. Code says who has to act, not where the problem was noticed; the message says
// what, where (node, tensor, sample) and what to do. The library never prints, aborts or lets an
// exception cross its C ABI.
#pragma once

#include <cstdlib>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace fold8 {

enum class Code {
  invalid_argument,  // the caller: wrong shape, wrong dtype, missing input, bad option        (exit
                     // 2)
  invalid_model,  // the model or the data contradicts itself or its format                 (exit 3)
  unsupported,    // a valid model that fold8 cannot run: operator, domain, opset, CPU      (exit 4)
  io,             // the operating system refused                                           (exit 5)
  internal,  // fold8 broke its own promise                                            (exit 70)
};

struct Error {
  Code code = Code::internal;
  std::string message;  // "'h.3.fc1': weight is [768,3072], expected [3072,768]"
};

// A T, or the Error that prevented it. Calling value() on an Error is a bug of ours.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return *std::get_if<0>(&state_); }
  const T& value() const& { return *std::get_if<0>(&state_); }
  T&& value() && { return std::move(*std::get_if<0>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return std::get_if<0>(&state_); }
  const T* operator->() const { return std::get_if<0>(&state_); }
  const Error& error() const& { return *std::get_if<1>(&state_); }
  Error&& error() && { return std::move(*std::get_if<1>(&state_)); }

 private:
  std::variant<T, Error> state_;
};

using Status = Result<std::monostate>;
inline Status ok_status() { return std::monostate{}; }

inline Error invalid_argument(std::string m) { return {Code::invalid_argument, std::move(m)}; }
inline Error invalid_model(std::string m) { return {Code::invalid_model, std::move(m)}; }
inline Error unsupported(std::string m) { return {Code::unsupported, std::move(m)}; }
inline Error io_error(std::string m) { return {Code::io, std::move(m)}; }
inline Error internal_error(std::string m) { return {Code::internal, std::move(m)}; }

// The same error with the place in front: in_context("node 'conv1'", e).
inline Error in_context(const std::string& where, Error e) {
  e.message = where + ": " + e.message;
  return e;
}

}  // namespace fold8

#define FOLD8_CONCAT_INNER(a, b) a##b
#define FOLD8_CONCAT(a, b) FOLD8_CONCAT_INNER(a, b)

// FOLD8_TRY(auto w, load(path));  declares w, or returns the Error from the enclosing function.
#define FOLD8_TRY(declaration, expression)                        \
  auto FOLD8_CONCAT(fold8_try_, __LINE__) = (expression);         \
  if (!FOLD8_CONCAT(fold8_try_, __LINE__).ok())                   \
    return std::move(FOLD8_CONCAT(fold8_try_, __LINE__)).error(); \
  declaration = std::move(FOLD8_CONCAT(fold8_try_, __LINE__)).value()

// FOLD8_CHECK_OK(status_expression);  returns the Error, if there is one.
#define FOLD8_CHECK_OK(expression)                                  \
  do {                                                              \
    auto fold8_status = (expression);                               \
    if (!fold8_status.ok()) return std::move(fold8_status).error(); \
  } while (false)
