#include "fusion/passes/channel_ids.h"

#include <algorithm>
#include <numeric>

#include "fusion/passes/movement.h"
#include "fusion/rewrite/constants.h"

namespace fold8::fusion {
namespace {

using graph::Graph;
using graph::Node;

std::int64_t product(std::span<const std::int64_t> v) {
  return std::accumulate(v.begin(), v.end(), std::int64_t{1}, std::multiplies<>());
}

// Index of the element of `ids` that `position` of the tensor belongs to.
std::size_t at(const ChannelIds& ids, std::span<const std::int64_t> position) {
  std::int64_t i = 0;
  for (std::size_t a = 0; a < ids.extents.size(); ++a)
    i = i * ids.extents[a] + (ids.extents[a] == 1 ? 0 : position[a]);
  return static_cast<std::size_t>(i);
}

// Calls f(position) for every position of `extents`, row-major.
template <class F>
void each_position(const std::vector<std::int64_t>& extents, F&& f) {
  std::vector<std::int64_t> p(extents.size(), 0);
  for (std::int64_t n = product(extents); n > 0; --n) {
    f(p);
    for (std::size_t a = extents.size(); a-- > 0;) {
      if (++p[a] < extents[a]) break;
      p[a] = 0;
    }
  }
}

constexpr std::int64_t kMostIds = std::int64_t{1} << 22;  // of an array of ids

ChannelIds filled(std::vector<std::int64_t> extents, int id) {
  ChannelIds r{std::move(extents), {}};
  r.ids.assign(static_cast<std::size_t>(product(r.extents)), id);
  return r;
}

// Keeps index 0 of an axis; what differs along it shares a class from now on.
ChannelIds joined_along(const ChannelIds& ids, std::size_t axis, ChannelClasses& classes) {
  std::vector<std::int64_t> extents = ids.extents;
  extents[axis] = 1;
  ChannelIds r = filled(extents, -1);
  each_position(ids.extents, [&](const std::vector<std::int64_t>& p) {
    int& kept = r.ids[at(r, p)];
    const int id = ids.ids[at(ids, p)];
    if (kept >= 0 && id >= 0) classes.join(kept, id);
    if (kept < 0) kept = id;
  });
  return r;
}

std::optional<ChannelIds> before_transpose(const graph::Transpose& t, const ChannelIds& ids) {
  const int rank = ids.rank();
  std::vector<std::int64_t> extents(static_cast<std::size_t>(rank), 1);
  std::vector<std::size_t> source;
  for (int i = 0; i < rank; ++i)
    source.push_back(t.perm.empty()
                         ? static_cast<std::size_t>(rank - 1 - i)
                         : static_cast<std::size_t>(t.perm[static_cast<std::size_t>(i)]));
  for (std::size_t i = 0; i < source.size(); ++i) extents[source[i]] = ids.extents[i];
  ChannelIds r = filled(extents, -1);
  std::vector<std::int64_t> moved(source.size());
  each_position(extents, [&](const std::vector<std::int64_t>& p) {
    for (std::size_t i = 0; i < source.size(); ++i) moved[i] = p[source[i]];
    r.ids[at(r, p)] = ids.ids[at(ids, moved)];
  });
  return r;
}

// Axes that both shapes begin and end with keep their ids; what is between them is one block whose
// elements keep their order.
std::optional<ChannelIds> before_view(const Shape& from, const Shape& to, const ChannelIds& ids) {
  int last = 0, first = 0;
  while (last < from.rank() && last < to.rank() &&
         same(from[from.rank() - 1 - last], to[to.rank() - 1 - last]))
    ++last;
  while (first < from.rank() - last && first < to.rank() - last && same(from[first], to[first]))
    ++first;
  const int from_end = from.rank() - last, to_end = to.rank() - last;
  bool varies = false;
  for (int a = first; a < to_end; ++a) varies |= ids.extents[static_cast<std::size_t>(a)] > 1;
  std::vector<std::int64_t> extents(static_cast<std::size_t>(from.rank()), 1);
  for (int a = 0; a < first; ++a)
    extents[static_cast<std::size_t>(a)] = ids.extents[static_cast<std::size_t>(a)];
  for (int a = 0; a < last; ++a)
    extents[static_cast<std::size_t>(from_end + a)] =
        ids.extents[static_cast<std::size_t>(to_end + a)];
  if (varies) {
    for (int a = first; a < from_end; ++a)
      if (!from[a].known()) return std::nullopt;
    for (int a = first; a < to_end; ++a)
      if (!to[a].known()) return std::nullopt;
    if (from.count(first, from_end) != to.count(first, to_end)) return std::nullopt;
    for (int a = first; a < from_end; ++a) extents[static_cast<std::size_t>(a)] = from.extent(a);
  }
  if (product(extents) > kMostIds) return std::nullopt;
  ChannelIds r = filled(extents, -1);
  std::vector<std::int64_t> there(static_cast<std::size_t>(to.rank()), 0);
  each_position(extents, [&](const std::vector<std::int64_t>& p) {
    for (int a = 0; a < first; ++a)
      there[static_cast<std::size_t>(a)] = p[static_cast<std::size_t>(a)];
    for (int a = 0; a < last; ++a)
      there[static_cast<std::size_t>(to_end + a)] = p[static_cast<std::size_t>(from_end + a)];
    std::int64_t inside = 0;
    if (varies)
      for (int a = first; a < from_end; ++a)
        inside = inside * from.extent(a) + p[static_cast<std::size_t>(a)];
    for (int a = to_end - 1; varies && a >= first; --a) {
      there[static_cast<std::size_t>(a)] = inside % to.extent(a);
      inside /= to.extent(a);
    }
    r.ids[at(r, p)] = ids.ids[at(ids, there)];
  });
  return r;
}

// What a Slice, Split or Gather takes of one axis: result index -> operand index. `drops`: the axis
// is not in the result (Gather by a scalar).
struct Selection {
  int axis = 0;
  std::vector<std::int64_t> indices;
  bool drops = false;
};

std::optional<Selection> of_split(const Graph& g, const Node& n, std::size_t output) {
  const auto& split = std::get<graph::Split>(n.op);
  Selection s;
  s.axis = static_cast<int>(split.axis);
  std::int64_t begin = 0;
  for (std::size_t o = 0; o <= output; ++o) {
    const Shape& part = g.type(n.outputs[o]).shape;
    if (n.outputs[o] == graph::kNoValue || s.axis >= part.rank() || !part[s.axis].known())
      return std::nullopt;
    if (o == output)
      for (std::int64_t i = 0; i < part.extent(s.axis); ++i) s.indices.push_back(begin + i);
    begin += part.extent(s.axis);
  }
  return s;
}

std::optional<Selection> of_gather(const Graph& g, const Node& n) {
  const auto& gather = std::get<graph::Gather>(n.op);
  const Shape& from = g.type(n.inputs[0]).shape;
  Selection s;
  s.axis = static_cast<int>(gather.axis);
  auto indices = integers(g, n.inputs[1]);
  const int rank = g.type(n.inputs[1]).shape.rank();
  if (!indices || rank > 1 || s.axis >= from.rank() || !from[s.axis].known()) return std::nullopt;
  for (std::int64_t& i : *indices) {
    if (i < 0) i += from.extent(s.axis);
    if (i < 0 || i >= from.extent(s.axis)) return std::nullopt;
  }
  s.indices = std::move(*indices);
  s.drops = rank == 0;
  return s;
}

// One axis, step 1.
std::optional<Selection> of_slice(const Graph& g, const Node& n) {
  if (n.inputs.size() < 4 || n.inputs[3] == graph::kNoValue) return std::nullopt;
  const auto starts = integers(g, n.inputs[1]), ends = integers(g, n.inputs[2]),
             axes = integers(g, n.inputs[3]);
  if (!starts || !ends || !axes || starts->size() != 1 || ends->size() != 1 || axes->size() != 1)
    return std::nullopt;
  if (n.inputs.size() > 4 && n.inputs[4] != graph::kNoValue) {
    const auto steps = integers(g, n.inputs[4]);
    if (!steps || steps->size() != 1 || steps->front() != 1) return std::nullopt;
  }
  const Shape& from = g.type(n.inputs[0]).shape;
  Selection s;
  s.axis = static_cast<int>(axes->front() < 0 ? axes->front() + from.rank() : axes->front());
  if (s.axis < 0 || s.axis >= from.rank() || !from[s.axis].known()) return std::nullopt;
  const std::int64_t extent = from.extent(s.axis);
  const auto inside = [extent](std::int64_t i) {
    return std::clamp<std::int64_t>(i < 0 ? i + extent : i, 0, extent);
  };
  for (std::int64_t i = inside(starts->front()); i < inside(ends->front()); ++i)
    s.indices.push_back(i);
  return s;
}

std::optional<Selection> selection(const Graph& g, const Node& n, std::size_t output) {
  if (std::holds_alternative<graph::Split>(n.op)) return of_split(g, n, output);
  if (std::holds_alternative<graph::Gather>(n.op)) return of_gather(g, n);
  if (std::holds_alternative<graph::Slice>(n.op)) return of_slice(g, n);
  return std::nullopt;
}

std::optional<ChannelIds> before_selection(const Shape& from, const Selection& s,
                                           const ChannelIds& result) {
  ChannelIds ids = result;
  const auto axis = static_cast<std::size_t>(s.axis);
  if (s.drops) ids.extents.insert(ids.extents.begin() + s.axis, 1);
  if (ids.rank() != from.rank()) return std::nullopt;
  std::vector<std::int64_t> extents = ids.extents;
  extents[axis] = from.extent(s.axis);
  if (product(extents) > kMostIds) return std::nullopt;
  ChannelIds r = filled(extents, -1);
  for (std::size_t i = 0; i < s.indices.size(); ++i) {
    std::vector<std::int64_t> slab = ids.extents;
    slab[axis] = 1;
    each_position(slab, [&](std::vector<std::int64_t> p) {
      p[axis] = static_cast<std::int64_t>(i);
      const int id = ids.ids[at(ids, p)];
      p[axis] = s.indices[i];
      r.ids[at(r, p)] = id;
    });
  }
  return r;
}

}  // namespace

int ChannelIds::axis() const {
  int found = -1;
  for (int a = 0; a < rank(); ++a) {
    if (extents[static_cast<std::size_t>(a)] == 1) continue;
    if (found >= 0) return -1;
    found = a;
  }
  return found >= 0 ? found : rank() - 1;
}

ChannelClasses::ChannelClasses(std::size_t channels) : smaller_(channels) {
  std::iota(smaller_.begin(), smaller_.end(), 0);
}

int ChannelClasses::of(int channel) const {
  while (smaller_[static_cast<std::size_t>(channel)] != channel)
    channel = smaller_[static_cast<std::size_t>(channel)];
  return channel;
}

void ChannelClasses::join(int a, int b) {
  a = of(a);
  b = of(b);
  smaller_[static_cast<std::size_t>(std::max(a, b))] = std::min(a, b);
}

ChannelIds ids_of_last_axis(int rank, std::int64_t channels) {
  ChannelIds r = filled(std::vector<std::int64_t>(static_cast<std::size_t>(rank), 1), 0);
  r.extents.back() = channels;
  r.ids.resize(static_cast<std::size_t>(channels));
  std::iota(r.ids.begin(), r.ids.end(), 0);
  return r;
}

ChannelIds reduced(const ChannelIds& ids) {
  ChannelIds r = ids;
  for (std::size_t axis = 0; axis < r.extents.size(); ++axis) {
    if (r.extents[axis] == 1) continue;
    bool constant = true;
    each_position(r.extents, [&](std::vector<std::int64_t> p) {
      const int id = r.ids[at(r, p)];
      p[axis] = 0;
      constant = constant && r.ids[at(r, p)] == id;
    });
    if (!constant) continue;
    ChannelIds smaller = r;
    smaller.extents[axis] = 1;
    smaller.ids.resize(static_cast<std::size_t>(product(smaller.extents)));
    each_position(smaller.extents, [&](const std::vector<std::int64_t>& p) {
      smaller.ids[at(smaller, p)] = r.ids[at(r, p)];
    });
    r = std::move(smaller);
  }
  return r;
}

std::optional<ChannelIds> ids_of_operand(const Shape& from, const ChannelIds& ids,
                                         ChannelClasses& classes) {
  if (from.rank() > ids.rank()) return std::nullopt;
  ChannelIds r = ids;
  const int more = ids.rank() - from.rank();
  for (int a = 0; a < ids.rank(); ++a) {
    const auto i = static_cast<std::size_t>(a);
    if (r.extents[i] == 1) continue;
    if (a < more || same(from[a - more], Dim(1)))
      r = joined_along(r, i, classes);
    else if (!from[a - more].known() || from.extent(a - more) != r.extents[i])
      return std::nullopt;
  }
  r.extents.erase(r.extents.begin(), r.extents.begin() + more);
  return r;
}

std::optional<ChannelIds> ids_before(const Graph& g, const Node& n, std::size_t output,
                                     const ChannelIds& ids, ChannelClasses& classes) {
  const Shape &from = g.type(n.inputs[0]).shape, &to = g.type(n.outputs[output]).shape;
  std::optional<ChannelIds> r;
  if (const auto* t = std::get_if<graph::Transpose>(&n.op))
    r = before_transpose(*t, ids);
  else if (std::holds_alternative<graph::Identity>(n.op))
    r = ids;
  else if (is_view(n.op))
    r = before_view(from, to, ids);
  else if (std::holds_alternative<graph::Expand>(n.op))
    r = ids_of_operand(from, ids, classes);
  else if (const auto s = selection(g, n, output))
    r = before_selection(from, *s, ids);
  return r ? std::optional(reduced(*r)) : std::nullopt;
}

bool reads_no_channel(const Graph& g, const Node& n, const ChannelIds& ids) {
  for (std::size_t o = 0; o < n.outputs.size(); ++o) {
    if (n.outputs[o] == graph::kNoValue) continue;
    const auto s = selection(g, n, o);
    const auto axis = s ? static_cast<std::size_t>(s->axis) : 0;
    if (!s || axis >= ids.extents.size() || ids.extents[axis] == 1) return false;
    for (const std::int64_t index : s->indices) {
      std::vector<std::int64_t> slab = ids.extents;
      slab[axis] = 1;
      bool none = true;
      each_position(slab, [&](std::vector<std::int64_t> p) {
        p[axis] = index;
        none = none && ids.ids[at(ids, p)] < 0;
      });
      if (!none) return false;
    }
  }
  return true;
}

}  // namespace fold8::fusion
