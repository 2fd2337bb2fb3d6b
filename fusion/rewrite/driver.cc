#include "fusion/rewrite/driver.h"

#include <algorithm>

#include "runtime/exec/model.h"
#include "runtime/graph/verify.h"

namespace fold8::fusion {

using graph::Graph;
using graph::kNoNode;
using graph::kNoValue;
using graph::NodeId;
using graph::ValueId;

namespace {

// No graph needs more rounds than this; a pair of passes that undo each other would.
constexpr int kMostRounds = 200;

std::string quoted(const std::string& name) { return "'" + name + "'"; }

void add_once(std::vector<Declined>& list, Declined d) {
  if (std::find(list.begin(), list.end(), d) == list.end()) list.push_back(std::move(d));
}

// One sweep of one Rewrite over a graph.
class Sweep {
 public:
  Sweep(const Rewrite& rewrite, Graph& g, const Context& context)
      : rewrite_(rewrite), g_(g), context_(context), index_(g), patterns_(rewrite.patterns()) {}

  Result<Tally> run() {
    FOLD8_TRY(const std::vector<NodeId> order, g_.topological_order());
    for (const NodeId n : order) {
      if (g_.node(n).dead) continue;
      FOLD8_CHECK_OK(visit(n));
    }
    return std::move(tally_);
  }

 private:
  // Every way the patterns match this root, until one is replaced.
  Status visit(NodeId root) {
    std::vector<std::string> reasons;
    Status status = ok_status();
    for (const Pattern& pattern : patterns_) {
      const bool done = for_each_match(pattern, g_, index_, root, [&](const Match& m) {
        Result<bool> applied = consider(pattern, m, reasons);
        if (!applied.ok()) status = applied.error();
        return !applied.ok() || *applied;
      });
      if (done) return status;
    }
    for (std::string& why : reasons)
      add_once(tally_.declined, {std::string(rewrite_.name), g_.node(root).name, std::move(why)});
    return ok_status();
  }

  Result<bool> consider(const Pattern& pattern, const Match& m, std::vector<std::string>& reasons) {
    std::string why = obstacle(pattern, m);
    if (!why.empty()) {
      if (!rewrite_.quiet) reasons.push_back(std::move(why));
      return false;
    }
    FOLD8_TRY(const Outcome outcome, rewrite_.apply(m, g_, context_));
    index_.grow(g_);
    if (const auto* declined = std::get_if<Decline>(&outcome); declined && !rewrite_.quiet)
      reasons.push_back(declined->why);
    if (const auto* replace = std::get_if<Replace>(&outcome)) return replaced(m, *replace);
    if (const auto* forward = std::get_if<Forward>(&outcome)) return forwarded(m, forward->value);
    return false;
  }

  // Why an inner node may not vanish; empty if all may.
  std::string obstacle(const Pattern& pattern, const Match& m) const {
    if (pattern.node().shared) return {};
    const graph::Node& root = g_.node(m.root);
    for (std::size_t i = 1; i < root.outputs.size(); ++i)
      if (root.outputs[i] != kNoValue && !std::holds_alternative<graph::BatchNorm>(root.op))
        return "it has a second output, " + quoted(g_.value(root.outputs[i]).name);
    for (const NodeId n : m.nodes) {
      if (n == m.root) continue;
      for (const ValueId v : g_.node(n).outputs) {
        if (v == kNoValue) continue;
        if (g_.is_output(v)) return quoted(g_.value(v).name) + " is also a graph output";
        for (const NodeId reader : index_.consumers(v)) {
          const bool inside = std::find(m.nodes.begin(), m.nodes.end(), reader) != m.nodes.end();
          const bool may_stay =
              rewrite_.reader_may_stay != nullptr && rewrite_.reader_may_stay(g_.node(reader).op);
          if (!inside && !may_stay)
            return quoted(g_.value(v).name) + " is also read by " + quoted(g_.node(reader).name);
        }
      }
    }
    return {};
  }

  bool replaced(const Match& m, const Replace& r) {
    graph::Node& root = g_.node(m.root);
    index_.remove(root, m.root);
    root.op = r.op;
    root.inputs = r.inputs;
    if (!r.node_name.empty() && r.node_name != root.name) {
      root.inside.push_back(root.name);
      root.name = r.node_name;
    }
    index_.insert(root, m.root);
    sweep_inner(m, m.root);
    ++tally_.applied;
    return true;
  }

  bool forwarded(const Match& m, ValueId value) {
    const graph::Node& root = g_.node(m.root);
    const ValueId out = root.outputs[0];
    const std::string root_name = root.name, out_name = g_.value(out).name;
    const NodeId maker = index_.producer(value);
    if (g_.is_output(out)) {
      // The output's name has to survive: the maker writes it, unless the value's own name has to
      // survive too.
      if (maker == kNoNode || g_.is_output(value)) return false;
      take_over(value, out, m, maker);
    } else {
      keep_rescale(value, out);
      redirect(out, value);
      index_.remove(g_.node(m.root), m.root);
      g_.erase(m.root);
      if (maker != kNoNode) keep_name(maker, out_name);
    }
    if (maker != kNoNode) keep_node_name(maker, root_name);
    sweep_inner(m, maker);
    ++tally_.applied;
    return true;
  }

  // The same elements under another name: a factor known of the one holds for the other.
  void keep_rescale(ValueId value, ValueId out) {
    graph::Value &kept = g_.value(value), &gone = g_.value(out);
    if (!kept.rescale.empty() || gone.rescale.empty() || kept.is_constant() ||
        !(kept.type.shape == gone.type.shape))
      return;
    kept.rescale = std::move(gone.rescale);
    kept.rescale_axis = gone.rescale_axis;
  }

  // `maker` writes `out` instead of `value`, and everyone reads `out`.
  void take_over(ValueId value, ValueId out, const Match& m, NodeId maker) {
    index_.remove(g_.node(m.root), m.root);
    g_.erase(m.root);
    redirect(value, out);
    graph::Node& node = g_.node(maker);
    index_.remove(node, maker);
    std::replace(node.outputs.begin(), node.outputs.end(), value, out);
    index_.insert(node, maker);
    keep_name(maker, g_.value(value).name);
  }

  void redirect(ValueId from, ValueId to) {
    const std::vector<NodeId> readers = index_.consumers(from);
    for (const NodeId n : readers) {
      graph::Node& node = g_.node(n);
      index_.remove(node, n);
      std::replace(node.inputs.begin(), node.inputs.end(), from, to);
      index_.insert(node, n);
    }
  }

  // Erases the matched nodes that nobody reads any more; `heir` keeps the names that go with them.
  void sweep_inner(const Match& m, NodeId heir) {
    for (bool again = true; again;) {
      again = false;
      for (const NodeId n : m.nodes)
        if (n != m.root && n != heir && unread(n)) {
          bury(n, heir);
          again = true;
        }
    }
  }

  bool unread(NodeId n) const {
    const graph::Node& node = g_.node(n);
    return !node.dead && std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) {
      return v == kNoValue || (!g_.is_output(v) && index_.consumers(v).empty());
    });
  }

  void bury(NodeId n, NodeId heir) {
    index_.remove(g_.node(n), n);
    g_.erase(n);
    if (heir == kNoNode) return;
    const graph::Node& node = g_.node(n);
    for (const std::string& text : node.inside) keep_name(heir, text);
    for (const ValueId v : node.outputs)
      if (v != kNoValue) keep_name(heir, g_.value(v).name);
    keep_node_name(heir, node.name);
  }

  void keep_name(NodeId n, std::string text) {
    std::vector<std::string>& inside = g_.node(n).inside;
    if (!text.empty() && std::find(inside.begin(), inside.end(), text) == inside.end())
      inside.push_back(std::move(text));
  }
  // A node's name: one that it shares with a value (made-up ones do) is there already.
  void keep_node_name(NodeId n, const std::string& text) {
    if (text != g_.node(n).name) keep_name(n, text);
  }

  const Rewrite& rewrite_;
  Graph& g_;
  const Context& context_;
  Index index_;
  const std::vector<Pattern> patterns_;
  Tally tally_;
};

// One round of any pass, without checks.
Result<Tally> once(const Pass& pass, Graph& g, const Context& context) {
  if (const auto* const* rewrite = std::get_if<const Rewrite*>(&pass))
    return Sweep(**rewrite, g, context).run();
  return std::get<const GraphPass*>(pass)->run(g, context);
}

bool has_untyped_values(const Graph& g) {
  for (ValueId v = 0; v < g.value_count(); ++v)
    if (!g.value(v).has_type) return true;
  return false;
}

}  // namespace

Result<Tally> run(const Pass& pass, Graph& g, const Context& context) {
  Graph before;
  if (context.after_pass) before = g;
  Tally total;
  for (int round = 0; round < kMostRounds; ++round) {
    FOLD8_TRY(Tally tally, once(pass, g, context));
    total.applied += tally.applied;
    total.declined = std::move(tally.declined);
    if (tally.applied == 0) {
      if (total.applied > 0 && context.after_pass)
        FOLD8_CHECK_OK(context.after_pass(before, g, name(pass)));
      return total;
    }
    FOLD8_CHECK_OK(g.compact());
    const Status verified = graph::verify(g);
    if (!verified.ok())
      return internal_error("pass " + std::string(name(pass)) +
                            " left a bad graph: " + verified.error().message);
    if (has_untyped_values(g)) FOLD8_CHECK_OK(exec::infer_types(g));
  }
  return internal_error("pass " + std::string(name(pass)) + " does not come to an end");
}

Result<Tally> run(const Stage& stage, Graph& g, const Context& context) {
  if (has_untyped_values(g)) FOLD8_CHECK_OK(exec::infer_types(g));
  FOLD8_CHECK_OK(g.compact());
  Tally total;
  for (int round = 0; round < kMostRounds; ++round) {
    int applied = 0;
    std::vector<Declined> declined;
    for (const Pass& pass : stage.passes) {
      FOLD8_TRY(Tally tally, run(pass, g, context));
      applied += tally.applied;
      for (Declined& d : tally.declined) add_once(declined, std::move(d));
    }
    total.applied += applied;
    total.declined = std::move(declined);
    if (applied == 0) return total;
  }
  return internal_error("stage " + std::string(stage.name) + " does not come to an end");
}

}  // namespace fold8::fusion
