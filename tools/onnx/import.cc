// The import, top to bottom: check the file, inputs and constants, nodes in order, outputs, types.
#include <onnx/onnx_pb.h>

#include "runtime/exec/model.h"
#include "runtime/graph/verify.h"
#include "tools/onnx/half_network.h"
#include "tools/onnx/model_file.h"
#include "tools/onnx/node_order.h"
#include "tools/onnx/onnx.h"
#include "tools/onnx/op_map.h"
#include "tools/onnx/rescale.h"

namespace fold8::onnx_io {
namespace {

constexpr std::int64_t kOldestOpset = 6, kNewestOpset = 28;  // of the default domain

std::string domain_of(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

class Importer {
 public:
  // `large`: initializers whose data the model does not hold.
  Importer(std::string folder, const LargeTensors& large) : large_(large) {
    b_.folder = std::move(folder);
  }

  // After ok: the graph, or unsupported() is not empty.
  Status run(onnx::ModelProto& model);
  const std::vector<Unsupported>& unsupported() const { return unsupported_; }
  Result<Imported> take();

 private:
  Status read_opsets(const onnx::ModelProto& model);
  void read_metadata(const onnx::ModelProto& model);
  void read_names(const onnx::GraphProto& g);
  Status add_initializers(onnx::GraphProto& g);
  Status add_inputs(const onnx::GraphProto& g);
  Result<TensorType> input_type(const onnx::ValueInfoProto& input);
  Status map_nodes(const onnx::GraphProto& g, const NodeOrder& order);
  Status map_node(const onnx::NodeProto& n);
  void add_unsupported(const onnx::NodeProto& n, const std::string& name, const std::string& why);
  void bind_missing_outputs(const onnx::NodeProto& n);
  Status add_outputs(const onnx::GraphProto& g);

  Builder b_;
  const LargeTensors& large_;
  std::vector<Unsupported> unsupported_;
  bool half_as_float_ = false;
};

Status Importer::run(onnx::ModelProto& model) {
  onnx::GraphProto& g = *model.mutable_graph();
  FOLD8_CHECK_OK(read_opsets(model));
  if (g.sparse_initializer_size() > 0)
    return fold8::unsupported("tensor '" + g.sparse_initializer(0).values().name() +
                              "': sparse initializers are not supported");
  half_as_float_ = computes_in_half(g);
  if (half_as_float_) {
    compute_in_float(g);
    b_.notes.push_back({"",
                        "the network is in 16-bit floats; it is computed in float32, inputs and "
                        "outputs keep their types"});
  }
  FOLD8_TRY(const NodeOrder order, order_nodes(g));
  read_metadata(model);
  read_names(g);
  FOLD8_CHECK_OK(add_initializers(g));
  FOLD8_CHECK_OK(add_inputs(g));
  FOLD8_CHECK_OK(map_nodes(g, order));
  if (unsupported_.empty()) FOLD8_CHECK_OK(add_outputs(g));
  return ok_status();
}

Status Importer::read_opsets(const onnx::ModelProto& model) {
  for (const auto& o : model.opset_import()) {
    const std::string domain = domain_of(o.domain());
    if (domain.empty() && o.version() > kNewestOpset)
      return fold8::unsupported("the model uses opset " + std::to_string(o.version()) +
                                "; this fold8 knows opsets up to " + std::to_string(kNewestOpset));
    if (domain.empty() && o.version() < kOldestOpset)
      return fold8::unsupported(
          "the model uses opset " + std::to_string(o.version()) +
          "; fold8 reads opset 7 and newer (export again, or use ONNX's version converter)");
    const int version =
        static_cast<int>(std::min<std::int64_t>(std::max<std::int64_t>(o.version(), 0), INT32_MAX));
    if (const auto [it, fresh] = b_.opsets.emplace(domain, version);
        !fresh && it->second != version)
      return invalid_model("the model names two opset versions for domain '" + domain + "'");
  }
  if (b_.opsets.empty())
    return invalid_model("the model does not say which opset it uses (no opset_import)");
  return ok_status();
}

void Importer::read_metadata(const onnx::ModelProto& model) {
  auto& metadata = b_.graph.metadata;
  for (const auto& entry : model.metadata_props()) metadata["onnx." + entry.key()] = entry.value();
  if (!model.producer_name().empty())
    metadata["producer"] = model.producer_name() +
                           (model.producer_version().empty() ? "" : " " + model.producer_version());
  if (!model.graph().name().empty()) metadata["name"] = model.graph().name();
  if (const auto it = b_.opsets.find(""); it != b_.opsets.end())
    metadata["opset"] = std::to_string(it->second);
}

// All names of the file are taken before any is invented.
void Importer::read_names(const onnx::GraphProto& g) {
  for (const auto& t : g.initializer()) b_.reserve_value_name(t.name());
  for (const auto& i : g.input()) b_.reserve_value_name(i.name());
  for (const auto& n : g.node()) {
    for (const auto& name : n.output()) b_.reserve_value_name(name);
    for (const auto& name : n.input())
      if (!name.empty()) b_.readers[name].push_back(&n);
  }
  for (const auto& o : g.output()) b_.output_names.insert(o.name());
}

Status Importer::add_initializers(onnx::GraphProto& g) {
  std::size_t number = 0;
  for (auto& t : *g.mutable_initializer()) {
    FOLD8_TRY(ConstantData data, read_tensor(t, t.name(), b_.folder, large_.at(number++)));
    std::string().swap(*t.mutable_raw_data());  // two copies of the weights are one too many
    if (half_as_float_) data = widened(std::move(data));
    b_.bind(t.name(), b_.add_constant(t.name(), std::move(data)));
  }
  return ok_status();
}

Result<TensorType> Importer::input_type(const onnx::ValueInfoProto& input) {
  const std::string what = "graph input '" + input.name() + "'";
  if (!input.type().has_tensor_type())
    return fold8::unsupported(what + " is no tensor (a sequence, map or optional value)");
  const auto& t = input.type().tensor_type();
  TensorType type;
  FOLD8_TRY(type.dtype, dtype_from_onnx(t.elem_type(), what));
  if (!t.has_shape())
    return fold8::unsupported(what + " has no shape: at least its rank must be known");
  if (t.shape().dim_size() > Shape::kMaxRank)
    return fold8::unsupported(what + " has rank " + std::to_string(t.shape().dim_size()) +
                              ", fold8 handles up to " + std::to_string(Shape::kMaxRank));
  for (const auto& d : t.shape().dim()) {
    if (d.has_dim_value() && d.dim_value() >= 0)
      type.shape.push_back(Dim(d.dim_value()));
    else if (!d.dim_param().empty() && d.dim_param() != "?")
      type.shape.push_back(b_.graph.symbol(d.dim_param()));
    else
      type.shape.push_back(Dim::unknown());  // also -1, which some exporters write
  }
  return type;
}

Status Importer::add_inputs(const onnx::GraphProto& g) {
  for (const auto& i : g.input()) {
    if (b_.find(i.name()) != kNoValue) continue;  // an initializer listed as an input is a constant
    FOLD8_TRY(TensorType type, input_type(i));
    const ValueId v = b_.graph.add_value(i.name(), std::move(type));
    b_.graph.inputs.push_back(v);
    b_.bind(i.name(), v);
  }
  return ok_status();
}

Status Importer::map_nodes(const onnx::GraphProto& g, const NodeOrder& order) {
  for (int i : order.order) {
    const onnx::NodeProto& n = g.node(i);
    if (auto s = map_node(n); !s.ok() && unsupported_.empty()) return s;
  }
  for (int i : order.unneeded) {
    const onnx::NodeProto& n = g.node(i);
    b_.notes.push_back({!n.name().empty()     ? n.name()
                        : n.output_size() > 0 ? n.output(0)
                                              : n.op_type(),
                        "no output of the model needs it; left out"});
  }
  for (const auto& [domain, version] : b_.opsets)
    if (!domain.empty() && domain != "com.microsoft")
      b_.notes.push_back({"", "opset " + std::to_string(version) + " of domain '" + domain +
                                  "' is imported, and not used by any supported operator"});
  return ok_status();
}

Status Importer::map_node(const onnx::NodeProto& n) {
  const std::string domain = domain_of(n.domain());
  const auto opset = b_.opsets.find(domain);
  const MapFn map = find_map(domain, n.op_type());
  NodeContext ctx(b_, n, opset == b_.opsets.end() ? 1 : opset->second);
  Status status = ok_status();
  if (map == nullptr) {
    add_unsupported(n, ctx.name(), why_unsupported(domain, n.op_type()));
  } else if (opset == b_.opsets.end() && domain.empty()) {
    status = invalid_model("node '" + ctx.name() + "' (" + n.op_type() +
                           "): the model imports no opset of the default domain");
  } else if (n.output_size() == 0) {
    status = invalid_model("node '" + ctx.name() + "' (" + n.op_type() + "): has no outputs");
  } else {
    status = map(ctx);
    if (!status.ok() && status.error().code == Code::unsupported) {
      add_unsupported(n, ctx.name(), status.error().message);
      status = ok_status();
    }
  }
  bind_missing_outputs(n);
  return status;
}

void Importer::add_unsupported(const onnx::NodeProto& n, const std::string& name,
                               const std::string& why) {
  const std::string op =
      domain_of(n.domain()).empty() ? n.op_type() : n.domain() + "." + n.op_type();
  const std::string prefix = "node '" + name + "' (" + n.op_type() + "): ";
  unsupported_.push_back({name, op, why.starts_with(prefix) ? why.substr(prefix.size()) : why});
}

// Behind an unsupported operator the search goes on with values of unknown type.
void Importer::bind_missing_outputs(const onnx::NodeProto& n) {
  for (const auto& name : n.output())
    if (!name.empty() && b_.find(name) == kNoValue) b_.bind(name, b_.graph.add_untyped_value(name));
}

Status Importer::add_outputs(const onnx::GraphProto& g) {
  for (const auto& o : g.output()) b_.graph.outputs.push_back(b_.find(o.name()));
  return ok_status();
}

Result<Imported> Importer::take() {
  if (!unsupported_.empty()) {
    std::string message = unsupported_.size() == 1 ? "an operator is not supported:"
                                                   : std::to_string(unsupported_.size()) +
                                                         " operators are not supported:";
    for (const auto& u : unsupported_)
      message += "\n  node '" + u.node + "' (" + u.op + "): " + u.reason;
    return fold8::unsupported(message);
  }
  FOLD8_CHECK_OK(b_.graph.compact());
  FOLD8_CHECK_OK(exec::infer_types(b_.graph));
  FOLD8_CHECK_OK(read_rescale(b_.graph));
  FOLD8_CHECK_OK(graph::verify(b_.graph));
  return Imported{std::move(b_.graph), std::move(b_.notes)};
}

Result<Imported> import_model(onnx::ModelProto& model, const std::string& folder,
                              const LargeTensors& large = {}) {
  Importer importer(folder, large);
  FOLD8_CHECK_OK(importer.run(model));
  return importer.take();
}

}  // namespace

Result<Imported> import_file(const std::string& path) {
  onnx::ModelProto model;
  LargeTensors large;
  FOLD8_CHECK_OK(read_model(path, model, large));
  auto imported = import_model(model, folder_of(path), large);
  if (!imported.ok()) return in_context("'" + path + "'", imported.error());
  return imported;
}

Result<Imported> import_bytes(const std::string& bytes, const std::string& folder) {
  onnx::ModelProto model;
  FOLD8_CHECK_OK(parse_model(bytes.data(), bytes.size(), "the model", model));
  return import_model(model, folder);
}

Result<std::vector<Unsupported>> find_unsupported(const std::string& path) {
  onnx::ModelProto model;
  LargeTensors large;
  FOLD8_CHECK_OK(read_model(path, model, large));
  Importer importer(folder_of(path), large);
  auto status = importer.run(model);
  if (!status.ok() && importer.unsupported().empty())
    return in_context("'" + path + "'", status.error());
  return importer.unsupported();
}

}  // namespace fold8::onnx_io
