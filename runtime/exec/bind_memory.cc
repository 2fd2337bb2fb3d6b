// Where the values of one segment lie: views and in-place operators share memory, the rest is
// packed by lifetime.
#include <algorithm>

#include "runtime/exec/bind.h"
#include "runtime/exec/states.h"

namespace fold8::exec {
namespace {

std::size_t at(graph::ValueId v) { return static_cast<std::size_t>(v); }

class Placement {
 public:
  explicit Placement(Binding& b)
      : b_(b),
        steps_(b.segment.steps),
        last_read_(at(b.info.g.value_count()), -1),
        root_(last_read_.size(), graph::kNoValue),
        buffer_(last_read_.size(), -1) {}

  Status run() {
    find_last_reads();
    for (std::size_t k = 0; k < steps_.size(); ++k) {
      if (steps_[k].control != nullptr) continue;  // its outputs lie in the body's memory
      for (std::size_t o = 0; o < steps_[k].outputs.size(); ++o)
        if (steps_[k].outputs[o] != graph::kNoValue) place(static_cast<int>(k), o);
      if (steps_[k].step != nullptr) scratch(static_cast<int>(k));
    }
    return finish();
  }

 private:
  void find_last_reads() {
    for (std::size_t k = 0; k < steps_.size(); ++k) {
      const graph::Op& op = b_.info.g.node(steps_[k].node).op;
      for (std::size_t i = 0; i < steps_[k].inputs.size(); ++i) {
        const graph::ValueId v = steps_[k].inputs[i];
        if (v != graph::kNoValue && !known_while_planning(op, i, b_.plan.facts[v]))
          last_read_[at(v)] = static_cast<int>(k);
      }
    }
    for (graph::ValueId v = 0; v < b_.info.g.value_count(); ++v)
      if (b_.info.last_use[at(v)] >= b_.segment.end || b_.options.keep_all)
        last_read_[at(v)] = kForever;
  }

  const TensorType& type(graph::ValueId v) const { return b_.plan.facts.type(v); }
  graph::ValueId root(graph::ValueId v) const {
    return root_[at(v)] == graph::kNoValue ? v : root_[at(v)];
  }

  void place(int k, std::size_t o) {
    const PlannedStep& step = steps_[static_cast<std::size_t>(k)];
    const graph::ValueId v = step.outputs[o];
    if (step.appends && b_.options.states->in_place(v)) return;  // not in an arena of ours
    if (o == 0 && !step.reports_shapes && step.step != nullptr &&
        b_.plan.facts[v].data == nullptr) {
      const graph::ValueId source = shared_with(k);
      if (source != graph::kNoValue) {
        root_[at(v)] = root(source);
        if (const int buffer = buffer_[at(root(v))]; buffer >= 0)
          lifetimes_[static_cast<std::size_t>(buffer)].last =
              std::max(lifetimes_[static_cast<std::size_t>(buffer)].last, last_read_[at(v)]);
        b_.segment.aliases.emplace_back(v, root(v));
        return;
      }
    }
    buffer_[at(v)] = static_cast<int>(lifetimes_.size());
    lifetimes_.push_back({b_.plan.facts[v].bytes.value_or(0), k, std::max(k, last_read_[at(v)])});
    owners_.push_back(v);
  }

  // The operand whose memory output 0 of step k takes over, or kNoValue.
  graph::ValueId shared_with(int k) {
    PlannedStep& step = steps_[static_cast<std::size_t>(k)];
    const graph::Op& op = b_.info.g.node(step.node).op;
    const graph::ValueId y = step.outputs[0];
    if (step.outputs.size() == 1 && !step.inputs.empty() && step.inputs[0] != graph::kNoValue &&
        ops::is_view(op, type(step.inputs[0]), type(y))) {
      step.idle = true;  // the bytes are there already
      return step.inputs[0];
    }
    if (b_.options.keep_all || b_.options.engine != nullptr) return graph::kNoValue;
    for (std::size_t i = 0; i < step.inputs.size(); ++i)
      if (may_overwrite(k, i)) return step.inputs[i];
    return graph::kNoValue;
  }

  bool may_overwrite(int k, std::size_t i) const {
    const PlannedStep& step = steps_[static_cast<std::size_t>(k)];
    const graph::ValueId x = step.inputs[i], y = step.outputs[0];
    if (x == graph::kNoValue) return false;
    const int buffer = buffer_[at(root(x))];
    if (buffer < 0 || lifetimes_[static_cast<std::size_t>(buffer)].last > k)
      return false;  // not ours, or read later
    const graph::Op& op = b_.info.g.node(step.node).op;
    if (b_.plan.facts[x].bytes != b_.plan.facts[y].bytes) return false;
    for (std::size_t j = 0; j < step.inputs.size(); ++j) {
      const graph::ValueId other = step.inputs[j];
      if (other == graph::kNoValue || root(other) != root(x)) continue;
      if (other != x || !ops::may_run_in_place(op, j, type(x), type(y))) return false;
    }
    return true;
  }

  void scratch(int k) {
    const std::size_t bytes = steps_[static_cast<std::size_t>(k)].step->scratch_bytes();
    if (bytes == 0 || steps_[static_cast<std::size_t>(k)].idle) return;
    lifetimes_.push_back({bytes, k, k});
    owners_.push_back(-1 - k);
  }

  Status finish() {
    const Packing packing = pack_all();
    const std::size_t total = b_.plan.arena_bytes() + packing.bytes;
    if (total > b_.options.memory_limit)
      return invalid_argument("running these input shapes needs " + megabytes(total) +
                              ", more than the limit of " + megabytes(b_.options.memory_limit) +
                              "; run smaller inputs");
    b_.segment.arena_bytes = packing.bytes;
    for (graph::ValueId v : owners_)
      if (v >= 0) b_.plan.writable[at(v)] = true;
    for (const auto& [v, source] : b_.segment.aliases)
      b_.plan.writable[at(v)] = b_.plan.writable[at(source)];
    for (std::size_t i = 0; i < owners_.size(); ++i) {
      if (owners_[i] >= 0)
        b_.segment.placed.emplace_back(owners_[i], packing.offsets[i]);
      else
        b_.segment.steps[static_cast<std::size_t>(-1 - owners_[i])].scratch_offset =
            packing.offsets[i];
    }
    b_.segment.lifetimes = std::move(lifetimes_);
    return ok_status();
  }

  // With keep_all every buffer lives forever, scratch excepted.
  Packing pack_all() {
    if (b_.options.keep_all)
      for (std::size_t i = 0; i < lifetimes_.size(); ++i)
        if (owners_[i] >= 0) lifetimes_[i].first = 0, lifetimes_[i].last = kForever;
    return pack(lifetimes_);
  }

  Binding& b_;
  std::vector<PlannedStep>& steps_;
  std::vector<int> last_read_;        // [values]: step; kForever
  std::vector<graph::ValueId> root_;  // [values]: whose memory it shares
  std::vector<int> buffer_;  // [values]: index into lifetimes_, of roots in this segment's arena
  std::vector<Lifetime> lifetimes_;
  std::vector<graph::ValueId> owners_;  // of each lifetime: a value, or -1 - step for scratch
};

}  // namespace

Status place_values(Binding& b) { return Placement(b).run(); }

}  // namespace fold8::exec
