// Which channel every element of a tensor belongs to, carried backwards through operators: from the
// tensor a layer reads to the one an earlier layer writes, over the transposes, reshapes and
// selections of an attention head.
#pragma once

#include <optional>
#include <vector>

#include "runtime/graph/graph.h"

namespace fold8::fusion {

// Broadcasts over its tensor: an extent is 1 where the channel does not depend on the axis. -1: no
// channel, whatever happens to the channels leaves these elements alone.
struct ChannelIds {
  std::vector<std::int64_t> extents;  // one per axis of the tensor
  std::vector<int> ids;               // row-major over `extents`

  int rank() const { return static_cast<int>(extents.size()); }
  // The only axis the ids vary along; -1: several. All the same: the last axis.
  int axis() const;
};

// Channels that some operator forces to share a factor (heads that share V).
class ChannelClasses {
 public:
  explicit ChannelClasses(std::size_t channels);
  void join(int a, int b);
  int of(int channel) const;  // the smallest member

 private:
  std::vector<int> smaller_;
};

// 0 .. channels-1 along the last axis of a tensor of that rank.
ChannelIds ids_of_last_axis(int rank, std::int64_t channels);
// Extents of 1 along axes the ids do not vary along.
ChannelIds reduced(const ChannelIds& ids);

// Ids of operand 0 (shape `from`) of an operator that only moves values, from those of its result
// (shape `to`, output number `output`): Identity, Transpose, Reshape and its relatives, Slice,
// Split and Gather by constants, Expand (which joins what it repeats). nullopt: another operator,
// or shapes that are not known well enough.
std::optional<ChannelIds> ids_before(const graph::Graph& g, const graph::Node& n,
                                     std::size_t output, const ChannelIds& ids,
                                     ChannelClasses& classes);
// The same under NumPy broadcasting: for an operand of shape `from` of an elementwise operator with
// a result of ids.rank() axes. What is broadcast along joins.
std::optional<ChannelIds> ids_of_operand(const Shape& from, const ChannelIds& ids,
                                         ChannelClasses& classes);
// The node reads `operand 0`, whose elements have these ids, only where they are -1. Slice, Split
// and Gather by constants; anything else: false.
bool reads_no_channel(const graph::Graph& g, const graph::Node& n, const ChannelIds& ids);

}  // namespace fold8::fusion
