// The export, top to bottom: opset, inputs and outputs, constants, nodes; large models with
// external data.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <string_view>

#include "runtime/format/f8.h"
#include "tools/onnx/export.h"
#include "tools/onnx/export_writer.h"
#include "tools/onnx/onnx.h"
#include "tools/onnx/rescale.h"
#include "tools/onnx/tensor.h"

namespace fold8::onnx_io {
namespace {

using graph::Graph;
using graph::ValueId;

constexpr std::size_t kAlignExternal = 64, kLeastExternal = 1024;

int opset_of(const graph::Op& op) {
  if (const auto* u = std::get_if<graph::Unary>(&op)) {
    if (u->kind == graph::UnaryKind::gelu_erf || u->kind == graph::UnaryKind::gelu_tanh) return 20;
    if (u->kind == graph::UnaryKind::mish || u->kind == graph::UnaryKind::bitwise_not) return 18;
  }
  if (const auto* q = std::get_if<graph::Quantize>(&op); q != nullptr && q->block_size > 0)
    return 21;
  if (const auto* q = std::get_if<graph::Dequantize>(&op); q != nullptr && q->block_size > 0)
    return 21;
  if (const auto* b = std::get_if<graph::Binary>(&op))
    if (b->kind == graph::BinaryKind::bit_and || b->kind == graph::BinaryKind::bit_or ||
        b->kind == graph::BinaryKind::bit_xor)
      return 18;
  if (const auto* n = std::get_if<graph::Norm>(&op);
      n != nullptr && n->kind == graph::NormKind::group)
    return 21;
  if (const auto* p = std::get_if<graph::Pool>(&op);
      p != nullptr && p->kind != graph::PoolKind::max)
    if (std::any_of(p->dilations.begin(), p->dilations.end(),
                    [](std::int64_t d) { return d != 1; }))
      return 19;
  if (const auto* r = std::get_if<graph::Resize>(&op)) {
    if (r->coordinates == graph::Coordinates::half_pixel_symmetric) return 19;
    if (r->antialias || !r->axes.empty() || r->keep_aspect_ratio != 0) return 18;
  }
  if (const auto* p = std::get_if<graph::Pad>(&op);
      p != nullptr && p->mode == graph::Pad::Mode::wrap)
    return 19;
  if (const auto* s = std::get_if<graph::ScatterElements>(&op);
      s != nullptr && s->reduction > graph::ScatterReduction::mul)
    return 18;
  if (const auto* s = std::get_if<graph::ScatterND>(&op);
      s != nullptr && s->reduction > graph::ScatterReduction::mul)
    return 18;
  return 17;
}

Activation activation_of(const graph::Op& op) {
  if (const auto* o = std::get_if<graph::Linear>(&op)) return o->activation;
  if (const auto* o = std::get_if<graph::Conv>(&op)) return o->activation;
  if (const auto* o = std::get_if<graph::Binary>(&op)) return o->activation;
  if (const auto* o = std::get_if<graph::Affine>(&op)) return o->activation;
  return Activation::none;
}

int opset_for(const Graph& g) {
  int opset = 17;
  for (graph::NodeId n = 0; n < g.node_count(); ++n) {
    const graph::Node& node = g.node(n);
    if (node.dead) continue;
    opset = std::max(opset, opset_of(node.op));
    const Activation a = activation_of(node.op);
    if (a == Activation::gelu_erf || a == Activation::gelu_tanh) opset = std::max(opset, 20);
    // Types that came late: IsInf of f16, ReduceMax and ReduceMin of bool.
    const auto* unary = std::get_if<graph::Unary>(&node.op);
    const bool late = (unary != nullptr && unary->kind == graph::UnaryKind::is_inf &&
                       g.type(node.inputs[0]).dtype == DType::f16) ||
                      (std::holds_alternative<graph::Reduce>(node.op) &&
                       g.type(node.inputs[0]).dtype == DType::boolean);
    if (late) opset = std::max(opset, 20);
    const bool names_type = std::holds_alternative<graph::Quantize>(node.op) &&
                            node.inputs.size() == 2 && g.type(node.outputs[0]).dtype != DType::u8;
    if (names_type) opset = std::max(opset, 21);
    const bool axes_operand =
        (std::holds_alternative<graph::Pad>(node.op) && node.inputs.size() > 3) ||
        (std::holds_alternative<graph::Reduce>(node.op) && node.inputs.size() > 1);
    if (axes_operand) opset = std::max(opset, 18);
  }
  for (ValueId v = 0; v < g.value_count(); ++v) {
    const TensorType& t = g.type(v);
    const bool narrow = t.dtype == DType::s4 || t.dtype == DType::u4 || t.dtype == DType::s16 ||
                        t.dtype == DType::u16;
    if (narrow || (t.quant && t.quant->granularity() == Granularity::per_group))
      opset = std::max(opset, 21);
  }
  return opset;
}

void describe(const Graph& g, ValueId v, onnx::ValueInfoProto& info) {
  const graph::Value& value = g.value(v);
  info.set_name(value.name);
  auto* t = info.mutable_type()->mutable_tensor_type();
  t->set_elem_type(dtype_to_onnx(value.type.dtype));
  auto* shape = t->mutable_shape();
  for (Dim d : value.type.shape.dims()) {
    auto* dim = shape->add_dim();
    if (d.known())
      dim->set_dim_value(d.value());
    else if (d.is_symbol() && static_cast<std::size_t>(d.symbol_id()) < g.symbols.size())
      dim->set_dim_param(g.symbols[static_cast<std::size_t>(d.symbol_id())]);
  }
}

class Exporter {
 public:
  Exporter(const Graph& g, onnx::ModelProto& model) : g_(g), model_(model) {}

  Status run() {
    const int opset = opset_for(g_);
    model_.set_ir_version(opset >= 21 ? 10 : 8);
    model_.set_producer_name("fold8");
    model_.add_opset_import()->set_version(opset);
    auto* out = model_.mutable_graph();
    const auto name = g_.metadata.find("name");
    out->set_name(name != g_.metadata.end() ? name->second : "fold8");
    for (ValueId v : g_.inputs) describe(g_, v, *out->add_input());
    for (ValueId v : g_.outputs) describe(g_, v, *out->add_output());
    FOLD8_CHECK_OK(constants(*out));
    Writer w(g_, *out, opset);
    FOLD8_TRY(const auto order, g_.topological_order());
    for (graph::NodeId n : order) FOLD8_CHECK_OK(node(w, g_.node(n)));
    drop_unread(*out);
    write_rescale(g_, model_);
    return ok_status();
  }

 private:
  // A weight written in another orientation leaves its original behind: nobody reads it any more.
  static void drop_unread(onnx::GraphProto& out) {
    std::set<std::string_view> read;
    for (const auto& n : out.node()) read.insert(n.input().begin(), n.input().end());
    for (const auto& o : out.output()) read.insert(o.name());
    auto& constants = *out.mutable_initializer();
    constants.erase(std::remove_if(constants.begin(), constants.end(),
                                   [&](const auto& t) { return read.count(t.name()) == 0; }),
                    constants.end());
  }

  // Constants some node reads or the graph returns, under their own names.
  Status constants(onnx::GraphProto& out) {
    std::vector<bool> used(static_cast<std::size_t>(g_.value_count()), false);
    const auto use = [&](ValueId v) {
      if (v != graph::kNoValue) used[static_cast<std::size_t>(v)] = true;
    };
    for (graph::NodeId n = 0; n < g_.node_count(); ++n)
      if (!g_.node(n).dead) std::for_each(g_.node(n).inputs.begin(), g_.node(n).inputs.end(), use);
    std::for_each(g_.outputs.begin(), g_.outputs.end(), use);
    for (ValueId v = 0; v < g_.value_count(); ++v) {
      const graph::Value& c = g_.value(v);
      if (!c.is_constant() || !used[static_cast<std::size_t>(v)]) continue;
      if (c.type.layout != Layout::plain)
        return unsupported("tensor '" + c.name +
                           "' is packed for fold8 and cannot be written as ONNX");
      auto* t = out.add_initializer();
      t->set_name(c.name);
      t->set_data_type(dtype_to_onnx(c.type.dtype));
      for (Dim d : c.type.shape.dims()) t->add_dims(d.value());
      if (c.type.dtype == DType::s4 || c.type.dtype == DType::u4)
        return unsupported("tensor '" + c.name + "': 4-bit constants are not written");
      t->set_raw_data(
          std::string(reinterpret_cast<const char*>(c.constant->data()), c.constant->size()));
    }
    return ok_status();
  }

  Status node(Writer& w, const graph::Node& n) {
    w.current = n.name;
    NodeWriter writer{w, n, {}};
    std::vector<std::size_t> quantize;  // outputs computed as real numbers and quantized behind
    const bool as_stored = keeps_integers(n);
    for (std::size_t o = 0; o < n.outputs.size(); ++o) {
      const ValueId v = n.outputs[o];
      if (v != graph::kNoValue && g_.type(v).quant && !as_stored) {
        writer.y.push_back(w.fresh(g_.value(v).name + "/real"));
        quantize.push_back(o);
      } else {
        writer.y.push_back(w.name(v));
      }
    }
    bool known = false;
    for (auto family : {write_attention, write_elementwise, write_linear, write_norm, write_window,
                        write_shape}) {
      FOLD8_CHECK_OK(family(writer, n.op, known));
      if (known) break;
    }
    if (!known) return writer.refuse("there is no ONNX operator for it");
    if (w.error) return in_context("node '" + n.name + "'", *w.error);
    for (std::size_t o : quantize)
      FOLD8_CHECK_OK(w.quantize(writer.y[o], g_.type(n.outputs[o]), g_.value(n.outputs[o]).name));
    return ok_status();
  }

  // Quantize and constants make the integers themselves; movement keeps them, if the parameters
  // stay the same.
  bool keeps_integers(const graph::Node& n) const {
    if (std::holds_alternative<graph::Quantize>(n.op) ||
        std::holds_alternative<graph::ConstantOfShape>(n.op))
      return true;
    const bool moves = std::visit(
        [](const auto& o) {
          using O = std::decay_t<decltype(o)>;
          return std::is_same_v<O, graph::Reshape> || std::is_same_v<O, graph::Flatten> ||
                 std::is_same_v<O, graph::Squeeze> || std::is_same_v<O, graph::Unsqueeze> ||
                 std::is_same_v<O, graph::Transpose> || std::is_same_v<O, graph::Concat> ||
                 std::is_same_v<O, graph::Split> || std::is_same_v<O, graph::Slice> ||
                 std::is_same_v<O, graph::Expand> || std::is_same_v<O, graph::Tile> ||
                 std::is_same_v<O, graph::Gather> || std::is_same_v<O, graph::GatherElements> ||
                 std::is_same_v<O, graph::GatherND> || std::is_same_v<O, graph::DepthToSpace> ||
                 std::is_same_v<O, graph::SpaceToDepth>;
        },
        n.op);
    if (!moves || n.outputs.empty() || n.outputs[0] == graph::kNoValue) return false;
    const auto& out = g_.type(n.outputs[0]).quant;
    if (!std::holds_alternative<graph::Concat>(n.op)) return true;
    return std::all_of(n.inputs.begin(), n.inputs.end(),
                       [&](ValueId v) { return g_.type(v).quant == out; });
  }

  const Graph& g_;
  onnx::ModelProto& model_;
};

// Moves large tensors into one file beside the model.
Status write_external(onnx::ModelProto& model, const std::string& path) {
  const std::string data_path = path + ".data",
                    location = std::filesystem::path(data_path).filename().string();
  const int fd = open(data_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return io_error("cannot write '" + data_path + "': " + std::strerror(errno));
  std::size_t at = 0;
  Status status = ok_status();
  const auto append = [&](const char* p, std::size_t n) {
    while (n > 0 && status.ok()) {
      const ssize_t done = write(fd, p, n);
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) {
        status = io_error("cannot write '" + data_path + "': " + std::strerror(errno));
        return;
      }
      p += done;
      n -= static_cast<std::size_t>(done);
      at += static_cast<std::size_t>(done);
    }
  };
  const char zeros[kAlignExternal] = {};
  for (auto& t : *model.mutable_graph()->mutable_initializer()) {
    if (t.raw_data().size() < kLeastExternal || !status.ok()) continue;
    append(zeros, (kAlignExternal - at % kAlignExternal) % kAlignExternal);
    const std::size_t offset = at;
    append(t.raw_data().data(), t.raw_data().size());
    const auto entry = [&](const char* key, const std::string& value) {
      auto* e = t.add_external_data();
      e->set_key(key);
      e->set_value(value);
    };
    entry("location", location);
    entry("offset", std::to_string(offset));
    entry("length", std::to_string(t.raw_data().size()));
    t.set_data_location(onnx::TensorProto_DataLocation_EXTERNAL);
    t.clear_raw_data();
  }
  if (close(fd) != 0 && status.ok())
    status = io_error("cannot write '" + data_path + "': " + std::strerror(errno));
  return status;
}

}  // namespace

Status export_file(const Graph& g, const std::string& path, std::size_t largest_inline) {
  onnx::ModelProto model;
  FOLD8_CHECK_OK(Exporter(g, model).run());
  std::size_t bytes = 0;
  for (const auto& t : model.graph().initializer()) bytes += t.raw_data().size();
  if (bytes > largest_inline) FOLD8_CHECK_OK(write_external(model, path));
  std::string out;
  if (!model.SerializeToString(&out))
    return internal_error("the ONNX model could not be serialized");
  return format::write_atomically(path, out.data(), out.size());
}

Status export_file(const Graph& g, const std::string& path) {
  return export_file(g, path, kLargestInline);
}

}  // namespace fold8::onnx_io
