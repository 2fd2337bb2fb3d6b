// The C ABI over exec::Model and exec::Session: arguments checked, exceptions stopped, errors kept
// per thread.
#include "runtime/api/fold8.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>

#include "runtime/exec/session.h"

namespace {

using fold8::Error;
using fold8::Result;
using fold8::Status;

thread_local std::string last_error;  // NOLINT: per thread by contract
thread_local const char* last_error_text = "";

fold8_status status_of(fold8::Code code) {
  switch (code) {
    case fold8::Code::invalid_argument:
      return FOLD8_INVALID_ARGUMENT;
    case fold8::Code::invalid_model:
      return FOLD8_INVALID_MODEL;
    case fold8::Code::unsupported:
      return FOLD8_UNSUPPORTED;
    case fold8::Code::io:
      return FOLD8_IO;
    case fold8::Code::internal:
      return FOLD8_INTERNAL;
  }
  return FOLD8_INTERNAL;
}

fold8_status fail(fold8_status status, const char* message) noexcept {
  try {
    last_error = message;
    last_error_text = last_error.c_str();
  } catch (...) {
    last_error_text = "out of memory";
  }
  return status;
}

// Runs f() -> Status; no exception leaves.
template <class F>
fold8_status guard(F f) noexcept {
  try {
    const Status s = f();
    return s.ok() ? FOLD8_OK : fail(status_of(s.error().code), s.error().message.c_str());
  } catch (const std::bad_alloc&) {
    return fail(FOLD8_IO, "out of memory");
  } catch (const std::exception& e) {
    return fail(FOLD8_INTERNAL, e.what());
  } catch (...) {
    return fail(FOLD8_INTERNAL, "unknown exception");
  }
}

Error null_argument(const char* what) {
  return fold8::invalid_argument(std::string(what) + " is NULL");
}

}  // namespace

struct fold8_model {
  std::shared_ptr<const fold8::exec::Model> model;
};

struct fold8_session {
  std::shared_ptr<const fold8::exec::Model> model;
  std::unique_ptr<fold8::exec::Session> session;
  std::vector<fold8::TensorView> inputs;
  std::vector<bool> given;
  fold8::Tensor state;  // the copy that was asked for last
  bool ran = false;
};

namespace {

const std::vector<fold8::graph::ValueId>& ids(const fold8_model& m, bool input) {
  return input ? m.model->graph().inputs : m.model->graph().outputs;
}

void fill(const fold8::graph::Graph& g, const fold8::graph::Value& v, fold8_tensor_info& info) {
  info.name = v.name.c_str();
  info.dtype = static_cast<fold8_dtype>(v.type.dtype);
  info.rank = v.type.shape.rank();
  for (int a = 0; a < info.rank; ++a) {
    const fold8::Dim d = v.type.shape[a];
    info.dims[a] = d.known() ? d.value() : -1;
    info.symbols[a] =
        d.is_symbol() ? g.symbols[static_cast<std::size_t>(d.symbol_id())].c_str() : nullptr;
  }
  if (v.type.quant && v.type.quant->is_per_tensor()) {
    info.quantized = 1;
    info.scale = v.type.quant->scale();
    info.zero_point = v.type.quant->zero_point();
  }
}

// Writes as much of `from` as the caller's header knows.
template <class T>
Status copy_versioned(const T& from, T* to) {
  const std::size_t size = to->struct_size;
  if (size < sizeof(std::size_t)) return fold8::invalid_argument("struct_size is not set");
  std::memcpy(to, &from, std::min(size, sizeof(T)));
  to->struct_size = size;
  return fold8::ok_status();
}

Status tensor_info(const fold8_model* m, std::size_t index, bool input, fold8_tensor_info* info) {
  if (m == nullptr) return null_argument("model");
  if (info == nullptr) return null_argument("info");
  const auto& list = ids(*m, input);
  if (index >= list.size())
    return fold8::invalid_argument((input ? "input " : "output ") + std::to_string(index) +
                                   " does not exist; the model has " + std::to_string(list.size()));
  fold8_tensor_info full{};
  fill(m->model->graph(), m->model->graph().value(list[index]), full);
  return copy_versioned(full, info);
}

Status find(const fold8_model* m, const char* name, bool input, std::size_t* index) {
  if (m == nullptr) return null_argument("model");
  if (name == nullptr) return null_argument("name");
  if (index == nullptr) return null_argument("index");
  const auto& list = ids(*m, input);
  std::string names;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string& candidate = m->model->graph().value(list[i]).name;
    if (candidate == name) {
      *index = i;
      return fold8::ok_status();
    }
    names += (i > 0 ? ", '" : "'") + candidate + "'";
  }
  return fold8::invalid_argument(std::string("no ") + (input ? "input" : "output") + " is named '" +
                                 name + "'; there are " + names);
}

// The part of the options that the caller's header knows, over the defaults.
Result<fold8::exec::SessionOptions> read_options(const fold8_session_options* given) {
  fold8_session_options o;
  fold8_session_options_init(&o);
  if (given != nullptr) {
    if (given->struct_size < sizeof(std::size_t))
      return fold8::invalid_argument("options: struct_size is not set");
    std::memcpy(&o, given, std::min(given->struct_size, sizeof o));
  }
  fold8::exec::SessionOptions options;
  options.threads = o.threads;
  options.plan_cache = o.plan_cache;
  options.memory_limit = o.memory_limit;
  if (o.engine != nullptr) options.engine = o.engine;
  return options;
}

Status set_input(fold8_session* s, std::size_t index, fold8_dtype dtype, std::int32_t rank,
                 const std::int64_t* dims, const void* data) {
  if (s == nullptr) return null_argument("session");
  if (index >= s->inputs.size())
    return fold8::invalid_argument("input " + std::to_string(index) +
                                   " does not exist; the model has " +
                                   std::to_string(s->inputs.size()));
  if (dtype < 0 || dtype >= fold8::kDTypeCount)
    return fold8::invalid_argument("unknown dtype " + std::to_string(dtype));
  if (rank < 0 || rank > FOLD8_MAX_RANK)
    return fold8::invalid_argument("rank is " + std::to_string(rank) + ", expected 0 to 8");
  if (rank > 0 && dims == nullptr) return null_argument("dims");
  fold8::TensorView view;
  view.dtype = static_cast<fold8::DType>(dtype);
  view.shape = fold8::Shape(std::span<const std::int64_t>(dims, static_cast<std::size_t>(rank)));
  view.data = const_cast<void*>(data);
  s->inputs[index] = view;
  s->given[index] = true;
  return fold8::ok_status();
}

Status run(fold8_session* s) {
  if (s == nullptr) return null_argument("session");
  s->ran = false;
  for (std::size_t i = 0; i < s->given.size(); ++i)
    if (!s->given[i])
      return fold8::invalid_argument(
          "input '" + s->model->graph().value(s->model->graph().inputs[i]).name + "' was not set");
  FOLD8_CHECK_OK(s->session->run(s->inputs));
  s->ran = true;
  return fold8::ok_status();
}

Status add_state(fold8_session* s, const char* output, const char* input, std::int64_t capacity) {
  if (s == nullptr) return null_argument("session");
  if (output == nullptr) return null_argument("output");
  if (input == nullptr) return null_argument("input");
  s->ran = false;
  FOLD8_CHECK_OK(s->session->add_state(output, input, capacity));
  for (std::size_t i = 0; i < s->given.size(); ++i)
    if (s->session->is_state(i)) s->given[i] = true;
  return fold8::ok_status();
}

void fill(const fold8::TensorView& view, fold8_tensor& full) {
  full.dtype = static_cast<fold8_dtype>(view.dtype);
  full.rank = view.shape.rank();
  for (int a = 0; a < full.rank; ++a) full.dims[a] = view.shape.extent(a);
  full.data = view.data;
  full.bytes = view.data == nullptr ? 0 : view.bytes();
}

Status read_state(fold8_session* s, std::size_t index, fold8_tensor* tensor) {
  if (s == nullptr) return null_argument("session");
  if (tensor == nullptr) return null_argument("tensor");
  FOLD8_TRY(s->state, s->session->state(index));
  fold8_tensor full{};
  fill(s->state.view(), full);
  return copy_versioned(full, tensor);
}

Status output(const fold8_session* s, std::size_t index, fold8_tensor* tensor) {
  if (s == nullptr) return null_argument("session");
  if (tensor == nullptr) return null_argument("tensor");
  if (!s->ran)
    return fold8::invalid_argument(
        "there are no outputs: the session has not run, or its last run failed");
  const auto& outputs = s->session->outputs();
  if (index >= outputs.size())
    return fold8::invalid_argument("output " + std::to_string(index) +
                                   " does not exist; the model has " +
                                   std::to_string(outputs.size()));
  fold8_tensor full{};
  fill(outputs[index], full);
  return copy_versioned(full, tensor);
}

}  // namespace

extern "C" {

uint32_t fold8_version(void) { return FOLD8_VERSION_NUMBER; }
const char* fold8_version_string(void) { return FOLD8_VERSION; }
const char* fold8_last_error(void) { return last_error_text; }

size_t fold8_dtype_size(fold8_dtype dtype) {
  return dtype < 0 || dtype >= fold8::kDTypeCount
             ? 0
             : fold8::size_of(static_cast<fold8::DType>(dtype));
}
const char* fold8_dtype_name(fold8_dtype dtype) {
  return dtype < 0 || dtype >= fold8::kDTypeCount
             ? ""
             : fold8::name(static_cast<fold8::DType>(dtype)).data();
}

fold8_status fold8_model_load(const char* path, uint32_t flags, fold8_model** model) {
  return guard([&]() -> Status {
    if (model == nullptr) return null_argument("model");
    *model = nullptr;
    if (path == nullptr) return null_argument("path");
    if ((flags & ~static_cast<uint32_t>(FOLD8_VERIFY_FULL)) != 0)
      return fold8::invalid_argument("unknown flags " + std::to_string(flags));
    const auto verify =
        (flags & FOLD8_VERIFY_FULL) != 0 ? fold8::exec::Verify::full : fold8::exec::Verify::header;
    FOLD8_TRY(auto loaded, fold8::exec::Model::load(path, verify));
    *model = new fold8_model{std::move(loaded)};
    return fold8::ok_status();
  });
}

void fold8_model_release(fold8_model* model) { delete model; }

const char* fold8_model_target(const fold8_model* model) {
  return model == nullptr ? "" : model->model->target().name.data();
}
size_t fold8_model_input_count(const fold8_model* model) {
  return model == nullptr ? 0 : ids(*model, true).size();
}
size_t fold8_model_output_count(const fold8_model* model) {
  return model == nullptr ? 0 : ids(*model, false).size();
}

fold8_status fold8_model_input_info(const fold8_model* model, size_t index,
                                    fold8_tensor_info* info) {
  return guard([&] { return tensor_info(model, index, true, info); });
}
fold8_status fold8_model_output_info(const fold8_model* model, size_t index,
                                     fold8_tensor_info* info) {
  return guard([&] { return tensor_info(model, index, false, info); });
}
fold8_status fold8_model_find_input(const fold8_model* model, const char* name, size_t* index) {
  return guard([&] { return find(model, name, true, index); });
}
fold8_status fold8_model_find_output(const fold8_model* model, const char* name, size_t* index) {
  return guard([&] { return find(model, name, false, index); });
}

void fold8_session_options_init(fold8_session_options* options) {
  if (options == nullptr) return;
  *options = fold8_session_options{};
  options->struct_size = sizeof *options;
  options->threads = 1;
  options->plan_cache = 16;
}

fold8_status fold8_session_create(const fold8_model* model, const fold8_session_options* options,
                                  fold8_session** session) {
  return guard([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    *session = nullptr;
    if (model == nullptr) return null_argument("model");
    FOLD8_TRY(const auto parsed, read_options(options));
    auto s = std::make_unique<fold8_session>();
    s->model = model->model;
    FOLD8_TRY(s->session, fold8::exec::Session::create(model->model, parsed));
    s->inputs.resize(model->model->graph().inputs.size());
    s->given.assign(s->inputs.size(), false);
    *session = s.release();
    return fold8::ok_status();
  });
}

void fold8_session_release(fold8_session* session) { delete session; }

fold8_status fold8_session_set_input(fold8_session* session, size_t index, fold8_dtype dtype,
                                     int32_t rank, const int64_t* dims, const void* data) {
  return guard([&] { return set_input(session, index, dtype, rank, dims, data); });
}
fold8_status fold8_session_run(fold8_session* session) {
  return guard([&] { return run(session); });
}
fold8_status fold8_session_output(const fold8_session* session, size_t index,
                                  fold8_tensor* tensor) {
  return guard([&] { return output(session, index, tensor); });
}

fold8_status fold8_session_add_state(fold8_session* session, const char* output, const char* input,
                                     int64_t capacity) {
  return guard([&] { return add_state(session, output, input, capacity); });
}
size_t fold8_session_state_count(const fold8_session* session) {
  return session == nullptr ? 0 : session->session->state_count();
}
int64_t fold8_session_state_length(const fold8_session* session, size_t index) {
  return session == nullptr ? 0 : session->session->state_length(index);
}
fold8_status fold8_session_state(fold8_session* session, size_t index, fold8_tensor* tensor) {
  return guard([&] { return read_state(session, index, tensor); });
}
fold8_status fold8_session_reset_states(fold8_session* session) {
  return guard([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    session->session->reset_states();
    return fold8::ok_status();
  });
}
fold8_status fold8_session_truncate_states(fold8_session* session, int64_t length) {
  return guard([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    return session->session->truncate_states(length);
  });
}

size_t fold8_session_arena_bytes(const fold8_session* session) {
  return session == nullptr ? 0 : session->session->arena_bytes();
}

}  // extern "C"
