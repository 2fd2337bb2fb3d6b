#include "runtime/exec/states.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace fold8::exec {
namespace {

std::size_t at(graph::ValueId v) { return static_cast<std::size_t>(v); }

std::string quoted(const graph::Graph& g, graph::ValueId v) { return "'" + g.value(v).name + "'"; }

// The axis along which the node that makes `output` puts something behind `input`; -1: it does not.
int appended_axis(const GraphInfo& info, graph::ValueId output, graph::ValueId input) {
  const int p = info.made_at[at(output)];
  if (p < 0) return -1;
  const graph::Node& n = info.g.node(info.order[static_cast<std::size_t>(p)]);
  const auto* concat = std::get_if<graph::Concat>(&n.op);
  if (concat == nullptr || n.inputs.empty() || n.inputs[0] != input) return -1;
  return normalize_axis(concat->axis, info.g.type(input).shape.rank()).value_or(-1);
}

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

std::size_t bytes_for(const State& s, DType dtype) {
  Shape shape = s.shape;
  if (s.axis >= 0) shape[s.axis] = Dim(std::max(s.capacity, s.length()));
  return static_cast<std::size_t>(shape.count()) * size_of(dtype);
}

}  // namespace

Status States::add(const GraphInfo& info, graph::ValueId output, graph::ValueId input,
                   std::int64_t capacity) {
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
  s.axis = appended_axis(info, output, input);
  if (s.axis < 0) {
    const std::vector<int> open = open_axes(g, output, input);
    if (open.size() > 1)
      return invalid_argument(what + ": cannot tell which axis of " +
                              to_string(in.shape, g.symbols) +
                              " grows: name the others, or give them numbers, in the model");
    if (open.size() == 1) s.axis = open[0];
  }
  s.capacity = capacity > 0 ? capacity : kFirstCapacity;
  states_.push_back(std::move(s));
  return ok_status();
}

const State* States::of_output(graph::ValueId v) const {
  for (const State& s : states_)
    if (s.output == v) return &s;
  return nullptr;
}

Status States::bind(const graph::Graph& g, std::span<const std::int64_t> symbols,
                    std::span<TensorView> views) {
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
      s.started = true;
      const std::size_t bytes = bytes_for(s, t.dtype);
      std::memset(s.now.reserve(bytes), 0, s.axis < 0 ? bytes : 0);
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

void States::place(Plan& plan) {
  for (State& s : states_) {
    const DType dtype = plan.facts[s.input].type.dtype;
    plan.data[at(s.input)] = s.now.data();
    s.next.reserve(bytes_for(s, dtype));
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

void States::keep(const Plan& plan) {
  for (State& s : states_) {
    const TensorType& t = plan.facts[s.output].type;
    const std::size_t bytes = static_cast<std::size_t>(t.shape.count()) * size_of(t.dtype);
    const void* from = plan.data[at(s.output)];
    s.shape = t.shape;
    if (s.axis >= 0) s.capacity = std::max(s.capacity, s.length());
    if (from != s.next.data()) {
      std::byte* to = s.next.reserve(std::max(bytes, bytes_for(s, t.dtype)));
      if (bytes > 0) std::memcpy(to, from, bytes);
    }
  }
  for (State& s : states_) std::swap(s.now, s.next);  // an input may have been an output as it is
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
    copy_rows(s.shape, s.axis, size_of(g.type(s.input).dtype), s.now.data(), s.length(),
              s.now.data(), length, length);
    s.shape[s.axis] = Dim(length);
  }
  return ok_status();
}

TensorView States::view(const graph::Graph& g, std::size_t i) const {
  const State& s = states_[i];
  if (!s.started) return {};
  return {g.type(s.input).dtype, s.shape, const_cast<std::byte*>(s.now.data()), Layout::plain};
}

namespace {

// What each '*' of the pattern matched, or nothing: shortest runs first.
bool match(std::string_view pattern, std::string_view text, std::vector<std::string_view>& stars) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (text.substr(0, star) != pattern.substr(0, star)) return false;
  text.remove_prefix(star);
  for (std::size_t n = 0; n <= text.size(); ++n) {
    stars.push_back(text.substr(0, n));
    if (match(pattern.substr(star + 1), text.substr(n), stars)) return true;
    stars.pop_back();
  }
  return false;
}

}  // namespace

Result<std::vector<std::pair<graph::ValueId, graph::ValueId>>> match_states(
    const graph::Graph& g, const std::string& output, const std::string& input) {
  constexpr std::ptrdiff_t kMostStars = 3;  // the time of a match is a power of it
  const auto stars_of = [](const std::string& s) { return std::count(s.begin(), s.end(), '*'); };
  const std::string what = "state " + output + "=" + input + ": ";
  if (stars_of(output) != stars_of(input) || stars_of(output) > kMostStars)
    return invalid_argument(what + "both names need the same number of '*', at most 3");
  std::vector<std::pair<graph::ValueId, graph::ValueId>> pairs;
  for (graph::ValueId v : g.outputs) {
    std::vector<std::string_view> stars;
    if (!match(output, g.value(v).name, stars)) continue;
    std::string wanted;
    std::size_t next = 0;
    for (char c : input)
      if (c == '*')
        wanted += stars[next++];
      else
        wanted += c;
    const graph::ValueId in = g.find_value(wanted);
    if (in == graph::kNoValue || !g.is_input(in))
      return invalid_argument(what + "the model has no input '" + wanted + "' for its output '" +
                              g.value(v).name + "'");
    pairs.emplace_back(v, in);
  }
  if (pairs.empty()) return invalid_argument(what + "no output of the model is named so");
  return pairs;
}

}  // namespace fold8::exec
