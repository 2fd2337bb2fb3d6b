#include "runtime/format/write_graph.h"

#include <bit>
#include <cstring>

#include "runtime/format/layout.h"
#include "runtime/graph/enum_names.h"

namespace fold8::format {

std::int32_t TensorPool::add(const std::shared_ptr<const Buffer>& data) {
  if (const auto it = by_identity_.find(data.get()); it != by_identity_.end()) return it->second;
  const std::uint64_t sum = checksum(data->data(), data->size());
  const auto [first, last] = by_checksum_.equal_range(sum);
  for (auto it = first; it != last; ++it) {
    const Buffer& other = *entries_[static_cast<std::size_t>(it->second)].data;
    if (other.size() != data->size() || std::memcmp(other.data(), data->data(), data->size()) != 0)
      continue;
    by_identity_.emplace(data.get(), it->second);
    return it->second;
  }
  const auto index = static_cast<std::int32_t>(entries_.size());
  entries_.push_back({data, sum});
  by_identity_.emplace(data.get(), index);
  by_checksum_.emplace(sum, index);
  return index;
}

namespace {

using Builder = flatbuffers::FlatBufferBuilder;

std::vector<std::int64_t> encode(const Shape& shape) {
  std::vector<std::int64_t> dims;
  for (Dim d : shape.dims())
    dims.push_back(d.known()       ? d.value()
                   : d.is_symbol() ? kSymbolBase - d.symbol_id()
                                   : kUnknownDim);
  return dims;
}

flatbuffers::Offset<fb::Quant> write_quant(Builder& b, const QuantParams& q) {
  const auto scales = b.CreateVector(q.scales().data(), q.scales().size());
  const auto zero_points = b.CreateVector(q.zero_points().data(), q.zero_points().size());
  return fb::CreateQuant(b, static_cast<std::uint8_t>(q.granularity()), q.axis(), q.group(), scales,
                         zero_points);
}

flatbuffers::Offset<fb::Value> write_value(Builder& b, const graph::Value& v, TensorPool& pool) {
  const auto name = b.CreateString(v.name);
  const auto dims = b.CreateVector(encode(v.type.shape));
  flatbuffers::Offset<fb::Quant> quant = 0;
  if (v.type.quant) quant = write_quant(b, *v.type.quant);
  const auto rescale = b.CreateVector(v.rescale);
  const std::int32_t tensor = v.is_constant() ? pool.add(v.constant) : -1;
  return fb::CreateValue(b, name, v.has_type, static_cast<std::uint8_t>(v.type.dtype),
                         static_cast<std::uint8_t>(v.type.layout), dims, quant, rescale,
                         v.rescale_axis, tensor);
}

// Collects the attributes of one operator.
class AttributeWriter {
 public:
  AttributeWriter(Builder& b, TensorPool& pool, int depth) : b_(b), pool_(pool), depth_(depth) {}

  template <class T>
  void operator()(std::string_view name, const T& v) {
    if (!status_.ok()) return;
    name_ = b_.CreateSharedString(name.data(), name.size());
    write(v);
  }
  const Status& status() const { return status_; }
  const std::vector<flatbuffers::Offset<fb::Attribute>>& attributes() const { return attributes_; }

 private:
  void add(fb::AttributeKind kind, std::int64_t integer, float real = 0,
           flatbuffers::Offset<flatbuffers::String> text = 0,
           flatbuffers::Offset<flatbuffers::Vector<std::int64_t>> integers = 0,
           flatbuffers::Offset<fb::Graph> graph = 0) {
    attributes_.push_back(fb::CreateAttribute(
        b_, name_, kind, integer, std::bit_cast<std::uint32_t>(real), text, integers, graph));
  }
  void write(bool v) { add(fb::AttributeKind::boolean, v ? 1 : 0); }
  void write(float v) { add(fb::AttributeKind::real, 0, v); }
  void write(std::int64_t v) { add(fb::AttributeKind::integer, v); }
  void write(const std::string& v) { add(fb::AttributeKind::text, 0, 0, b_.CreateString(v)); }
  void write(const graph::Ints& v) {
    add(fb::AttributeKind::integers, 0, 0, 0, b_.CreateVector(v));
  }
  void write(const std::shared_ptr<const graph::Graph>& v) {
    if (v == nullptr) return add(fb::AttributeKind::graph, 0);
    auto nested = write_graph(b_, *v, pool_, depth_ + 1);
    if (!nested.ok()) {
      status_ = std::move(nested).error();
      return;
    }
    add(fb::AttributeKind::graph, 0, 0, 0, 0, *nested);
  }
  template <class E>
  requires std::is_enum_v<E>
  void write(E v) {
    const std::string_view text = graph::enumerator_name(v);
    if (text.empty()) {
      status_ = internal_error("attribute with an enumerator that has no name");
      return;
    }
    add(fb::AttributeKind::enumerator, 0, 0, b_.CreateSharedString(text.data(), text.size()));
  }

  Builder& b_;
  TensorPool& pool_;
  int depth_;
  Status status_ = ok_status();
  flatbuffers::Offset<flatbuffers::String> name_;
  std::vector<flatbuffers::Offset<fb::Attribute>> attributes_;
};

Result<flatbuffers::Offset<fb::Node>> write_node(Builder& b, const graph::Node& n, TensorPool& pool,
                                                 int depth) {
  AttributeWriter writer(b, pool, depth);
  graph::each_field(n.op, writer);
  if (!writer.status().ok()) return in_context("node '" + n.name + "'", writer.status().error());
  const auto attributes = b.CreateVector(writer.attributes());
  const std::string_view op_name = graph::name(n.op);
  const auto op = b.CreateSharedString(op_name.data(), op_name.size());
  const auto name = b.CreateString(n.name);
  const auto inputs = b.CreateVector(n.inputs);
  const auto outputs = b.CreateVector(n.outputs);
  const auto inside = b.CreateVectorOfStrings(n.inside);
  return fb::CreateNode(b, op, name, inputs, outputs, inside, attributes);
}

}  // namespace

Result<flatbuffers::Offset<fb::Graph>> write_graph(Builder& b, const graph::Graph& g,
                                                   TensorPool& pool, int depth) {
  if (depth >= kMaxGraphDepth)
    return unsupported("If/Loop/Scan nested more than " + std::to_string(kMaxGraphDepth) +
                       " deep cannot be written");
  std::vector<flatbuffers::Offset<fb::Value>> values;
  for (graph::ValueId v = 0; v < g.value_count(); ++v)
    values.push_back(write_value(b, g.value(v), pool));
  std::vector<flatbuffers::Offset<fb::Node>> nodes;
  for (graph::NodeId n = 0; n < g.node_count(); ++n) {
    if (g.node(n).dead) continue;
    FOLD8_TRY(const auto node, write_node(b, g.node(n), pool, depth));
    nodes.push_back(node);
  }
  std::vector<flatbuffers::Offset<fb::Entry>> metadata;
  for (const auto& [key, value] : g.metadata) {
    const auto k = b.CreateString(key);
    metadata.push_back(fb::CreateEntry(b, k, b.CreateString(value)));
  }
  const auto fb_values = b.CreateVector(values);
  const auto fb_nodes = b.CreateVector(nodes);
  const auto inputs = b.CreateVector(g.inputs);
  const auto outputs = b.CreateVector(g.outputs);
  const auto symbols = b.CreateVectorOfStrings(g.symbols);
  const auto fb_metadata = b.CreateVector(metadata);
  return fb::CreateGraph(b, fb_values, fb_nodes, inputs, outputs, symbols, fb_metadata);
}

}  // namespace fold8::format
