// Which nodes a segment holds, the types of their values, and which of them have to run.
#include <algorithm>
#include <cstring>

#include "runtime/exec/bind.h"
#include "runtime/exec/nested.h"

namespace fold8::exec {
namespace {

std::size_t at(graph::ValueId v) { return static_cast<std::size_t>(v); }

bool ints_known(const Facts& f) {
  return f.data != nullptr || (f.ints && (f.ints->real || f.ints->all_known()));
}

template <class T>
void store(const ops::KnownInts& k, std::byte* bytes) {
  T* out = reinterpret_cast<T*>(bytes);
  for (std::size_t i = 0; i < k.values.size(); ++i) out[i] = static_cast<T>(k.values[i].value());
}

// Small aligned pieces of few blocks: a model has a hundred known integers.
class FoldedBytes {
 public:
  explicit FoldedBytes(std::vector<std::shared_ptr<Buffer>>& blocks) : blocks_(blocks) {}
  std::byte* take(std::size_t bytes) {
    bytes = round_up(std::max<std::size_t>(bytes, 1), kAlignment);
    if (blocks_.empty() || used_ + bytes > blocks_.back()->size()) {
      blocks_.push_back(Buffer::allocate(std::max(bytes, kBlock)));
      used_ = 0;
    }
    used_ += bytes;
    return blocks_.back()->mutable_data() + used_ - bytes;
  }

 private:
  static constexpr std::size_t kBlock = 2048;
  std::vector<std::shared_ptr<Buffer>>& blocks_;
  std::size_t used_ = 0;
};

// Known elements that lie in memory as integers: 0 if they do not, or the bytes of one.
std::size_t folded_element(const Facts& f) {
  if (!f.ints || !f.ints->all_known() || f.type.layout != Layout::plain || !f.type.shape.known())
    return 0;
  if (f.type.shape.count() != static_cast<std::int64_t>(f.ints->values.size())) return 0;
  const DType d = f.type.dtype;  // those that shapes are made of
  return d == DType::s64 || d == DType::s32 || d == DType::boolean ? size_of(d) : 0;
}

class SegmentInference {
 public:
  explicit SegmentInference(Binding& b) : b_(b), folded_(b.segment.folded_bytes) {}

  Status run() {
    const int count = static_cast<int>(b_.info.order.size());
    int p = b_.segment.begin;
    for (; p < count; ++p) {
      prefetch(p);
      const graph::Node& n = b_.info.g.node(b_.info.order[static_cast<std::size_t>(p)]);
      FOLD8_TRY(const bool ready, operands_ready(n));
      if (!ready) break;
      FOLD8_CHECK_OK(infer(b_.info.order[static_cast<std::size_t>(p)]));
    }
    b_.segment.end = p;
    return ok_status();
  }

 private:
  // A run has driven the graph out of the caches: what the walk will read is asked for in time, the
  // node first, then the list of its values, then what is known of them.
  void prefetch(int p) const {
    if (const graph::Node* n = ahead(p + 6)) touch(n, sizeof(*n));
    if (const graph::Node* n = ahead(p + 4)) {
      touch(n->inputs.data(), n->inputs.size() * sizeof(graph::ValueId));
      touch(n->outputs.data(), n->outputs.size() * sizeof(graph::ValueId));
    }
    if (const graph::Node* n = ahead(p + 2))
      for (const auto* list : {&n->inputs, &n->outputs})
        for (graph::ValueId v : *list)
          if (v != graph::kNoValue) {
            touch(&b_.plan.facts[v], sizeof(Facts));
            touch(&b_.info.g.type(v), sizeof(TensorType));
          }
  }

  const graph::Node* ahead(int p) const {
    if (p >= static_cast<int>(b_.info.order.size())) return nullptr;
    return &b_.info.g.node(b_.info.order[static_cast<std::size_t>(p)]);
  }

  static void touch(const void* at, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; i += 64)
      __builtin_prefetch(static_cast<const char*>(at) + i);
  }

  // The value's bytes are there: it was made by an earlier segment, or the run gave it.
  bool available(graph::ValueId v) const {
    if (b_.plan.data[at(v)] == nullptr || b_.plan.segments.empty()) return false;
    return b_.info.made_at[at(v)] < b_.segment.begin;
  }

  Result<bool> operands_ready(const graph::Node& n) {
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      const graph::ValueId v = n.inputs[i];
      if (v == graph::kNoValue) continue;
      const Facts& f = b_.plan.facts[v];
      if (b_.plan.dynamic[at(v)] && b_.info.made_at[at(v)] >= b_.segment.begin) return false;
      if (!f.type.shape.known()) {
        return in_context(describe(n), invalid_model("the shape " + to_string(f.type.shape) +
                                                     " of '" + b_.info.g.value(v).name +
                                                     "' cannot be told from the inputs"));
      }
      if (b_.plan.dynamic[at(v)]) note_shape(v, f.type.shape);
      if (!is_control_flow(n.op) && ops::needs_known_ints(n.op, i) && !ints_known(f)) {
        if (!available(v)) return false;
        FOLD8_CHECK_OK(read(v));
      }
    }
    return true;
  }

  void note_shape(graph::ValueId v, const Shape& shape) {
    for (const auto& seen : b_.segment.read_shapes)
      if (seen.first == v) return;
    b_.segment.read_shapes.emplace_back(v, shape);
  }

  // From here on the value counts as a constant of the plan.
  Status read(graph::ValueId v) {
    Facts& f = b_.plan.facts.edit(v);
    f.count_bytes();  // the extents are those of this run
    const auto bytes = f.bytes;
    if (!bytes) return invalid_model("tensor '" + b_.info.g.value(v).name + "' is too large");
    auto copy = Buffer::allocate(*bytes);
    if (*bytes > 0) std::memcpy(copy->mutable_data(), b_.plan.data[at(v)], *bytes);
    f.data = copy->data();
    b_.segment.read_data.emplace_back(v, std::move(copy));
    return ok_status();
  }

  Status infer(graph::NodeId id) {
    const graph::Node& n = b_.info.g.node(id);
    if (is_control_flow(n.op)) {
      for (graph::ValueId v : n.outputs)
        if (v != graph::kNoValue) set_dynamic(v);
      return ok_status();
    }
    FOLD8_CHECK_OK(infer_node(id, b_.plan.facts, context_));
    for (graph::ValueId v : n.outputs) {
      if (v == graph::kNoValue) continue;
      Facts& f = b_.plan.facts.edit(v);
      if (f.bound && !f.type.shape.known()) {
        if (!f.bound->known())
          return in_context(describe(n), invalid_model("the size of its output cannot be bounded"));
        set_dynamic(v);
      } else if (!f.type.shape.known()) {
        return in_context(describe(n), invalid_model("the shape " + to_string(f.type.shape) +
                                                     " of its output '" + b_.info.g.value(v).name +
                                                     "' cannot be told from the inputs"));
      }
      if (const std::size_t element = folded_element(f)) {
        std::byte* bytes = folded_.take(f.ints->values.size() * element);
        write_folded(f, bytes);
        f.data = bytes;
        b_.segment.folded.emplace_back(v, bytes);
      }
    }
    return ok_status();
  }

  void set_dynamic(graph::ValueId v) {
    b_.plan.dynamic[at(v)] = true;
    Shape& s = b_.plan.facts.edit(v).type.shape;
    for (int a = 0; a < s.rank(); ++a) s[a] = Dim::unknown();
  }

  Binding& b_;
  FoldedBytes folded_;
  ops::InferContext context_;
};

}  // namespace

bool write_folded(const Facts& f, std::byte* bytes) {
  switch (folded_element(f)) {
    case sizeof(std::int64_t):
      store<std::int64_t>(*f.ints, bytes);
      return true;
    case sizeof(std::int32_t):
      store<std::int32_t>(*f.ints, bytes);
      return true;
    case sizeof(std::uint8_t):
      store<std::uint8_t>(*f.ints, bytes);
      return true;
    default:
      return false;
  }
}

bool known_while_planning(const graph::Op& op, std::size_t i, const Facts& f) {
  return !is_control_flow(op) && ops::needs_known_ints(op, i) && ints_known(f);
}

Status infer_segment(Binding& b) { return SegmentInference(b).run(); }

std::vector<graph::NodeId> choose_nodes(Binding& b) {
  std::vector<graph::NodeId> nodes;
  const GraphInfo& info = b.info;
  b.needed.assign(at(info.g.value_count()), false);
  for (graph::ValueId v = 0; v < info.g.value_count(); ++v)
    b.needed[at(v)] = info.last_use[at(v)] >= b.segment.end || b.options.keep_all;
  for (int p = b.segment.end - 1; p >= b.segment.begin; --p) {
    const graph::NodeId id = info.order[static_cast<std::size_t>(p)];
    const graph::Node& n = info.g.node(id);
    const bool runs = std::any_of(n.outputs.begin(), n.outputs.end(), [&](graph::ValueId v) {
      return v != graph::kNoValue && b.needed[at(v)] && b.plan.facts[v].data == nullptr;
    });
    if (!runs) continue;
    nodes.push_back(id);
    for (std::size_t i = 0; i < n.inputs.size(); ++i)
      if (n.inputs[i] != graph::kNoValue &&
          !known_while_planning(n.op, i, b.plan.facts[n.inputs[i]]))
        b.needed[at(n.inputs[i])] = true;
  }
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

}  // namespace fold8::exec
