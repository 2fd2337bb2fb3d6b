#include "runtime/format/read_graph.h"

#include <bit>

#include "runtime/format/layout.h"
#include "runtime/graph/enum_names.h"

namespace fold8::format {

Status Budget::take(std::size_t bytes) {
  if (bytes > left_)
    return invalid_model("the graph section repeats its parts more often than a writer would");
  left_ -= bytes;
  return ok_status();
}

namespace {

// Layouts a reader of this version knows (core/tensor_type.h: append only).
constexpr std::uint8_t kLayoutCount = static_cast<std::uint8_t>(Layout::depthwise_f32) + 1;

Error newer(const std::string& what) {
  return unsupported("written by a newer fold8: " + what +
                     "; update fold8 or convert the model again");
}

std::string text_of(const flatbuffers::String* s) {
  return s == nullptr ? std::string() : s->str();
}
std::string_view view_of(const flatbuffers::String* s) {
  return s == nullptr ? std::string_view() : std::string_view(s->data(), s->size());
}

Result<std::string> take_string(const flatbuffers::String* s, const ReadContext& c) {
  if (s == nullptr) return std::string();
  FOLD8_CHECK_OK(c.budget.take(s->size()));
  return s->str();
}

template <class T>
Result<std::vector<T>> take_vector(const flatbuffers::Vector<T>* v, const ReadContext& c) {
  if (v == nullptr) return std::vector<T>();
  FOLD8_CHECK_OK(c.budget.take(v->size() * sizeof(T)));
  return std::vector<T>(v->begin(), v->end());
}

Result<std::vector<std::string>> take_strings(
    const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* v, const ReadContext& c) {
  std::vector<std::string> out;
  if (v == nullptr) return out;
  for (const flatbuffers::String* s : *v) {
    FOLD8_CHECK_OK(c.budget.take(sizeof(std::uint32_t)));
    FOLD8_TRY(std::string text, take_string(s, c));
    out.push_back(std::move(text));
  }
  return out;
}

Result<Shape> read_shape(const flatbuffers::Vector<std::int64_t>* dims, std::size_t symbols) {
  Shape shape;
  if (dims == nullptr) return shape;
  if (dims->size() > Shape::kMaxRank)
    return invalid_model("rank " + std::to_string(dims->size()) + " is above 8");
  for (std::int64_t d : *dims) {
    if (d > kSymbolBase) {
      shape.push_back(d == kUnknownDim ? Dim::unknown() : Dim(d));
      continue;
    }
    const std::uint64_t symbol =
        static_cast<std::uint64_t>(kSymbolBase) - static_cast<std::uint64_t>(d);
    if (symbol >= symbols) return invalid_model("a symbolic extent has no name");
    shape.push_back(Dim::symbol(static_cast<std::int32_t>(symbol)));
  }
  return shape;
}

Result<QuantParams> read_quant(const fb::Quant& q, const ReadContext& c) {
  FOLD8_TRY(std::vector<float> scales, take_vector(q.scales(), c));
  FOLD8_TRY(std::vector<std::int32_t> zero_points, take_vector(q.zero_points(), c));
  switch (static_cast<Granularity>(q.granularity())) {
    case Granularity::per_tensor:
      if (scales.size() != 1 || zero_points.size() > 1)
        return invalid_model("per-tensor quantization needs one scale");
      return QuantParams::per_tensor(scales[0], zero_points.empty() ? 0 : zero_points[0]);
    case Granularity::per_channel:
      return QuantParams::per_channel(q.axis(), std::move(scales), std::move(zero_points));
    case Granularity::per_group:
      return QuantParams::per_group(q.axis(), q.group(), std::move(scales), std::move(zero_points));
    case Granularity::per_token:
      return QuantParams::per_token();
  }
  return newer("quantization granularity " + std::to_string(q.granularity()));
}

Result<TensorType> read_type(const fb::Value& v, const ReadContext& c, std::size_t symbols) {
  if (v.dtype() >= kDTypeCount) return newer("element type " + std::to_string(v.dtype()));
  if (v.layout() >= kLayoutCount) return newer("memory layout " + std::to_string(v.layout()));
  TensorType type;
  type.dtype = static_cast<DType>(v.dtype());
  type.layout = static_cast<Layout>(v.layout());
  FOLD8_TRY(type.shape, read_shape(v.dims(), symbols));
  if (v.quant() != nullptr) {
    FOLD8_TRY(type.quant, read_quant(*v.quant(), c));
  }
  return type;
}

Status read_value(const fb::Value& v, const ReadContext& c, graph::Graph& g) {
  FOLD8_TRY(std::string name, take_string(v.name(), c));
  auto type = read_type(v, c, g.symbols.size());
  if (!type.ok()) return in_context("tensor '" + name + "'", type.error());
  const graph::ValueId id = g.add_value(std::move(name), std::move(type).value());
  graph::Value& value = g.value(id);
  value.has_type = v.has_type();
  FOLD8_TRY(value.rescale, take_vector(v.rescale(), c));
  value.rescale_axis = v.rescale_axis();
  if (!value.rescale.empty() &&
      (value.rescale_axis < 0 || value.rescale_axis >= value.type.shape.rank()))
    return invalid_model("tensor '" + value.name + "': rescale axis out of range");
  if (v.tensor() < -1 || v.tensor() >= static_cast<std::int64_t>(c.tensors.size()))
    return invalid_model("tensor '" + value.name + "': its data does not exist");
  if (v.tensor() >= 0) value.constant = c.tensors[static_cast<std::size_t>(v.tensor())];
  return ok_status();
}

// Fills one operator's attributes by name.
class AttributeReader {
 public:
  AttributeReader(const fb::Attribute& a, const ReadContext& c, int depth)
      : a_(a), c_(c), depth_(depth) {}

  template <class T>
  void operator()(std::string_view name, T& v) {
    if (name != view_of(a_.name())) return;
    found_ = true;
    status_ = read(v);
  }
  Status finish() && {
    if (!found_) return newer("attribute '" + text_of(a_.name()) + "'");
    return std::move(status_);
  }

 private:
  Status expect(fb::AttributeKind kind) {
    return a_.kind() == kind
               ? ok_status()
               : Status(invalid_model("attribute '" + text_of(a_.name()) + "' has the wrong kind"));
  }
  Status read(bool& v) {
    v = a_.integer() != 0;
    return expect(fb::AttributeKind::boolean);
  }
  Status read(float& v) {
    v = std::bit_cast<float>(a_.real_bits());
    return expect(fb::AttributeKind::real);
  }
  Status read(std::int64_t& v) {
    v = a_.integer();
    return expect(fb::AttributeKind::integer);
  }
  Status read(std::string& v) {
    FOLD8_TRY(v, take_string(a_.text(), c_));
    return expect(fb::AttributeKind::text);
  }
  Status read(graph::Ints& v) {
    FOLD8_TRY(v, take_vector(a_.integers(), c_));
    return expect(fb::AttributeKind::integers);
  }
  Status read(std::shared_ptr<const graph::Graph>& v) {
    FOLD8_CHECK_OK(expect(fb::AttributeKind::graph));
    if (a_.graph() == nullptr) return ok_status();
    FOLD8_TRY(graph::Graph nested, read_graph(*a_.graph(), c_, depth_ + 1));
    v = std::make_shared<const graph::Graph>(std::move(nested));
    return ok_status();
  }
  template <class E>
  requires std::is_enum_v<E> Status read(E& v) {
    FOLD8_CHECK_OK(expect(fb::AttributeKind::enumerator));
    const auto e = graph::enumerator_from_name<E>(view_of(a_.text()));
    if (!e) return newer("'" + text_of(a_.text()) + "' as attribute '" + text_of(a_.name()) + "'");
    v = *e;
    return ok_status();
  }

  const fb::Attribute& a_;
  const ReadContext& c_;
  int depth_;
  bool found_ = false;
  Status status_ = ok_status();
};

Result<graph::Op> read_op(const fb::Node& n, const ReadContext& c, int depth) {
  auto op = graph::op_from_name(view_of(n.op()));
  if (!op) return newer("operator '" + text_of(n.op()) + "'");
  if (n.attributes() == nullptr) return std::move(*op);
  for (const fb::Attribute* a : *n.attributes()) {
    FOLD8_CHECK_OK(c.budget.take(sizeof(std::uint32_t)));
    AttributeReader reader(*a, c, depth);
    graph::each_field(*op, reader);
    FOLD8_CHECK_OK(std::move(reader).finish());
  }
  return std::move(*op);
}

Status check_ids(const std::vector<graph::ValueId>& ids, graph::ValueId lowest,
                 const graph::Graph& g, const char* what) {
  for (graph::ValueId v : ids)
    if (v < lowest || v >= g.value_count())
      return invalid_model(std::string(what) + " refers to a tensor that does not exist");
  return ok_status();
}

Status read_node(const fb::Node& n, const ReadContext& c, int depth, graph::Graph& g) {
  FOLD8_TRY(std::string name, take_string(n.name(), c));
  auto op = read_op(n, c, depth);
  if (!op.ok()) return in_context("node '" + name + "'", op.error());
  FOLD8_TRY(std::vector<graph::ValueId> inputs, take_vector(n.inputs(), c));
  FOLD8_TRY(std::vector<graph::ValueId> outputs, take_vector(n.outputs(), c));
  FOLD8_CHECK_OK(check_ids(inputs, graph::kNoValue, g, "a node"));
  FOLD8_CHECK_OK(check_ids(outputs, graph::kNoValue, g, "a node"));
  FOLD8_TRY(std::vector<std::string> inside, take_strings(n.inside(), c));
  const graph::NodeId id =
      g.add_node(std::move(op).value(), std::move(name), std::move(inputs), std::move(outputs));
  g.node(id).inside = std::move(inside);
  return ok_status();
}

Status read_metadata(const fb::Graph& table, const ReadContext& c, graph::Graph& g) {
  if (table.metadata() == nullptr) return ok_status();
  for (const fb::Entry* e : *table.metadata()) {
    FOLD8_CHECK_OK(c.budget.take(sizeof(std::uint32_t)));
    FOLD8_TRY(std::string key, take_string(e->key(), c));
    FOLD8_TRY(std::string value, take_string(e->value(), c));
    g.metadata[std::move(key)] = std::move(value);
  }
  return ok_status();
}

}  // namespace

Result<graph::Graph> read_graph(const fb::Graph& table, const ReadContext& c, int depth) {
  if (depth >= kMaxGraphDepth) return invalid_model("If/Loop/Scan are nested too deep");
  graph::Graph g;
  FOLD8_TRY(g.symbols, take_strings(table.symbols(), c));
  if (table.values() != nullptr)
    for (const fb::Value* v : *table.values()) {
      FOLD8_CHECK_OK(c.budget.take(sizeof(std::uint32_t)));
      FOLD8_CHECK_OK(read_value(*v, c, g));
    }
  if (table.nodes() != nullptr)
    for (const fb::Node* n : *table.nodes()) {
      FOLD8_CHECK_OK(c.budget.take(sizeof(std::uint32_t)));
      FOLD8_CHECK_OK(read_node(*n, c, depth, g));
    }
  FOLD8_TRY(g.inputs, take_vector(table.inputs(), c));
  FOLD8_TRY(g.outputs, take_vector(table.outputs(), c));
  FOLD8_CHECK_OK(check_ids(g.inputs, 0, g, "a graph input"));
  FOLD8_CHECK_OK(check_ids(g.outputs, 0, g, "a graph output"));
  FOLD8_CHECK_OK(read_metadata(table, c, g));
  return g;
}

}  // namespace fold8::format
