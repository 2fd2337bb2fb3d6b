// Plans that stay while states grow.
#include <algorithm>

#include "runtime/exec/executor.h"

namespace fold8::exec {

// Planned for the capacities of states, then made to fit their lengths: while a state grows the
// plan remains, and only what depends on the length changes.
Status Executor::plan_for_states(std::span<const TensorView> inputs) {
  if (!followers_known_) find_followers(inputs);
  while (!exact_) {
    set_key(inputs, true);
    current_ = &find_plan(key_);
    if (current_->segments.empty()) FOLD8_CHECK_OK(bind_next_segment(info_, options_, *current_));
    exact_ = !can_update(*current_);
    if (!exact_) {
      FOLD8_TRY(const bool fits, update_plan(info_, options_, inputs, *current_));
      exact_ = !fits;
    }
    if (exact_) {
      forget_current();
      plans_.clear();
      states_.separate(info_.g);
    } else if (states_.make_room(*current_))
      return ok_status();
  }
  set_key(inputs, false);
  current_ = &find_plan(key_);
  return ok_status();
}

// Axes of one symbol are one extent, unnamed ones go alone. Of inputs that are no states.
std::vector<std::vector<Executor::Follower>> Executor::open_axes() const {
  std::vector<std::vector<Follower>> groups;
  std::vector<Dim> names;
  for (std::size_t i = 0; i < info_.g.inputs.size(); ++i) {
    const Shape& declared = info_.g.type(info_.g.inputs[i]).shape;
    for (int a = 0; !is_state(i) && a < declared.rank(); ++a) {
      if (declared[a].known()) continue;
      const auto known =
          std::find_if(names.begin(), names.end(), [&](Dim d) { return same(d, declared[a]); });
      if (known == names.end()) {
        names.push_back(declared[a]);
        groups.push_back({{i, a}});
      } else {
        groups[static_cast<std::size_t>(known - names.begin())].push_back({i, a});
      }
    }
  }
  return groups;
}

// Axes go with the states if inference takes all of them when they are longer, and refuses any of
// them that stays behind: one that does not care (it is 1 and is broadcast) is none. Two groups
// where they are, else one.
void Executor::find_followers(std::span<const TensorView> inputs) {
  followers_known_ = true;
  using Groups = std::vector<const std::vector<Follower>*>;
  const auto agree = [&](const Groups& groups, std::int64_t states_by, std::int64_t by,
                         const std::vector<Follower>* behind) {
    std::vector<Shape> shapes;
    for (const TensorView& t : inputs) shapes.push_back(t.shape);
    for (const State& s : states_.all())
      if (s.axis >= 0) shapes[s.input_index][s.axis] = Dim(s.length() + states_by);
    for (const auto* group : groups)
      for (const Follower& f : *group)
        shapes[f.input][f.axis] = Dim(shapes[f.input].extent(f.axis) + (group == behind ? 3 : by));
    return shapes_agree(info_, shapes);
  };
  const auto follow = [&](const Groups& groups) {
    if (!agree(groups, 3, 3, nullptr) || !agree(groups, 10, 10, nullptr) ||
        agree(groups, 10, 3, nullptr))
      return false;
    return groups.size() == 1 || std::none_of(groups.begin(), groups.end(), [&](const auto* g) {
             return agree(groups, 10, 10, g);
           });
  };
  const auto groups = open_axes();
  for (const bool two : {true, false})
    for (std::size_t i = 0; i < groups.size(); ++i)
      for (std::size_t j = two ? i + 1 : i; j < (two ? groups.size() : i + 1); ++j) {
        Groups chosen{&groups[i]};
        if (two) chosen.push_back(&groups[j]);
        if (!follow(chosen)) continue;
        for (const auto* group : chosen)
          followers_.insert(followers_.end(), group->begin(), group->end());
        return;
      }
}

}  // namespace fold8::exec
