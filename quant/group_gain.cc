#include "quant/group_gain.h"

#include <algorithm>
#include <map>
#include <set>

#include "quant/float_layer.h"
#include "quant/kept_run.h"
#include "quant/layers.h"
#include "runtime/exec/relayout.h"

namespace fold8::quant {
namespace {

using graph::kNoValue;
using graph::NodeId;
using graph::ValueId;

struct Member {
  NodeId node;
  FloatLayer layer;
};

struct Group {
  std::vector<std::string> names;
  std::vector<Member> members;  // in execution order
  bool runs = true;
  Meters meters;
};

class Prober {
 public:
  explicit Prober(const GroupGainOptions& options) : options_(options) {}

  Result<std::vector<std::optional<double>>> run(
      std::shared_ptr<const exec::Model> reference, std::shared_ptr<const exec::Model> other,
      SampleSource& samples, const std::vector<std::vector<std::string>>& groups) {
    FOLD8_TRY(pairs_, matching_outputs(reference->graph(), other->graph()));
    FOLD8_CHECK_OK(a_.open(reference, options_.threads));
    FOLD8_CHECK_OK(b_.open(other, options_.threads));
    base_.resize(pairs_.size());
    layers_ = layers_of(*other, float_tensors(a_.graph()));
    for (const auto& names : groups) groups_.push_back(group_of(names, true));
    const std::size_t count = options_.most_samples == 0
                                  ? samples.count()
                                  : std::min(options_.most_samples, samples.count());
    for (sample_ = 0; sample_ < count; ++sample_) FOLD8_CHECK_OK(one_sample(samples, count));
    return summary();
  }

 private:
  // `unrounded`: as FloatLayer::Options; not every kernel gives or takes that.
  Group group_of(const std::vector<std::string>& names, bool unrounded) {
    const std::set<std::string> wanted(names.begin(), names.end());
    Group group;
    group.names = names;
    group.meters.resize(pairs_.size());
    for (const NodeId n : layers_) {
      if (wanted.count(layer_name(b_.graph(), n)) == 0) continue;
      group.runs = add_member(n, unrounded, group) && group.runs;
    }
    group.runs = group.runs && group.members.size() == wanted.size() && !wanted.empty();
    return group;
  }

  bool add_member(NodeId n, bool unrounded, Group& group) {
    auto layer = FloatLayer::cut(a_.graph(), b_.graph(), n,
                                 {.threads = options_.threads, .unrounded = unrounded});
    if (!layer.ok()) return unrounded && add_member(n, false, group);
    for (const ValueId v : layer->reads()) b_.want(v);
    for (const ValueId v : b_.graph().node(n).outputs)
      if (v != kNoValue) b_.want(v);
    group.members.push_back({n, std::move(layer).value()});
    return true;
  }

  // Where a kernel refuses a group, its simpler form is taken. True if one was: it reads other
  // tensors.
  bool settle() {
    bool changed = false;
    for (Group& group : groups_) {
      if (!group.runs || run_group(group)) continue;
      group = group_of(group.names, false);
      changed = true;
    }
    return changed;
  }

  Status one_sample(SampleSource& samples, std::size_t count) {
    FOLD8_TRY(const std::vector<Tensor> inputs, samples.sample(sample_));
    std::vector<TensorView> views;
    for (const Tensor& t : inputs) views.push_back(t.view());
    FOLD8_TRY(const std::vector<TensorView> reordered, inputs_for(b_.graph(), a_.graph(), views));
    if (const Status s = a_.run(views); !s.ok()) return at_sample(s.error());
    if (const Status s = b_.run(reordered); !s.ok()) return at_sample(s.error());
    const Outputs wanted = outputs_of(a_, pairs_, false);
    FOLD8_CHECK_OK(
        measure(wanted, outputs_of(b_, pairs_, true), pairs_, a_.graph(), sample_, base_));
    if (sample_ == 0 && settle())
      if (const Status s = b_.run(reordered); !s.ok()) return at_sample(s.error());
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      Group& group = groups_[i];
      if (group.runs) group.runs = run_group(group);
      if (group.runs)
        FOLD8_CHECK_OK(measure(wanted, outputs_of(b_, pairs_, true), pairs_, a_.graph(), sample_,
                               group.meters));
      if (options_.progress)
        options_.progress(sample_ * groups_.size() + i + 1, count * groups_.size());
    }
    return ok_status();
  }

  // The model with all members float so far; false where that is not possible.
  bool run_group(Group& group) {
    std::map<ValueId, Tensor> changed;  // what later members read, as the earlier ones leave it
    std::vector<Substitute> substitutes;
    std::vector<exec::Replacement> replaced;
    for (std::size_t m = 0; m < group.members.size(); ++m) {
      Member& member = group.members[m];
      std::vector<TensorView> inputs;
      for (const ValueId v : member.layer.reads()) {
        const auto it = changed.find(v);
        inputs.push_back((it == changed.end() ? b_.tensor(v) : it->second).view());
      }
      auto values = member.layer.run(inputs);
      if (!values.ok()) return false;
      auto s = substitute(b_, member.node, member.layer.writes(), *std::move(values));
      if (!s.ok() || !s->cannot.empty()) return false;
      replaced.insert(replaced.end(), s->replaced.begin(), s->replaced.end());
      substitutes.push_back(*std::move(s));
      std::set<ValueId> later;
      for (std::size_t n = m + 1; n < group.members.size(); ++n)
        later.insert(group.members[n].layer.reads().begin(), group.members[n].layer.reads().end());
      for (const exec::Replacement& r : replaced)
        if (later.count(r.value) != 0) changed.insert_or_assign(r.value, copy_of(r.elements));
      const auto see = [&](ValueId v, const TensorView& t) {
        if (later.count(v) != 0) changed.insert_or_assign(v, copy_of(t));
      };
      if (!b_.rerun(replaced, see).ok()) return false;
    }
    return true;
  }

  static Tensor copy_of(const TensorView& t) {
    Tensor copy(t.dtype, t.shape);
    exec::copy_tensor(t, copy.view());
    return copy;
  }

  Error at_sample(const Error& e) const {
    return in_context("sample " + std::to_string(sample_), e);
  }

  std::vector<std::optional<double>> summary() const {
    std::optional<std::size_t> worst;
    for (std::size_t p = 0; p < base_.size(); ++p) {
      const auto db = base_[p].summary().sqnr_db;
      if (db && (!worst || *db < *base_[*worst].summary().sqnr_db)) worst = p;
    }
    std::vector<std::optional<double>> gains;
    for (const Group& g : groups_) {
      const auto now = worst && g.runs ? g.meters[*worst].summary().sqnr_db : std::nullopt;
      gains.push_back(now ? std::optional(*now - *base_[*worst].summary().sqnr_db) : std::nullopt);
    }
    return gains;
  }

  const GroupGainOptions& options_;
  KeptRun a_, b_;  // the reference, the other
  OutputPairs pairs_;
  std::vector<NodeId> layers_;  // of the other, in execution order
  std::vector<Group> groups_;
  Meters base_;  // the whole of the other
  std::size_t sample_ = 0;
};

}  // namespace

Result<std::vector<std::optional<double>>> group_gains(
    std::shared_ptr<const exec::Model> reference, std::shared_ptr<const exec::Model> other,
    SampleSource& samples, const std::vector<std::vector<std::string>>& groups,
    const GroupGainOptions& options) {
  return Prober(options).run(std::move(reference), std::move(other), samples, groups);
}

}  // namespace fold8::quant
