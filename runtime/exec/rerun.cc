// A run of which some values are replaced: what depends on them runs again, in memory of its own,
// so that the values of the run itself remain for the next time.
#include <algorithm>

#include "runtime/exec/executor.h"
#include "runtime/exec/relayout.h"

namespace fold8::exec {
namespace {

std::size_t at(graph::ValueId v) { return static_cast<std::size_t>(v); }

// Every shape is known before anything runs: a part can run alone.
bool shapes_are_fixed(const Plan& plan) {
  return plan.segments.size() == 1 &&
         std::none_of(
             plan.segments[0].steps.begin(), plan.segments[0].steps.end(),
             [](const PlannedStep& s) { return s.reports_shapes || s.control != nullptr; });
}

}  // namespace

Status Executor::rerun(std::span<const Replacement> replaced) {
  if (!options_.keep_all || !states_.empty())
    return invalid_argument("a part can run again with keep_all and without states only");
  if (current_ == nullptr) return invalid_argument("nothing was run that a part could be of");
  outputs_.clear();
  FOLD8_CHECK_OK(take_replacements(replaced));
  try {
    const bool partly = shapes_are_fixed(*current_);
    const Status status = partly ? run_dependents() : run_all_again();
    if (!status.ok()) {
      forget_current();
      return status;
    }
    hand_over_outputs();
    if (partly) locate(0);  // the run's own values again
    return ok_status();
  } catch (...) {
    forget_current();
    throw;
  }
}

Status Executor::check_replacement(const Replacement& r) const {
  if (r.value < 0 || r.value >= info_.g.value_count())
    return invalid_argument("value " + std::to_string(r.value) + " does not exist");
  const std::string who = "value '" + info_.g.value(r.value).name + "'";
  if (info_.made_at[at(r.value)] < 0 || current_->facts[r.value].data != nullptr)
    return invalid_argument(who + " is computed by no step: it cannot be replaced");
  const TensorType& t = current_->facts[r.value].type;
  if (r.elements.dtype != t.dtype || r.elements.layout != Layout::plain ||
      !(r.elements.shape == t.shape))
    return invalid_argument(who + " is " + std::string(name(t.dtype)) + to_string(t.shape) +
                            ", the replacement " + std::string(name(r.elements.dtype)) +
                            to_string(r.elements.shape));
  return ok_status();
}

Status Executor::take_replacements(std::span<const Replacement> replaced) {
  given_.clear();
  if (replacements_.size() < replaced.size()) replacements_.resize(replaced.size());
  for (std::size_t i = 0; i < replaced.size(); ++i) {
    FOLD8_CHECK_OK(check_replacement(replaced[i]));
    TensorView stored = replaced[i].elements;
    stored.layout = current_->facts[replaced[i].value].type.layout;
    stored.data = replacements_[i].reserve(stored.bytes());
    copy_tensor(replaced[i].elements, stored);
    given_.emplace_back(replaced[i].value, stored.data);
  }
  return ok_status();
}

// A value of this step that was replaced has the elements that were given for it.
void Executor::put_replaced(const PlannedStep& step) {
  for (const auto& [v, data] : given_)
    if (std::find(step.outputs.begin(), step.outputs.end(), v) != step.outputs.end())
      current_->data[at(v)] = data;
}

Status Executor::run_dependents() {
  Segment& s = current_->segments[0];
  std::byte* base = rerun_arena_.reserve(s.arena_bytes);
  std::vector<bool> changed(current_->data.size(), false);
  std::vector<std::size_t> offset(current_->data.size(), 0);
  for (const auto& [v, place] : s.placed) offset[at(v)] = place;
  for (const auto& [v, data] : given_) {
    changed[at(v)] = true;
    current_->data[at(v)] = data;
  }
  const auto has_changed = [&](graph::ValueId v) { return v != graph::kNoValue && changed[at(v)]; };
  for (PlannedStep& step : s.steps) {
    if (std::none_of(step.inputs.begin(), step.inputs.end(), has_changed)) continue;
    for (graph::ValueId v : step.outputs) {
      if (v == graph::kNoValue) continue;
      changed[at(v)] = true;
      // An idle step's result is the bytes of its operand.
      current_->data[at(v)] = step.idle ? current_->data[at(step.inputs[0])] : base + offset[at(v)];
    }
    FOLD8_CHECK_OK(run_step(step, base + step.scratch_offset));
    put_replaced(step);
    if (tap_) FOLD8_CHECK_OK(call_tap(step));
  }
  return ok_status();
}

Status Executor::run_all_again() {
  for (std::size_t i = 0;; ++i) {
    if (i > 0 && i < current_->segments.size() && !still_bound(*current_, current_->segments[i]))
      drop_segments(info_, *current_, i);
    if (i == current_->segments.size()) {
      if (current_->complete()) return ok_status();
      FOLD8_CHECK_OK(bind_next_segment(info_, options_, *current_));
    }
    if (arenas_.size() <= i) arenas_.resize(i + 1);
    locate(i);
    for (PlannedStep& step : current_->segments[i].steps) {
      FOLD8_CHECK_OK(run_step(step, arenas_[i].data() + step.scratch_offset));
      put_replaced(step);
      if (tap_) FOLD8_CHECK_OK(call_tap(step));
    }
  }
}

}  // namespace fold8::exec
