#include "tools/onnx/node_order.h"

#include <onnx/onnx_pb.h>

#include <queue>
#include <unordered_set>

namespace fold8::onnx_io {
namespace {

constexpr int kGiven = -1;  // made by no node: an input or an initializer

std::string label(const onnx::NodeProto& n) {
  const std::string name = !n.name().empty() ? n.name() : n.output_size() > 0 ? n.output(0) : "";
  return "'" + name + "' (" + n.op_type() + ")";
}

std::string made_by(const onnx::NodeProto& n) {
  return n.output_size() > 0 ? " making '" + n.output(0) + "'" : "";
}

class Orderer {
 public:
  explicit Orderer(const onnx::GraphProto& g) : g_(g) {}

  Result<NodeOrder> run() {
    FOLD8_CHECK_OK(find_producers());
    FOLD8_CHECK_OK(check_reads());
    return sort();
  }

 private:
  Status find_producers() {
    for (const auto& t : g_.initializer()) {
      if (t.name().empty()) return invalid_model("an initializer has no name");
      if (!producer_.emplace(t.name(), kGiven).second)
        return invalid_model("two initializers are named '" + t.name() + "': it is defined twice");
    }
    std::unordered_set<std::string> inputs;
    for (const auto& i : g_.input()) {
      if (!inputs.insert(i.name()).second)
        return invalid_model("graph input '" + i.name() + "' is listed twice");
      producer_.emplace(i.name(), kGiven);
    }
    for (int n = 0; n < g_.node_size(); ++n)
      for (const auto& name : g_.node(n).output())
        if (!name.empty() && !producer_.emplace(name, n).second)
          return invalid_model("tensor '" + name + "' is made twice: node " + label(g_.node(n)) +
                               " makes it, and it is already defined elsewhere");
    return ok_status();
  }

  Status check_reads() {
    for (const auto& n : g_.node())
      for (const auto& name : n.input())
        if (!name.empty() && producer_.count(name) == 0)
          return invalid_model("node " + label(n) + " reads tensor '" + name +
                               "', which nothing makes");
    for (const auto& o : g_.output())
      if (producer_.count(o.name()) == 0)
        return invalid_model("graph output '" + o.name() + "' is made by no node");
    return ok_status();
  }

  // Kahn's algorithm, always the ready node that stands first in the file.
  Result<NodeOrder> sort() {
    const auto count = static_cast<std::size_t>(g_.node_size());
    std::vector<int> waits(count, 0);
    std::vector<std::vector<int>> readers(count);
    for (int n = 0; n < g_.node_size(); ++n)
      for (const auto& name : g_.node(n).input())
        if (const int p = name.empty() ? kGiven : producer_.at(name); p != kGiven) {
          readers[static_cast<std::size_t>(p)].push_back(n);
          ++waits[static_cast<std::size_t>(n)];
        }
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (int n = 0; n < g_.node_size(); ++n)
      if (waits[static_cast<std::size_t>(n)] == 0) ready.push(n);
    std::vector<int> sorted;
    while (!ready.empty()) {
      const int n = ready.top();
      ready.pop();
      sorted.push_back(n);
      for (int r : readers[static_cast<std::size_t>(n)])
        if (--waits[static_cast<std::size_t>(r)] == 0) ready.push(r);
    }
    if (sorted.size() != count) return cycle(waits);
    return split_needed(sorted);
  }

  Error cycle(const std::vector<int>& waits) const {
    std::string names;
    int listed = 0;
    for (int n = 0; n < g_.node_size(); ++n)
      if (waits[static_cast<std::size_t>(n)] != 0 && listed++ < 10)
        names += (names.empty() ? "" : ", ") + label(g_.node(n)) + made_by(g_.node(n));
    return invalid_model("the graph has a cycle through (or in front of) the nodes " + names +
                         (listed > 10 ? ", ..." : ""));
  }

  NodeOrder split_needed(const std::vector<int>& sorted) const {
    std::vector<bool> needed(sorted.size(), false);
    for (const auto& o : g_.output())
      if (const int p = producer_.at(o.name()); p != kGiven)
        needed[static_cast<std::size_t>(p)] = true;
    for (auto it = sorted.rbegin(); it != sorted.rend(); ++it) {
      if (!needed[static_cast<std::size_t>(*it)]) continue;
      for (const auto& name : g_.node(*it).input())
        if (const int p = name.empty() ? kGiven : producer_.at(name); p != kGiven)
          needed[static_cast<std::size_t>(p)] = true;
    }
    NodeOrder result;
    for (int n : sorted)
      (needed[static_cast<std::size_t>(n)] ? result.order : result.unneeded).push_back(n);
    return result;
  }

  const onnx::GraphProto& g_;
  std::unordered_map<std::string, int> producer_;
};

}  // namespace

Result<NodeOrder> order_nodes(const onnx::GraphProto& graph) { return Orderer(graph).run(); }

}  // namespace fold8::onnx_io
