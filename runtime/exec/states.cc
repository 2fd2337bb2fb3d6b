#include "runtime/exec/states.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "runtime/exec/appended.h"

namespace fold8::exec {
namespace {

std::size_t at(graph::ValueId v) { return static_cast<std::size_t>(v); }

std::string quoted(const graph::Graph& g, graph::ValueId v) { return "'" + g.value(v).name + "'"; }

// Axes whose extents nothing but the state itself can tell.
std::vector<int> open_axes(const graph::Graph& g, graph::ValueId output, graph::ValueId input) {
  const Shape &in = g.type(input).shape, &out = g.type(output).shape;
  std::vector<int> axes;
  for (int a = 0; a < in.rank(); ++a)
    if (!in[a].known() && !same(in[a], out[a])) axes.push_back(a);
  return axes;
}

// Rows [0, n) of the growing axis of a dense tensor that has `from` of them, to one that has `to`.
void copy_rows(const Shape& shape, int axis, std::size_t element, const std::byte* x,
               std::int64_t from, std::byte* y, std::int64_t to, std::int64_t n) {
  const auto outer = static_cast<std::size_t>(shape.count(0, axis));
  const std::size_t row = static_cast<std::size_t>(shape.count(axis + 1, shape.rank())) * element;
  for (std::size_t o = 0; o < outer; ++o)
    std::memmove(y + o * static_cast<std::size_t>(to) * row,
                 x + o * static_cast<std::size_t>(from) * row, static_cast<std::size_t>(n) * row);
}

// With room for the capacity; nullopt: too many.
std::optional<std::size_t> bytes_for(const State& s, DType dtype) {
  Shape shape = s.shape;
  if (s.axis >= 0) shape[s.axis] = Dim(std::max(s.capacity, s.length()));
  const auto elements = shape.elements();
  std::size_t bytes = 0;
  if (!elements ||
      __builtin_mul_overflow(static_cast<std::size_t>(*elements), size_of(dtype), &bytes))
    return std::nullopt;
  return bytes;
}

std::size_t made_bytes(const graph::Graph& g, const State& s) {
  return ops::append_bytes(g.node(s.keeper).op, s.append, s.shape, s.capacity);
}

// Rows `capacity` from one head to the next, as the plans have them from now on.
void spread_rows(const graph::Graph& g, State& s) {
  const DType dtype = g.type(s.input).dtype;
  Arena to;
  to.reserve(bytes_for(s, dtype).value());
  copy_rows(s.shape, s.axis, size_of(dtype), s.now.data(), s.stride, to.data(), s.capacity,
            s.length());
  s.now = std::move(to);
  s.stride = s.capacity;
  s.ready = 0;
}

}  // namespace

Status States::add(const GraphInfo& info, graph::ValueId output, graph::ValueId input,
                   std::int64_t capacity, bool in_place) {
  const graph::Graph& g = info.g;
  const std::string what = "state " + quoted(g, output) + " = " + quoted(g, input);
  const TensorType &in = g.type(input), &out = g.type(output);
  for (const State& s : states_)
    if (s.output == output || s.input == input)
      return invalid_argument(what + ": one of them is a state already");
  if (in.dtype != out.dtype || in.shape.rank() != out.shape.rank() || in.layout != Layout::plain ||
      out.layout != Layout::plain || in.quant != out.quant)
    return invalid_argument(what + ": the output is " + std::string(name(out.dtype)) +
                            to_string(out.shape, g.symbols) + ", the input " +
                            std::string(name(in.dtype)) + to_string(in.shape, g.symbols));
  State s;
  s.output = output;
  s.input = input;
  s.input_index = static_cast<std::size_t>(std::find(g.inputs.begin(), g.inputs.end(), input) -
                                           g.inputs.begin());
  if (const auto how = find_appended(info, output, input)) {
    s.axis = how->axis;
    if (in_place && how->in_place) s.keeper = how->node;
    s.append = how->index;
  }
  if (s.axis < 0) {
    const std::vector<int> open = open_axes(g, output, input);
    if (open.size() > 1)
      return invalid_argument(what + ": cannot tell which axis of " +
                              to_string(in.shape, g.symbols) +
                              " grows: name the others, or give them numbers, in the model");
    if (open.size() == 1) s.axis = open[0];
  }
  for (int a = 0; a < in.shape.rank(); ++a)
    if (a != s.axis && differ(in.shape[a], out.shape[a]))
      return invalid_argument(what + ": the output is " + to_string(out.shape, g.symbols) +
                              ", which can never be the input " + to_string(in.shape, g.symbols) +
                              " of the next run");
  s.capacity = capacity > 0 ? capacity : kFirstCapacity;
  states_.push_back(std::move(s));
  return ok_status();
}

const State* States::of_output(graph::ValueId v) const {
  for (const State& s : states_)
    if (s.output == v) return &s;
  return nullptr;
}

bool States::in_place(graph::ValueId v) const {
  return std::any_of(states_.begin(), states_.end(), [&](const State& s) {
    return s.in_place() && (s.input == v || s.output == v);
  });
}

void States::separate(const graph::Graph& g) {
  for (State& s : states_) {
    if (!s.in_place()) continue;
    if (s.started) {
      const std::size_t element = size_of(g.type(s.input).dtype);
      copy_rows(s.shape, s.axis, element, s.now.data(), s.stride, s.now.data(), s.length(),
                s.length());
    }
    s.keeper = graph::kNoNode;
    s.made = Arena();
  }
}

void States::find_places(const graph::Graph& g, graph::NodeId n,
                         std::vector<ops::AppendPlace>& places) const {
  places.clear();
  for (const State& s : states_) {
    if (s.keeper != n) continue;
    if (places.empty())
      places.resize(ops::appends(g.node(n).op, g.type(s.input).shape.rank()).size());
    places[s.append] = {s.now.data(), static_cast<std::size_t>(s.stride), s.made.data(),
                        static_cast<std::size_t>(s.ready)};
  }
}

Status States::bind(const graph::Graph& g, std::span<const std::int64_t> symbols,
                    std::span<TensorView> views, std::size_t memory_limit) {
  std::size_t all = 0;
  for (State& s : states_) {
    const TensorType& t = g.type(s.input);
    if (!s.started) {
      Shape shape = t.shape;
      for (int a = 0; a < shape.rank(); ++a) {
        if (a == s.axis) {
          shape[a] = Dim(0);
        } else if (shape[a].is_symbol() &&
                   symbols[static_cast<std::size_t>(shape[a].symbol_id())] >= 0) {
          shape[a] = Dim(symbols[static_cast<std::size_t>(shape[a].symbol_id())]);
        } else if (!shape[a].known()) {
          return invalid_argument("state " + quoted(g, s.input) + ": axis " + std::to_string(a) +
                                  " of " + to_string(t.shape, g.symbols) +
                                  " has no extent, and no other input tells it");
        }
      }
      s.shape = shape;
      const auto bytes = bytes_for(s, t.dtype);
      const std::size_t blocks = s.in_place() ? 1 : 2;
      if (!bytes || *bytes > memory_limit / blocks || (all += *bytes * blocks) > memory_limit)
        return invalid_argument("state " + quoted(g, s.input) + " with a capacity of " +
                                std::to_string(s.capacity) + ", " + to_string(t.shape, g.symbols) +
                                ": the states need more memory than the limit of " +
                                std::to_string((memory_limit >> 20) + 1) +
                                " MB; give a smaller capacity");
      s.started = true;
      s.stride = s.capacity;
      s.ready = 0;
      std::memset(s.now.reserve(*bytes), 0, s.axis < 0 ? *bytes : 0);
    }
    views[s.input_index] = {t.dtype, s.shape, s.now.data(), Layout::plain};
  }
  return ok_status();
}

void States::set_capacities(std::vector<Shape>& key) const {
  for (const State& s : states_)
    if (s.axis >= 0) key[s.input_index][s.axis] = Dim(s.capacity);
}

bool States::make_room(const Plan& plan) {
  bool enough = true;
  for (State& s : states_) {
    if (s.axis < 0 || !plan.facts[s.output].type.shape.known()) continue;
    const std::int64_t needed = plan.facts[s.output].type.shape.extent(s.axis);
    if (needed <= s.capacity) continue;
    s.capacity = std::max(2 * s.capacity, needed);
    enough = false;
  }
  return enough;
}

void States::place(const graph::Graph& g, Plan& plan) {
  for (State& s : states_) {
    if (s.in_place()) {
      if (s.stride != s.capacity) spread_rows(g, s);
      s.made.reserve(made_bytes(g, s));
      plan.data[at(s.output)] = s.now.data();
    } else {
      s.next.reserve(bytes_for(s, plan.facts[s.input].type.dtype).value());
    }
    plan.data[at(s.input)] = s.now.data();
  }
}

void States::redirect(Plan& plan, Segment& segment) const {
  if (!segment.kept_known) {
    for (const auto& placed : segment.placed)
      if (of_output(placed.first) != nullptr && !plan.dynamic[at(placed.first)])
        segment.kept.push_back(placed.first);
    segment.kept_known = true;
  }
  for (graph::ValueId v : segment.kept) {
    const State& s = *of_output(v);
    if (plan.facts[v].bytes.value_or(SIZE_MAX) <= s.next.bytes())
      plan.data[at(v)] = const_cast<std::byte*>(s.next.data());
  }
}

Status States::check(const graph::Graph& g, const Plan& plan) const {
  for (const State& s : states_) {
    const Shape &declared = g.type(s.input).shape, &made = plan.facts[s.output].type.shape;
    for (int a = 0; a < declared.rank(); ++a)
      if (a != s.axis && differ(declared[a], made[a]))
        return invalid_argument("state " + quoted(g, s.output) + " = " + quoted(g, s.input) +
                                ": the output is " + to_string(made) +
                                ", which cannot be the input " + to_string(declared, g.symbols) +
                                " of the next run");
  }
  return ok_status();
}

void States::keep(const Plan& plan) {
  for (State& s : states_) {
    const TensorType& t = plan.facts[s.output].type;
    if (s.in_place()) {
      s.shape = t.shape;
      s.ready = s.length();
      continue;
    }
    const std::size_t bytes = static_cast<std::size_t>(t.shape.count()) * size_of(t.dtype);
    const void* from = plan.data[at(s.output)];
    s.shape = t.shape;
    if (s.axis >= 0) s.capacity = std::max(s.capacity, s.length());
    if (from != s.next.data()) {
      std::byte* to = s.next.reserve(std::max(bytes, bytes_for(s, t.dtype).value()));
      if (bytes > 0) std::memcpy(to, from, bytes);
    }
  }
  for (State& s : states_)  // an input may have been an output as it is
    if (!s.in_place()) std::swap(s.now, s.next);
}

void States::reset() {
  for (State& s : states_) s.started = false;
}

Status States::truncate(const graph::Graph& g, std::int64_t length) {
  for (const State& s : states_)
    if (s.axis >= 0 && (length < 0 || length > s.length()))
      return invalid_argument("state " + quoted(g, s.input) + " has length " +
                              std::to_string(s.length()) + ", it cannot be cut to " +
                              std::to_string(length));
  for (State& s : states_) {
    if (s.axis < 0 || !s.started) continue;
    if (s.in_place())
      s.ready = std::min(s.ready, length);
    else
      copy_rows(s.shape, s.axis, size_of(g.type(s.input).dtype), s.now.data(), s.length(),
                s.now.data(), length, length);
    s.shape[s.axis] = Dim(length);
  }
  return ok_status();
}

Tensor States::copy(const graph::Graph& g, const State& s, std::int64_t rows) const {
  Shape shape = s.shape;
  if (s.axis >= 0) shape[s.axis] = Dim(rows);
  Tensor t(g.type(s.input).dtype, shape);
  auto* to = static_cast<std::byte*>(t.view().data);
  if (s.axis < 0)
    std::memcpy(to, s.now.data(), t.bytes());
  else
    copy_rows(s.shape, s.axis, size_of(t.dtype()), s.now.data(),
              s.in_place() ? s.stride : s.length(), to, rows, rows);
  return t;
}

}  // namespace fold8::exec
