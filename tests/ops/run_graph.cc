#include "tests/ops/run_graph.h"

#include <random>

namespace fold8::ops {
namespace {

using graph::Graph;
using graph::kNoValue;
using graph::Node;
using graph::ValueId;

struct Fact {
  TensorType type;
  std::optional<KnownInts> ints;
  std::shared_ptr<Buffer> data;  // null while only inferring
  const void* bytes = nullptr;
};

Status infer_node(const Graph& g, const Node& n, std::vector<Fact>& facts) {
  InferContext c;
  for (ValueId v : n.inputs) {
    InferContext::Operand o;
    if (v != kNoValue) {
      Fact& f = facts[static_cast<std::size_t>(v)];
      o.type = &f.type;
      o.ints = f.ints ? &*f.ints : nullptr;
      o.constant = g.is_constant(v) ? f.bytes : nullptr;
    }
    c.inputs.push_back(o);
  }
  for (ValueId v : n.outputs) {
    InferContext::Output o;
    o.wanted = v != kNoValue;
    if (o.wanted && g.value(v).has_type) {
      o.type = g.type(v);
      o.typed = true;
    }
    c.outputs.push_back(o);
  }
  FOLD8_CHECK_OK(infer(n.op, c));
  for (std::size_t i = 0; i < n.outputs.size(); ++i) {
    if (n.outputs[i] == kNoValue) continue;
    Fact& f = facts[static_cast<std::size_t>(n.outputs[i])];
    f.type = c.outputs[i].bound ? c.outputs[i].type : c.outputs[i].type;
    if (c.outputs[i].bound) f.type.shape = *c.outputs[i].bound;
    f.ints = c.outputs[i].ints;
  }
  return ok_status();
}

Status run_node(const Node& n, std::vector<Fact>& facts, const RunOptions& options,
                ThreadPool& pool) {
  PrepareContext c;
  c.kernels = options.kernels;
  c.threads = options.threads;
  std::vector<void*> inputs, outputs;
  for (ValueId v : n.inputs) {
    PrepareContext::Operand o;
    void* data = nullptr;
    if (v != kNoValue) {
      Fact& f = facts[static_cast<std::size_t>(v)];
      o.type = &f.type;
      o.ints = f.ints ? &*f.ints : nullptr;
      o.constant = f.data == nullptr ? f.bytes : nullptr;
      data = const_cast<void*>(f.bytes);
    }
    c.inputs.push_back(o);
    inputs.push_back(data);
  }
  for (ValueId v : n.outputs) {
    PrepareContext::Operand o;
    void* data = nullptr;
    if (v != kNoValue) {
      Fact& f = facts[static_cast<std::size_t>(v)];
      f.data =
          Buffer::allocate(static_cast<std::size_t>(f.type.shape.count()) * size_of(f.type.dtype));
      f.bytes = data = f.data->mutable_data();
      o.type = &f.type;
    }
    c.outputs.push_back(o);
    outputs.push_back(data);
  }
  FOLD8_TRY(const auto step, prepare(n.op, c));
  auto scratch = Buffer::allocate(step->scratch_bytes());
  std::vector<std::optional<Shape>> shapes(outputs.size());
  RunContext run{inputs, outputs, scratch->mutable_data(), &pool, {}, shapes};
  FOLD8_CHECK_OK(step->run(run));
  for (std::size_t i = 0; i < shapes.size(); ++i)
    if (shapes[i]) facts[static_cast<std::size_t>(n.outputs[i])].type.shape = *shapes[i];
  return ok_status();
}

std::vector<Fact> initial(const Graph& g) {
  std::vector<Fact> facts(static_cast<std::size_t>(g.value_count()));
  for (ValueId v = 0; v < g.value_count(); ++v) {
    Fact& f = facts[static_cast<std::size_t>(v)];
    f.type = g.type(v);
    if (g.is_constant(v)) f.bytes = g.value(v).constant->data();
  }
  return facts;
}

Result<std::vector<graph::NodeId>> parsed(const std::string& text, Graph& g) {
  FOLD8_TRY(g, graph::parse(text));
  return g.topological_order();
}

}  // namespace

Result<std::vector<Evaluated>> run_graph(const Graph& g, const std::vector<Evaluated>& inputs,
                                         RunOptions options) {
  if (options.kernels == nullptr) {
    FOLD8_TRY(const kernels::Target* target, kernels::select_target());
    options.kernels = target->kernels;
  }
  ThreadPool pool(options.threads);
  std::vector<Fact> facts = initial(g);
  for (std::size_t i = 0; i < g.inputs.size(); ++i) {
    Fact& f = facts[static_cast<std::size_t>(g.inputs[i])];
    f.type.shape = inputs.at(i).type.shape;
    f.data = inputs.at(i).data;
    f.bytes = f.data->data();
    if (f.type.dtype != inputs.at(i).type.dtype)
      return invalid_argument("test: input " + std::to_string(i) + " has another dtype");
  }
  FOLD8_TRY(const auto order, g.topological_order());
  for (graph::NodeId n : order) {
    FOLD8_CHECK_OK(infer_node(g, g.node(n), facts));
    FOLD8_CHECK_OK(run_node(g.node(n), facts, options, pool));
  }
  std::vector<Evaluated> out;
  for (ValueId v : g.outputs)
    out.push_back(
        {facts[static_cast<std::size_t>(v)].type, facts[static_cast<std::size_t>(v)].data});
  return out;
}

Result<std::vector<Evaluated>> run_text(const std::string& text,
                                        const std::vector<Evaluated>& inputs, RunOptions options) {
  FOLD8_TRY(const Graph g, graph::parse(text));
  return run_graph(g, inputs, options);
}

Evaluated run_one(const std::string& text, const std::vector<Evaluated>& inputs,
                  RunOptions options) {
  auto r = run_text(text, inputs, options);
  if (r.ok()) return r->at(0);
  ADD_FAILURE() << text << "\n" << r.error().message;
  return value<float>(Shape{Dim(0)}, {});
}

std::string failure(const std::string& text, const std::vector<Evaluated>& inputs) {
  const auto r = run_text(text, inputs);
  return r.ok() ? "" : r.error().message;
}

std::string inferred(const std::string& text) {
  Graph g;
  const auto order = parsed(text, g);
  if (!order.ok()) return order.error().message;
  std::vector<Fact> facts = initial(g);
  for (graph::NodeId n : *order)
    if (const Status s = infer_node(g, g.node(n), facts); !s.ok()) return s.error().message;
  std::string out;
  for (ValueId v : g.outputs) {
    const Fact& f = facts[static_cast<std::size_t>(v)];
    out += (out.empty() ? "" : " ") + std::string(name(f.type.dtype)) +
           to_string(f.type.shape, g.symbols);
    if (!f.ints) continue;
    Shape elements;
    for (std::size_t i = 0; i < std::min<std::size_t>(f.ints->values.size(), 8); ++i)
      elements.push_back(f.ints->values[i]);
    out += "=" + to_string(elements, g.symbols);
  }
  return out;
}

Evaluated booleans(const Shape& shape, const std::vector<int>& elements) {
  Evaluated v = value(shape, std::vector<std::uint8_t>(elements.begin(), elements.end()));
  v.type.dtype = DType::boolean;
  return v;
}

Evaluated random_f32(const Shape& shape, std::uint64_t seed, float scale) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> x(static_cast<std::size_t>(shape.count()));
  for (float& e : x) e = normal(engine);
  return value(shape, x);
}

Evaluated random_u8(const Shape& shape, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::vector<std::uint8_t> x(static_cast<std::size_t>(shape.count()));
  for (auto& e : x) e = static_cast<std::uint8_t>(engine());
  return value(shape, x);
}

namespace {

Evaluated reordered(const Evaluated& v, bool to_last) {
  Evaluated r{v.type, Buffer::allocate(v.data->size())};
  r.type.layout = to_last ? Layout::channels_last : Layout::plain;
  const Shape& s = v.type.shape;
  const auto n = static_cast<std::size_t>(s.extent(0)), c = static_cast<std::size_t>(s.extent(1)),
             size = size_of(v.type.dtype);
  const auto p = static_cast<std::size_t>(s.count(2, s.rank()));
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < c; ++j)
      for (std::size_t k = 0; k < p; ++k) {
        const std::size_t first = (i * c + j) * p + k, last = (i * p + k) * c + j;
        std::memcpy(r.data->mutable_data() + (to_last ? last : first) * size,
                    v.data->data() + (to_last ? first : last) * size, size);
      }
  return r;
}

}  // namespace

Evaluated channels_last(const Evaluated& v) { return reordered(v, true); }
Evaluated plain(const Evaluated& v) {
  return v.type.layout == Layout::plain ? v : reordered(v, false);
}

std::vector<const kernels::Target*> runnable_targets() {
  std::vector<const kernels::Target*> t;
  for (const kernels::Target& target : kernels::targets())
    if (target.cpu_can_run()) t.push_back(&target);
  return t;
}

}  // namespace fold8::ops
