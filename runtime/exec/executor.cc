#include "runtime/exec/executor.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "runtime/exec/relayout.h"

namespace fold8::exec {
namespace {

std::size_t at(graph::ValueId v) { return static_cast<std::size_t>(v); }

// Kernels may load up to kTailPadding bytes past the end of a tensor. Bytes on the page of the last
// byte are there.
bool usable_in_place(const TensorView& t) {
  const auto begin = reinterpret_cast<std::uintptr_t>(t.data);
  if (t.bytes() == 0) return t.data != nullptr;
  const std::uintptr_t last = begin + t.bytes() - 1;
  constexpr std::uintptr_t kPage = 4096;
  return begin % kAlignment == 0 && last / kPage == (last + kTailPadding) / kPage;
}

}  // namespace

std::size_t default_memory_limit() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0) return std::size_t{1} << 40;
  return static_cast<std::size_t>(pages) / 4 * 3 * static_cast<std::size_t>(page);
}

Executor::Executor(const graph::Graph& g, std::vector<graph::NodeId> order,
                   const PlanOptions& options, int plan_cache)
    : info_(g, std::move(order)),
      options_(options),
      plan_cache_(static_cast<std::size_t>(std::max(plan_cache, 1))),
      staged_inputs_(g.inputs.size()),
      staged_outputs_(g.outputs.size()) {
  options_.controls = &controls_;
  options_.states = &states_;
}

Status Executor::add_state(graph::ValueId output, graph::ValueId input, std::int64_t capacity) {
  FOLD8_CHECK_OK(states_.add(info_, output, input, capacity, !options_.keep_all));
  state_inputs_.resize(info_.g.inputs.size(), false);
  state_inputs_[states_.all().back().input_index] = true;
  current_ = nullptr;
  outputs_.clear();
  plans_.clear();
  followers_.clear();
  followers_known_ = exact_ = false;
  return ok_status();
}

Status Executor::run(std::span<const TensorView> inputs) {
  current_ = nullptr;
  outputs_.clear();
  try {
    if (states_.empty()) {
      set_key(inputs, false);
      current_ = &find_plan(key_);
    } else if (auto planned = plan_for_states(inputs); !planned.ok()) {
      forget_current();
      return planned;
    }
    auto status = run_plan(inputs);
    if (!status.ok()) forget_current();
    return status;
  } catch (...) {
    forget_current();  // half a plan must not be found again
    throw;
  }
}

void Executor::set_key(std::span<const TensorView> inputs, bool capacities) {
  key_.resize(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) key_[i] = inputs[i].shape;
  if (!capacities) return;
  std::int64_t ahead = 0;  // how far the longest state is from its capacity
  for (const State& s : states_.all())
    if (s.axis >= 0) ahead = std::max(ahead, s.capacity - s.length());
  states_.set_capacities(key_);
  for (const Follower& f : followers_)
    key_[f.input][f.axis] = Dim(key_[f.input].extent(f.axis) + ahead);
}

Plan& Executor::find_plan(std::span<const Shape> key) {
  const auto hit = std::find_if(plans_.begin(), plans_.end(), [&](const auto& p) {
    return std::equal(key.begin(), key.end(), p->input_shapes.begin());
  });
  if (hit != plans_.end()) {
    std::rotate(plans_.begin(), hit, hit + 1);
    return *plans_.front();
  }
  if (plans_.size() >= plan_cache_) plans_.pop_back();
  plans_.insert(plans_.begin(), start_plan(info_, {key.begin(), key.end()}));
  ++plans_made_;
  return *plans_.front();
}

void Executor::forget_current() {
  outputs_.clear();
  if (current_ == nullptr) return;
  plans_.erase(plans_.begin());
  current_ = nullptr;
}

Status Executor::run_plan(std::span<const TensorView> inputs) {
  set_inputs(inputs);
  for (std::size_t s = 0;; ++s) {
    if (s > 0 && s < current_->segments.size() && !still_bound(*current_, current_->segments[s]))
      drop_segments(info_, *current_, s);
    if (s == current_->segments.size()) {
      if (current_->complete()) break;
      FOLD8_CHECK_OK(bind_next_segment(info_, options_, *current_));
    }
    FOLD8_CHECK_OK(run_segment(s));
  }
  FOLD8_CHECK_OK(states_.check(info_.g, *current_));
  hand_over_outputs();
  states_.keep(*current_);
  return ok_status();
}

void Executor::set_inputs(std::span<const TensorView> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (is_state(i)) continue;
    const graph::ValueId v = info_.g.inputs[i];
    TensorView staged = inputs[i];
    staged.layout = info_.g.type(v).layout;
    // While states grow an input may need it later, and be larger then.
    if (!states_.empty()) {
      staged.shape = current_->input_shapes[i];
      staged_inputs_[i].reserve(staged.bytes());
      staged.shape = inputs[i].shape;
    }
    if (!options_.keep_all && inputs[i].layout == staged.layout && usable_in_place(inputs[i])) {
      current_->data[at(v)] = inputs[i].data;
      continue;
    }
    staged.data = staged_inputs_[i].reserve(staged.bytes());
    copy_tensor(inputs[i], staged);
    current_->data[at(v)] = staged.data;
  }
  states_.place(info_.g, *current_);
}

void Executor::locate(std::size_t index) {
  Segment& s = current_->segments[index];
  std::byte* base = arenas_[index].reserve(s.arena_bytes);
  for (const auto& [v, bytes] : s.folded) current_->data[at(v)] = const_cast<std::byte*>(bytes);
  for (const auto& [v, offset] : s.placed) current_->data[at(v)] = base + offset;
  if (!states_.empty()) states_.redirect(*current_, s);
  for (const auto& [v, source] : s.aliases) current_->data[at(v)] = current_->data[at(source)];
}

Status Executor::run_segment(std::size_t index) {
  if (arenas_.size() <= index) arenas_.resize(index + 1);
  locate(index);
  Segment& s = current_->segments[index];
  for (PlannedStep& step : s.steps) {
    if (profile_) {
      const auto start = std::chrono::steady_clock::now();
      FOLD8_CHECK_OK(run_step(step, arenas_[index].data() + step.scratch_offset));
      step.microseconds =
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
              .count();
    } else {
      FOLD8_CHECK_OK(run_step(step, arenas_[index].data() + step.scratch_offset));
    }
    if (tap_) FOLD8_CHECK_OK(call_tap(step));
  }
  return ok_status();
}

Status Executor::run_step(PlannedStep& step, std::byte* scratch) {
  if (step.idle) return ok_status();
  auto status = step.control != nullptr ? run_control(step) : run_operator(step, scratch);
  if (!status.ok()) return in_context(describe(info_.g.node(step.node)), std::move(status).error());
  return status;
}

Status Executor::run_operator(PlannedStep& step, std::byte* scratch) {
  const auto gather = [&](std::span<const graph::ValueId> values, std::vector<void*>& pointers) {
    pointers.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      pointers[i] = values[i] == graph::kNoValue ? nullptr : current_->data[at(values[i])];
  };
  gather(step.inputs, step_inputs_);
  gather(step.outputs, step_outputs_);
  ops::RunContext c;
  c.inputs = step_inputs_;
  c.outputs = step_outputs_;
  c.scratch = scratch;
  c.pool = options_.pool;
  if (step.appends) {
    states_.find_places(info_.g, step.node, step_places_);
    c.appended = step_places_;
  }
  if (step.reports_shapes) {
    step_shapes_.assign(step.outputs.size(), std::nullopt);
    c.shapes = step_shapes_;
  }
  FOLD8_CHECK_OK(step.step->run(c));
  if (!step.reports_shapes) return ok_status();
  for (std::size_t o = 0; o < step.outputs.size(); ++o)
    if (step.outputs[o] != graph::kNoValue && current_->dynamic[at(step.outputs[o])])
      FOLD8_CHECK_OK(take_shape(step.outputs[o], step_shapes_[o]));
  return ok_status();
}

Status Executor::take_shape(graph::ValueId v, const std::optional<Shape>& reported) {
  Facts& f = current_->facts.edit(v);
  if (!reported || !reported->known())
    return internal_error("'" + info_.g.value(v).name + "' has no shape after running");
  if (f.bound && reported->count() > f.bound->count())
    return internal_error("'" + info_.g.value(v).name + "' is larger than its bound");
  f.type.shape = *reported;
  return ok_status();
}

Status Executor::run_control(PlannedStep& step) {
  control_inputs_.clear();
  for (graph::ValueId v : step.inputs)
    control_inputs_.push_back(v == graph::kNoValue ? TensorView{} : view(v));
  control_outputs_.assign(step.outputs.size(), TensorView{});
  FOLD8_CHECK_OK(step.control->run(control_inputs_, control_outputs_));
  for (std::size_t o = 0; o < step.outputs.size(); ++o) {
    const graph::ValueId v = step.outputs[o];
    if (v == graph::kNoValue) continue;
    Facts& f = current_->facts.edit(v);
    const TensorView& got = control_outputs_[o];
    if (got.dtype != f.type.dtype || got.layout != f.type.layout)
      return invalid_model("'" + info_.g.value(v).name + "' is " + std::string(name(got.dtype)) +
                           ", declared as " + std::string(name(f.type.dtype)));
    f.type.shape = got.shape;
    current_->data[at(v)] = got.data;
  }
  return ok_status();
}

Status Executor::call_tap(const PlannedStep& step) {
  for (graph::ValueId v : step.outputs) {
    if (v == graph::kNoValue) continue;
    const auto copy = step.appends ? copy_in_place(v) : std::nullopt;
    FOLD8_CHECK_OK(tap_(v, copy ? copy->view() : view(v)));
  }
  return ok_status();
}

TensorView Executor::view(graph::ValueId v) const {
  const TensorType& t = current_->facts[v].type;
  return {t.dtype, t.shape, current_->data[at(v)], t.layout};
}

void Executor::hand_over_outputs() {
  outputs_.resize(info_.g.outputs.size());
  for (std::size_t o = 0; o < outputs_.size(); ++o) {
    const graph::ValueId v = info_.g.outputs[o];
    TensorView t = view(v);
    if (states_.of_output(v) != nullptr) {
      t.data = nullptr;
      outputs_[o] = t;
      continue;
    }
    // Not ours to change, or in another layout: a copy.
    if (t.layout != Layout::plain || !current_->writable[at(v)]) {
      TensorView copy = t;
      copy.layout = Layout::plain;
      copy.data = staged_outputs_[o].reserve(t.bytes());
      copy_tensor(t, copy);
      t = copy;
    }
    canonicalize_nans(t);
    outputs_[o] = t;
  }
}

std::optional<Tensor> Executor::copy_in_place(graph::ValueId v) const {
  if (current_ == nullptr || !current_->facts[v].type.shape.known()) return std::nullopt;
  for (const State& s : states_.all())
    if (s.in_place() && s.started && (v == s.input || v == s.output))
      return states_.copy(info_.g, s, current_->facts[v].type.shape.extent(s.axis));
  return std::nullopt;
}

TensorView Executor::find(graph::ValueId v) const {
  if (current_ == nullptr || states_.in_place(v)) return {};
  const bool lives = options_.keep_all || info_.g.is_constant(v) || info_.is_input[at(v)] ||
                     info_.last_use[at(v)] == kForever || current_->facts[v].data != nullptr;
  if (!lives || !current_->facts[v].type.shape.known()) return {};
  return view(v);
}

}  // namespace fold8::exec
