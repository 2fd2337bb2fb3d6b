#include "runtime/exec/session.h"

#include "runtime/exec/engine.h"
#include "runtime/exec/executor.h"
#include "runtime/exec/relayout.h"

namespace fold8::exec {
namespace {

constexpr int kMaxThreads = 1024;

std::string describe(DType dtype, const Shape& shape, const graph::Graph& g) {
  return std::string(name(dtype)) + to_string(shape, g.symbols);
}

// Known extents as declared, equal symbols equal.
Status check_shape(const graph::Graph& g, const Shape& declared, const Shape& given,
                   std::vector<std::int64_t>& symbols) {
  if (given.rank() != declared.rank())
    return invalid_argument("has rank " + std::to_string(given.rank()) + ", expected " +
                            std::to_string(declared.rank()));
  for (int a = 0; a < given.rank(); ++a) {
    if (!given[a].known() || given.extent(a) < 0)
      return invalid_argument("axis " + std::to_string(a) + " has no extent");
    if (declared[a].known() && declared.extent(a) != given.extent(a))
      return invalid_argument("axis " + std::to_string(a) + " is " +
                              std::to_string(given.extent(a)) + ", expected " +
                              std::to_string(declared.extent(a)));
    if (!declared[a].is_symbol()) continue;
    std::int64_t& seen = symbols[static_cast<std::size_t>(declared[a].symbol_id())];
    if (seen >= 0 && seen != given.extent(a))
      return invalid_argument("axis " + std::to_string(a) + " ('" +
                              g.symbols[static_cast<std::size_t>(declared[a].symbol_id())] +
                              "') is " + std::to_string(given.extent(a)) + ", another input has " +
                              std::to_string(seen));
    seen = given.extent(a);
  }
  if (!given.elements()) return invalid_argument("has too many elements");
  return ok_status();
}

// Multiplies 8-bit codes.
bool reads_codes(const graph::Graph& g, const graph::Node& n) {
  return !n.inputs.empty() && n.inputs[0] != graph::kNoValue &&
         is_quantizable(g.type(n.inputs[0]).dtype);
}

}  // namespace

struct Session::Impl {
  std::shared_ptr<const Model> model;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Executor> executor;
  std::vector<std::int64_t> symbols;
  std::vector<TensorView> bound;  // inputs, states among them

  // Leaves in `bound` what runs.
  Status check(const std::vector<TensorView>& inputs) {
    const graph::Graph& g = model->graph();
    if (inputs.size() != g.inputs.size())
      return invalid_argument("the model has " + std::to_string(g.inputs.size()) + " inputs, " +
                              std::to_string(inputs.size()) + " were given");
    symbols.assign(g.symbols.size(), -1);
    bound.assign(inputs.begin(), inputs.end());
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (!executor->is_state(i)) FOLD8_CHECK_OK(check_one(i));
    if (executor->states().empty()) return ok_status();
    FOLD8_CHECK_OK(executor->states().bind(g, symbols, bound, executor->memory_limit()));
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (executor->is_state(i)) FOLD8_CHECK_OK(check_one(i));
    return ok_status();
  }

  Status check_one(std::size_t i) {
    const graph::Graph& g = model->graph();
    const graph::Value& v = g.value(g.inputs[i]);
    auto s = check_input(v, bound[i]);
    if (s.ok()) return s;
    return invalid_argument(
        (executor->is_state(i) ? "state '" : "input '") + v.name + "' (" +
        describe(v.type.dtype, v.type.shape, g) + "): " + s.error().message +
        (executor->is_state(i) && bound[i].shape.count() > 0 ? "; reset the states first" : ""));
  }

  Status check_input(const graph::Value& v, const TensorView& t) {
    if (t.dtype != v.type.dtype)
      return invalid_argument("was given as " + std::string(name(t.dtype)) + ", expected " +
                              std::string(name(v.type.dtype)));
    FOLD8_CHECK_OK(check_shape(model->graph(), v.type.shape, t.shape, symbols));
    if (t.layout != Layout::plain) return invalid_argument("must be in plain layout");
    if (t.data == nullptr && t.shape.count() > 0) return invalid_argument("has no data");
    return ok_status();
  }
};

Session::Session() = default;
Session::~Session() = default;

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<const Model> model,
                                                 SessionOptions options) {
  if (model == nullptr) return invalid_argument("no model");
  if (options.threads < 0 || options.threads > kMaxThreads)
    return invalid_argument("threads is " + std::to_string(options.threads) +
                            ", expected 0 (all CPUs) to " + std::to_string(kMaxThreads));
  try {
    PlanOptions plan;
    FOLD8_TRY(plan.engine, find_engine(options.engine));
    std::unique_ptr<Session> session(new Session());
    session->impl_ = std::make_unique<Impl>();
    Impl& s = *session->impl_;
    s.model = std::move(model);
    s.pool = std::make_unique<ThreadPool>(options.threads == 0 ? usable_cpus() : options.threads);
    plan.kernels = s.model->target().kernels;
    plan.pool = s.pool.get();
    plan.keep_all = options.keep_all;
    plan.memory_limit = options.memory_limit == 0 ? default_memory_limit() : options.memory_limit;
    s.executor =
        std::make_unique<Executor>(s.model->graph(), s.model->order(), plan, options.plan_cache);
    return session;
  } catch (const std::bad_alloc&) {
    return io_error("out of memory while creating a session");
  } catch (const std::system_error& e) {
    return io_error(std::string("cannot start threads: ") + e.what());
  }
}

const Model& Session::model() const { return *impl_->model; }

Status Session::run(const std::vector<TensorView>& inputs) {
  const DefaultFloatMode float_mode;
  try {
    FOLD8_CHECK_OK(impl_->check(inputs));
    return impl_->executor->run(impl_->bound);
  } catch (const std::bad_alloc&) {
    return io_error("out of memory while running the model");
  }
}

Status Session::rerun(const std::vector<Replacement>& replaced) {
  const DefaultFloatMode float_mode;
  try {
    return impl_->executor->rerun(replaced);
  } catch (const std::bad_alloc&) {
    return io_error("out of memory while running a part of the model again");
  }
}

const std::vector<TensorView>& Session::outputs() const { return impl_->executor->outputs(); }

Result<Tensor> Session::value(graph::ValueId v) const {
  const graph::Graph& g = impl_->model->graph();
  if (v < 0 || v >= g.value_count())
    return invalid_argument("value " + std::to_string(v) + " does not exist");
  if (auto copy = impl_->executor->copy_in_place(v)) return std::move(*copy);
  const TensorView t = impl_->executor->find(v);
  if (t.data == nullptr)
    return invalid_argument(
        "'" + g.value(v).name +
        "' is not there: nothing was run, or its memory was used again (keep_all)");
  if (t.layout != Layout::plain && t.layout != Layout::channels_last)
    return unsupported("'" + g.value(v).name + "' is packed for the kernels");
  Tensor copy(t.dtype, t.shape);
  copy_tensor(t, copy.view());
  return copy;
}

Status Session::add_state(const std::string& output, const std::string& input,
                          std::int64_t capacity) {
  constexpr std::int64_t kMostCapacity = std::int64_t{1} << 32;
  if (capacity < 0 || capacity > kMostCapacity)
    return invalid_argument("state " + output + "=" + input + ": capacity is " +
                            std::to_string(capacity));
  const graph::Graph& g = impl_->model->graph();
  FOLD8_TRY(const auto pairs, match_states(g, output, input));
  for (const auto& [out, in] : pairs) FOLD8_CHECK_OK(impl_->executor->add_state(out, in, capacity));
  return ok_status();
}

bool Session::is_state(std::size_t input) const { return impl_->executor->is_state(input); }
std::size_t Session::state_count() const { return impl_->executor->states().all().size(); }
std::int64_t Session::state_length(std::size_t i) const {
  return i < state_count() ? impl_->executor->states().all()[i].length() : 0;
}

Result<Tensor> Session::state(std::size_t i) const {
  if (i >= state_count())
    return invalid_argument("state " + std::to_string(i) + " does not exist; the session has " +
                            std::to_string(state_count()));
  const States& states = impl_->executor->states();
  const State& s = states.all()[i];
  if (!s.started) return invalid_argument("a state has no contents before the first run");
  return states.copy(impl_->model->graph(), s, s.length());
}

void Session::reset_states() { impl_->executor->states().reset(); }
Status Session::truncate_states(std::int64_t length) {
  return impl_->executor->states().truncate(impl_->model->graph(), length);
}
std::size_t Session::plans_made() const { return impl_->executor->plans_made(); }

void Session::set_tap(Tap tap) { impl_->executor->set_tap(std::move(tap)); }
void Session::enable_profile(bool on) { impl_->executor->set_profile(on); }

std::vector<StepProfile> Session::profile() const {
  std::vector<StepProfile> steps;
  const Plan* plan = impl_->executor->plan();
  if (plan == nullptr) return steps;
  const graph::Graph& g = impl_->model->graph();
  for (const Segment& segment : plan->segments)
    for (const PlannedStep& step : segment.steps) {
      if (step.idle) continue;
      const graph::Node& n = g.node(step.node);
      steps.push_back({step.node, n.name, graph::display_name(n.op), std::string(step.engine),
                       step.microseconds, step.step != nullptr ? step.step->macs() : 0, step.bytes,
                       reads_codes(g, n)});
    }
  return steps;
}

std::size_t Session::arena_bytes() const { return impl_->executor->arena_bytes(); }
std::size_t Session::least_arena_bytes() const {
  const Plan* plan = impl_->executor->plan();
  return plan == nullptr ? 0 : plan->least_arena_bytes();
}

}  // namespace fold8::exec
