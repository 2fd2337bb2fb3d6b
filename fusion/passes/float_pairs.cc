#include "fusion/passes/float_pairs.h"

#include <algorithm>

#include "fusion/passes/glob.h"

namespace fold8::fusion {
namespace {

using graph::Graph;
using graph::kNoNode;
using graph::kNoValue;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

constexpr const char* kFileScales = "fold8.file_scales";
constexpr int kLongestTail = 8;  // operators behind a layer that may be fused into it

bool rounds(const graph::Op& op) {
  return std::holds_alternative<graph::Quantize>(op) ||
         std::holds_alternative<graph::DynamicQuantize>(op);
}

bool elementwise(const graph::Op& op) {
  return std::holds_alternative<graph::Unary>(op) || std::holds_alternative<graph::Binary>(op) ||
         std::holds_alternative<graph::BatchNorm>(op) || std::holds_alternative<graph::Affine>(op);
}

class Dropper {
 public:
  Dropper(Graph& g, const std::vector<std::string>& globs)
      : g_(g), globs_(globs), producers_(g.producers()), consumers_(g.consumers()) {}

  std::set<std::string> run() {
    for (NodeId n = 0; n < g_.node_count(); ++n)
      if (!g_.node(n).dead && std::holds_alternative<graph::Dequantize>(g_.node(n).op)) visit(n);
    return std::move(matched_);
  }

 private:
  void visit(NodeId id) {
    const Node& dequantize = g_.node(id);
    const ValueId codes = dequantize.inputs[0];
    if (codes == kNoValue || g_.is_constant(codes)) return;
    const NodeId maker = producers_[static_cast<std::size_t>(codes)];
    if (maker == kNoNode || !std::holds_alternative<graph::Quantize>(g_.node(maker).op)) return;
    const Node& quantize = g_.node(maker);
    const ValueId x = quantize.inputs[0], y = dequantize.outputs[0];
    if (x == kNoValue || g_.is_constant(x) || g_.type(x).dtype != DType::f32 ||
        !named(quantize, dequantize, x, y))
      return;
    if (!g_.is_output(y)) return g_.replace_uses(y, x);
    // The graph returns it by its name: a copy.
    g_.node(id).op = graph::Identity{};
    g_.node(id).inputs = {x};
  }

  bool named(const Node& quantize, const Node& dequantize, ValueId x, ValueId y) {
    bool found = false;
    const auto test = [&](const std::string& name) {
      for (const std::string& glob : globs_)
        if (!name.empty() && glob_matches(glob, name)) {
          matched_.insert(glob);
          found = true;
        }
    };
    test(g_.value(x).name);
    test(g_.value(y).name);
    test(quantize.name);
    test(dequantize.name);
    for (const NodeId reader : consumers_[static_cast<std::size_t>(y)]) test_layer(reader, test);
    return found;
  }

  template <class Test>
  void test_layer(NodeId n, const Test& test) {
    for (int i = 0; i < kLongestTail; ++i) {
      const Node& node = g_.node(n);
      if (rounds(node.op) || node.outputs.empty() || node.outputs[0] == kNoValue) return;
      test(node.name);
      test(g_.value(node.outputs[0]).name);
      const auto& readers = consumers_[static_cast<std::size_t>(node.outputs[0])];
      if (readers.size() != 1 || !elementwise(g_.node(readers[0]).op)) return;
      n = readers[0];
    }
  }

  Graph& g_;
  const std::vector<std::string>& globs_;
  const std::vector<NodeId> producers_;
  const std::vector<std::vector<NodeId>> consumers_;
  std::set<std::string> matched_;
};

}  // namespace

std::set<std::string> drop_pairs(Graph& g, const std::vector<std::string>& globs) {
  if (globs.empty()) return {};
  return Dropper(g, globs).run();
}

void remember_file_scales(graph::Graph& g) {
  std::string names;
  for (NodeId n = 0; n < g.node_count(); ++n) {
    const Node& node = g.node(n);
    if (node.dead || !std::holds_alternative<graph::Quantize>(node.op)) continue;
    const ValueId x = node.inputs[0];
    if (x == kNoValue || g.is_constant(x) || !g.type(node.outputs[0]).quant) continue;
    const std::string line = g.value(x).name + "\t" + node.name;
    if (line.find('\n') == std::string::npos) names += line + "\n";
  }
  if (!names.empty()) g.metadata[kFileScales] = names;
}

std::map<std::string, std::string> file_scales(const Graph& g) {
  std::map<std::string, std::string> found;
  const auto it = g.metadata.find(kFileScales);
  if (it == g.metadata.end()) return found;
  for (std::size_t at = 0; at < it->second.size();) {
    const std::size_t end = std::min(it->second.find('\n', at), it->second.size());
    const std::string line = it->second.substr(at, end - at);
    const std::size_t tab = line.find('\t');
    if (tab != std::string::npos) found[line.substr(0, tab)] = line.substr(tab + 1);
    at = end + 1;
  }
  return found;
}

}  // namespace fold8::fusion
