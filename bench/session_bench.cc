// What a service pays around the kernels: loading, planning a new shape, a step, a thread.
//
//   session_bench load MODEL.f8
//       from the file to a session, and the first runs
//   session_bench plan MODEL.f8 x=1x3x48x{160:640:8}
//       CPU time a new shape costs beyond its run
//   session_bench steps
//       CPU time a step costs beyond its arithmetic
//   session_bench states MODEL.f8 present.*=past.* 200
//       CPU time a token of a decoder costs beyond its steps
//   session_bench decode MODEL.f8 present.*=past.* 128 128
//       CPU time of a prompt of 128 tokens and of each of 128 behind it
//   session_bench threads MODEL.f8 [x=1x3x48x320]
//       two sessions, and one session of two threads, against two loops in registers
//
// Extents in braces are ranges FIRST:LAST:STEP, varied together; unknown ones are 1 by default.
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "bench/int8_peak.h"
#include "bench/need.h"
#include "runtime/exec/executor.h"
#include "runtime/exec/session.h"
#include "runtime/graph/text.h"

namespace fold8::bench {
namespace {

using Clock = std::chrono::steady_clock;
using ModelPtr = std::shared_ptr<const exec::Model>;
using Inputs = std::vector<Tensor>;

double wall_us() {
  return std::chrono::duration<double, std::micro>(Clock::now().time_since_epoch()).count();
}

double cpu_us() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0 : v[v.size() / 2];
}

std::unique_ptr<exec::Session> session_of(const ModelPtr& model, int threads = 1) {
  exec::SessionOptions options;
  options.threads = threads;
  return need(exec::Session::create(model, options));
}

void run(exec::Session& s, const Inputs& inputs) {
  std::vector<TensorView> views;
  for (const Tensor& t : inputs) views.push_back(t.view());
  if (const auto status = s.run(views); !status.ok()) stop(status.error().message);
}

// ---------------------------------------------------------------- shapes from the command line

struct Range {
  std::int64_t first = 1, last = 1, step = 1;
};

// "1x3x48x{160:640:8}" -> one range an axis.
std::vector<Range> parse_ranges(const std::string& text) {
  std::vector<Range> axes;
  const char* p = text.c_str();
  while (*p != 0) {
    Range r;
    char* end = nullptr;
    const bool range = *p == '{';
    r.first = r.last = std::strtoll(p + (range ? 1 : 0), &end, 10);
    if (range) {
      if (*end == ':') r.last = std::strtoll(end + 1, &end, 10);
      if (*end == ':') r.step = std::strtoll(end + 1, &end, 10);
      if (*end++ != '}' || r.step <= 0) stop("bad range in " + text);
    }
    axes.push_back(r);
    if (*end != 0 && *end != 'x') stop("bad shape " + text);
    p = *end == 'x' ? end + 1 : end;
  }
  return axes;
}

using Shapes = std::map<std::string, std::vector<Range>>;

Shapes parse_shapes(int argc, char** argv) {
  Shapes shapes;
  for (int i = 3; i < argc; ++i) {
    const char* equals = std::strchr(argv[i], '=');
    if (equals == nullptr) stop(std::string("expected NAME=SHAPE, got ") + argv[i]);
    shapes[std::string(argv[i], static_cast<std::size_t>(equals - argv[i]))] =
        parse_ranges(equals + 1);
  }
  return shapes;
}

// The inputs of turn t, largest shapes first; empty behind the last turn.
Inputs inputs_of(const graph::Graph& g, const Shapes& shapes, std::int64_t turn) {
  Inputs inputs;
  for (const graph::ValueId v : g.inputs) {
    Shape shape = g.type(v).shape;
    const auto given = shapes.find(g.value(v).name);
    for (int a = 0; a < shape.rank(); ++a) {
      if (given != shapes.end() && a < static_cast<int>(given->second.size())) {
        const Range& r = given->second[static_cast<std::size_t>(a)];
        const std::int64_t extent = r.last - turn * (r.last > r.first ? r.step : 0);
        if (extent < r.first) return {};
        shape[a] = Dim(extent);
      } else if (!shape[a].known()) {
        shape[a] = Dim(1);
      }
    }
    Tensor t(g.type(v).dtype, shape);
    if (t.dtype() == DType::f32)
      for (std::size_t i = 0; float& x : t.as<float>())
        x = static_cast<float>(i++ * 2654435761u % 2048) / 1024 - 1;
    if (t.dtype() == DType::s64)
      for (std::int64_t& x : t.as<std::int64_t>()) x = 1;
    inputs.push_back(std::move(t));
  }
  return inputs;
}

// ---------------------------------------------------------------- the measurements

void bench_load(const char* path, const Shapes& shapes) {
  std::vector<double> load, create, first, warm;
  for (int i = 0; i < 21; ++i) {
    const double a = cpu_us();
    const ModelPtr model = need(exec::Model::load(path));
    const double b = cpu_us();
    auto session = session_of(model);
    const double c = cpu_us();
    const Inputs inputs = inputs_of(model->graph(), shapes, 0);
    const double d = cpu_us();
    run(*session, inputs);
    const double e = cpu_us();
    run(*session, inputs);
    run(*session, inputs);
    const double f = cpu_us();
    run(*session, inputs);
    warm.push_back(cpu_us() - f);
    load.push_back(b - a);
    create.push_back(c - b);
    first.push_back(e - d);
  }
  const double w = median(warm), r = median(first);
  std::printf(
      "%s: load %.0f us (first %.0f), session %.0f us, first run %.0f us, warm run %.0f us; "
      "first - 1.5 warm = %.2f ms (CPU, median of 21)\n",
      path, median(load), load[0], median(create), r, w, (r - 1.5 * w) / 1e3);
}

// The functions that plan, alone, with the caches as a run left them.
double planning_us(const ModelPtr& model, const exec::GraphInfo& info, const Inputs& inputs) {
  ThreadPool pool(1);
  exec::ControlSteps controls;
  exec::PlanOptions options;
  options.kernels = model->target().kernels;
  options.pool = &pool;
  options.controls = &controls;
  options.memory_limit = exec::default_memory_limit();
  std::vector<Shape> shapes;
  for (const Tensor& t : inputs) shapes.push_back(t.shape());
  const double start = cpu_us();
  const auto plan = exec::start_plan(info, std::move(shapes));
  const auto bound = exec::bind_next_segment(info, options, *plan);
  const double took = cpu_us() - start;
  if (!bound.ok()) stop(bound.error().message);
  return took;
}

void bench_plan(const char* path, const Shapes& shapes) {
  const ModelPtr model = need(exec::Model::load(path));
  auto session = session_of(model);
  const exec::GraphInfo info(model->graph(), model->order());
  std::vector<Inputs> turns;
  for (std::int64_t t = 0; turns.size() < 60; ++t) {
    Inputs in = inputs_of(model->graph(), shapes, t);
    if (in.empty() || (shapes.empty() && t > 0)) break;
    turns.push_back(std::move(in));
  }
  std::vector<double> alone, fresh, seen;
  const auto timed_run = [&](const Inputs& inputs) {
    const double start = cpu_us();
    run(*session, inputs);
    return cpu_us() - start;
  };
  run(*session, turns[0]);             // the largest: memory is there from now on
  planning_us(model, info, turns[0]);  // reads every constant
  for (std::size_t t = 1; t < turns.size(); ++t) {
    alone.push_back(planning_us(model, info, turns[t]));
    run(*session, turns[t - 1]);
    const double first = timed_run(turns[t]);
    run(*session, turns[t - 1]);
    const double second = timed_run(turns[t]);  // as the first, but the plan is there
    double best = timed_run(turns[t]);
    for (int i = 0; i < 4; ++i) best = std::min(best, timed_run(turns[t]));
    fresh.push_back(first - second);
    seen.push_back(second - best);
  }
  const double nodes = static_cast<double>(model->order().size());
  std::printf(
      "%s: %.0f nodes, %zu shapes: planning takes %.0f us, min %.0f (%.0f, %.0f per 100 nodes); "
      "the first run of a shape takes %.0f us more than one of a seen shape, that %.0f us "
      "more than the same shape again (medians of CPU time)\n",
      path, nodes, turns.size(), median(alone), *std::min_element(alone.begin(), alone.end()),
      median(alone) / nodes * 100, *std::min_element(alone.begin(), alone.end()) / nodes * 100,
      median(fresh), median(seen));
}

using Session = std::unique_ptr<exec::Session>;

// A session that keeps "OUT=IN" with room for `capacity` rows.
Session decoder_of(const ModelPtr& model, const std::string& states, int capacity) {
  Session session = session_of(model);
  const std::size_t equals = states.find('=');
  if (equals == std::string::npos) stop("expected OUT=IN, got " + states);
  const auto added =
      session->add_state(states.substr(0, equals), states.substr(equals + 1), capacity);
  if (!added.ok()) stop(added.error().message);
  return session;
}

// Inputs of tokens [first, first + count): integers hold the position, which is a token's number as
// good as another; states stay empty.
struct Tokens {
  Inputs inputs;
  std::vector<TensorView> views;

  Tokens(const exec::Session& session, int first, int count) {
    const graph::Graph& g = session.model().graph();
    for (std::size_t k = 0; k < g.inputs.size(); ++k) {
      const TensorType& t = g.type(g.inputs[k]);
      Shape shape = t.shape;
      for (int a = 0; a < shape.rank(); ++a)
        if (!shape[a].known()) shape[a] = Dim(session.is_state(k) ? 0 : count);
      inputs.emplace_back(t.dtype, shape);
      if (t.dtype == DType::s64)
        for (std::int64_t i = 0; std::int64_t & x : inputs.back().as<std::int64_t>())
          x = first + i++;
      views.push_back(session.is_state(k) ? TensorView{} : inputs.back().view());
    }
  }
};

// Single tokens through a decoder whose outputs named OUT are inputs named IN: what a run costs
// beyond its steps, plans and copies of the bookkeeping included.
void bench_states(const char* path, const char* states, const char* tokens) {
  const ModelPtr model = need(exec::Model::load(path));
  const int count = std::atoi(tokens);
  const Session session = decoder_of(model, states, count + 1);
  session->enable_profile(true);
  std::vector<double> whole, beyond;
  std::map<std::string, std::vector<double>> by_operator;
  for (int i = 0; i < count; ++i) {
    const Tokens token(*session, i, 1);
    const double start = cpu_us(), begin = wall_us();  // steps are timed by the wall
    if (const auto ran = session->run(token.views); !ran.ok()) stop(ran.error().message);
    const double wall = wall_us() - begin, took = cpu_us() - start;
    double steps = 0;
    std::map<std::string, double> sums;
    for (const auto& step : session->profile()) {
      steps += step.microseconds;
      sums[step.op] += step.microseconds;
    }
    if (count - i <= 50)
      for (const auto& [op, us] : sums) by_operator[op].push_back(us);
    whole.push_back(took);
    beyond.push_back(wall - steps);
  }
  std::printf(
      "%s: %zu states, %d tokens, %zu plans: a token takes %.0f us, the last ones %.0f, %.0f of "
      "them not in steps (medians)\n",
      path, session->state_count(), count, session->plans_made(), median(whole),
      median({whole.end() - std::min<std::ptrdiff_t>(50, count), whole.end()}),
      median({beyond.end() - std::min<std::ptrdiff_t>(50, count), beyond.end()}));
  for (const auto& [op, us] : by_operator) std::printf("  %s %.0f us\n", op.c_str(), median(us));
}

// A prompt in one run and single tokens behind it, three times after a first: JSON for
// peers/llama_bench.py.
void bench_decode(const char* path, const char* states, const char* prompt, const char* tokens) {
  const ModelPtr model = need(exec::Model::load(path));
  const int first = std::atoi(prompt), count = std::atoi(tokens);
  const Session session = decoder_of(model, states, first + count);
  const auto timed = [&](int position, int length) {
    const Tokens t(*session, position, length);
    const double start = cpu_us();
    if (const auto ran = session->run(t.views); !ran.ok()) stop(ran.error().message);
    return (cpu_us() - start) / 1e3;
  };
  double prompt_ms = 0;
  std::vector<double> prompts, each;
  for (int round = 0; round < 4; ++round) {
    session->reset_states();
    prompt_ms = timed(0, first);
    if (round > 0) prompts.push_back(prompt_ms);
    for (int i = 0; i < count; ++i) {
      const double ms = timed(first + i, 1);
      if (round > 0) each.push_back(ms);
    }
  }
  std::printf("{\"target\": \"%s\", \"prompt_ms\": %.3f, \"token_ms\": %.4f}\n",
              std::string(model->target().name).c_str(), median(prompts), median(each));
}

std::string chain(int steps, const char* step) {
  std::string text = "x: f32[1,16]\nv0 = " + std::string(step) + "\n";
  text.replace(text.find("$"), 1, "x");
  for (int i = 1; i < steps; ++i) {
    std::string line = "v" + std::to_string(i) + " = " + step + "\n";
    line.replace(line.find("$"), 1, "v" + std::to_string(i - 1));
    text += line;
  }
  return text + "return v" + std::to_string(steps - 1) + "\n";
}

void bench_steps() {
  const std::pair<const char*, const char*> kinds[] = {
      {"neg", "neg($)"},
      {"add a constant", "add($, f32[1]{1})"},
      {"linear 16x16 f32", "linear($, random:f32[16,16], random:f32[16])"},
      {"softmax", "softmax($)"}};
  for (const auto& [name, step] : kinds) {
    const auto cost = [&, step = step](int steps) {
      const ModelPtr model = need(exec::Model::from_graph(need(graph::parse(chain(steps, step)))));
      auto session = session_of(model);
      const Inputs inputs = inputs_of(model->graph(), {}, 0);
      double best = 1e30;
      for (int i = 0; i < 200; ++i) {
        const double start = cpu_us();
        for (int j = 0; j < 20; ++j) run(*session, inputs);
        best = std::min(best, (cpu_us() - start) / 20);
      }
      return best;
    };
    const double one = cost(1), hundred = cost(101);
    std::printf("%-18s run of 1 step %.2f us, each further step %.3f us\n", name, one,
                (hundred - one) / 100);
  }
}

// Runs work() on `threads` threads at once for `seconds`; how often a second all of them together.
double rate(int threads, double seconds, const std::function<std::function<double()>(int)>& make) {
  std::vector<std::function<double()>> work;
  for (int i = 0; i < threads; ++i) work.push_back(make(i));
  std::vector<double> done(static_cast<std::size_t>(threads), 0);
  const double begin = wall_us();
  const auto loop = [&](std::size_t i) {
    while (wall_us() - begin < seconds * 1e6) done[i] += work[i]();
    done[i] /= (wall_us() - begin) / 1e6;
  };
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < work.size(); ++i) others.emplace_back(loop, i);
  loop(0);
  for (std::thread& t : others) t.join();
  double sum = 0;
  for (const double d : done) sum += d;
  return sum;
}

void bench_threads(const char* path, const Shapes& shapes) {
  const ModelPtr model = need(exec::Model::load(path));
  const Inputs inputs = inputs_of(model->graph(), shapes, 0);
  std::unique_ptr<exec::Session> one[2] = {session_of(model), session_of(model)};
  auto two = session_of(model, 2);
  for (auto* s : {&one[0], &one[1], &two}) run(**s, inputs);
  const auto sessions = [&](int i) { return [&, i] { return run(*one[i], inputs), 1.0; }; };
  const auto loops = [&](int) { return [&] { return int8_turns(model->target().name); }; };
  std::vector<double> two_sessions, two_threads, two_loops;
  for (int round = 0; round < 15; ++round) {
    const double l1 = rate(1, 0.1, loops), s1 = rate(1, 0.1, sessions);
    const double l2 = rate(2, 0.1, loops), s2 = rate(2, 0.1, sessions);
    const double t2 = rate(1, 0.1, [&](int) { return [&] { return run(*two, inputs), 1.0; }; });
    two_loops.push_back(l2 / l1);
    two_sessions.push_back(s2 / s1 / (l2 / l1));
    two_threads.push_back(t2 / s1 / (l2 / l1));
  }
  std::printf(
      "%s: two loops in registers reach %.2fx one; of that, two sessions %.2f, one session "
      "of two threads %.2f (medians of 15 rounds; best %.2f, %.2f)\n",
      path, median(two_loops), median(two_sessions), median(two_threads),
      *std::max_element(two_sessions.begin(), two_sessions.end()),
      *std::max_element(two_threads.begin(), two_threads.end()));
}

}  // namespace
}  // namespace fold8::bench

int main(int argc, char** argv) {
  using namespace fold8::bench;
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "steps") {
    bench_steps();
  } else if (mode == "states" && argc == 5) {
    bench_states(argv[2], argv[3], argv[4]);
  } else if (mode == "decode" && argc == 6) {
    bench_decode(argv[2], argv[3], argv[4], argv[5]);
  } else if (argc < 3) {
    stop(
        "usage: session_bench load|plan|threads MODEL.f8 [NAME=SHAPE].. | session_bench steps | "
        "session_bench states MODEL.f8 OUT=IN TOKENS | "
        "session_bench decode MODEL.f8 OUT=IN PROMPT TOKENS");
  } else if (mode == "load") {
    bench_load(argv[2], parse_shapes(argc, argv));
  } else if (mode == "plan") {
    bench_plan(argv[2], parse_shapes(argc, argv));
  } else if (mode == "threads") {
    bench_threads(argv[2], parse_shapes(argc, argv));
  } else {
    stop("unknown mode " + mode);
  }
}
