#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <numeric>
#include <system_error>
#include <thread>

#include "runtime/core/parallel.h"
#include "runtime/exec/session.h"
#include "runtime/kernels/cpu.h"
#include "tools/cli/common.h"

namespace fold8::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Args {
  std::string model, json, engine = "fold8";
  std::vector<std::string> shapes;
  DataArgs data;
  double seconds = 2;
  int threads = 1, sessions = 1;
  bool profile = false;
};

double milliseconds_since(Clock::time_point t) {
  return std::chrono::duration<double, std::milli>(Clock::now() - t).count();
}

double cpu_milliseconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

std::size_t peak_rss_bytes() {
  std::ifstream status("/proc/self/status");
  std::string key;
  while (status >> key)
    if (key == "VmHWM:") {
      std::size_t kib = 0;
      status >> kib;
      return kib * 1024;
    }
  return 0;
}

// "name=1x3x224x224"
Result<std::pair<std::string, Shape>> parse_shape(const std::string& text) {
  const Error bad = invalid_argument("--shape " + text + ": expected NAME=1x3x224x224");
  const std::size_t equals = text.rfind('=');
  if (equals == std::string::npos) return bad;
  Shape shape;
  std::string rest = text.substr(equals + 1);
  while (!rest.empty()) {
    std::size_t used = 0;
    long long d = -1;
    try {
      d = std::stoll(rest, &used);
    } catch (const std::exception&) {
      return bad;
    }
    if (d < 0 || shape.rank() == Shape::kMaxRank) return bad;
    shape.push_back(Dim(static_cast<std::int64_t>(d)));
    rest = rest.substr(used);
    if (rest.empty()) break;
    if (rest[0] != 'x' || rest.size() == 1) return bad;
    rest = rest.substr(1);
  }
  return std::pair(text.substr(0, equals), shape);
}

// Numbers that look like data: small pseudo-random floats, zeros for integers (always valid as
// indices).
void fill(Tensor& t) {
  if (t.dtype() == DType::f32) {
    std::uint32_t state = 8;
    for (float& v : t.as<float>()) {
      state = state * 1664525u + 1013904223u;
      v = static_cast<float>(state >> 8) / static_cast<float>(1u << 24) * 2 - 1;
    }
  } else if (t.dtype() == DType::u8) {
    std::uint32_t state = 8;
    for (std::uint8_t& v : t.as<std::uint8_t>())
      v = static_cast<std::uint8_t>((state = state * 1664525u + 1013904223u) >> 24);
  }
}

Result<std::vector<Tensor>> made_up_inputs(const Args& args, const graph::Graph& g) {
  std::vector<std::pair<std::string, Shape>> given;
  for (const std::string& s : args.shapes) {
    FOLD8_TRY(auto parsed, parse_shape(s));
    given.push_back(std::move(parsed));
  }
  std::vector<Tensor> inputs;
  for (graph::ValueId v : g.inputs) {
    Shape shape = g.type(v).shape;
    const auto it = std::find_if(given.begin(), given.end(),
                                 [&](const auto& p) { return p.first == g.value(v).name; });
    if (it != given.end()) {
      shape = it->second;
    } else if (shape.rank() > 0 && !shape[0].known()) {
      shape[0] = Dim(1);  // a batch of one
    }
    if (!shape.known())
      return invalid_argument("input '" + g.value(v).name + "' has shape " +
                              to_string(shape, g.symbols) + ": give --shape " + g.value(v).name +
                              "=... or --input DATA");
    if (shape.count() > (std::int64_t{1} << 32))
      return invalid_argument("--shape: input '" + g.value(v).name + "' would have " +
                              std::to_string(shape.count()) + " elements");
    inputs.emplace_back(g.type(v).dtype, shape);
    fill(inputs.back());
  }
  for (const auto& p : given)
    if (std::none_of(g.inputs.begin(), g.inputs.end(),
                     [&](graph::ValueId v) { return g.value(v).name == p.first; }))
      return invalid_argument("--shape: the model has no input '" + p.first + "'");
  return inputs;
}

// Tiny models run a million times a second: so many times say enough, and fit in memory.
constexpr std::size_t kMostRuns = 50000;

struct Samples {
  std::vector<double> wall, cpu;
};

double quantile(std::vector<double> v, double q) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  return v[std::min(v.size() - 1, static_cast<std::size_t>(q * static_cast<double>(v.size())))];
}

Status time_session(exec::Session& session, const std::vector<std::vector<TensorView>>& inputs,
                    double seconds, Samples& out) {
  const auto begin = Clock::now();
  for (std::size_t i = 0;
       (milliseconds_since(begin) < seconds * 1e3 && out.wall.size() < kMostRuns) ||
       out.wall.size() < 3;
       ++i) {
    const double cpu = cpu_milliseconds();
    const auto t = Clock::now();
    FOLD8_CHECK_OK(session.run(inputs[i % inputs.size()]));
    out.wall.push_back(milliseconds_since(t));
    out.cpu.push_back(cpu_milliseconds() - cpu);
  }
  return ok_status();
}

Json distribution(const std::vector<double>& v) {
  Json samples = Json::array();
  for (double x : v) samples.push_back(std::round(x * 1e4) / 1e4);
  return {{"min", quantile(v, 0)},
          {"median", quantile(v, 0.5)},
          {"p95", quantile(v, 0.95)},
          {"samples", samples}};
}

Json profile_json(const exec::Session& session) {
  Json steps = Json::array();
  for (const auto& p : session.profile())
    steps.push_back({{"node", p.name},
                     {"op", p.op},
                     {"us", p.microseconds},
                     {"gmac_per_s", p.microseconds > 0 ? p.macs / p.microseconds / 1e3 : 0},
                     {"bytes", p.bytes}});
  return steps;
}

void print_profile(const exec::Session& session) {
  auto steps = session.profile();
  double total = 0;
  for (const auto& p : steps) total += p.microseconds;
  std::sort(steps.begin(), steps.end(),
            [](const auto& a, const auto& b) { return a.microseconds > b.microseconds; });
  for (std::size_t i = 0; i < std::min<std::size_t>(steps.size(), 25); ++i)
    std::cout << fmt::format(
        "  {:>9.1f} us {:>5.1f} % {:>8.1f} GMAC/s  {:<18} {}\n", steps[i].microseconds,
        100 * steps[i].microseconds / total,
        steps[i].microseconds > 0 ? steps[i].macs / steps[i].microseconds / 1e3 : 0, steps[i].op,
        steps[i].name);
}

Result<int> bench(const Args& args) {
  FOLD8_CHECK_OK(check_paths({args.model}, {args.json}));
  const auto load_begin = Clock::now();
  FOLD8_TRY(auto model, load_model(args.model));
  exec::SessionOptions options;
  options.threads = args.threads > 0 ? args.threads : usable_cpus();
  options.engine = args.engine;
  FOLD8_TRY(auto session, exec::Session::create(model, options));
  const double load_ms = milliseconds_since(load_begin);
  std::vector<std::vector<Tensor>> tensors;
  if (args.data.data.empty()) {
    FOLD8_TRY(auto inputs, made_up_inputs(args, model->graph()));
    tensors.push_back(std::move(inputs));
  } else {
    FOLD8_TRY(auto source, open_data(args.data, model->graph()));
    for (std::size_t i = 0; i < std::min<std::size_t>(source->count(), 64); ++i) {
      FOLD8_TRY(auto inputs, source->sample(i));
      tensors.push_back(std::move(inputs));
    }
    if (tensors.empty()) return invalid_model("the data holds no samples");
  }
  std::vector<std::vector<TensorView>> views(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i)
    for (const Tensor& t : tensors[i]) views[i].push_back(t.view());
  const auto first = Clock::now();
  FOLD8_CHECK_OK(session->run(views[0]));
  const double first_ms = milliseconds_since(first);

  std::vector<Samples> per_session(static_cast<std::size_t>(std::max(1, args.sessions)));
  std::vector<std::unique_ptr<exec::Session>> more;
  for (int s = 1; s < args.sessions; ++s) {
    FOLD8_TRY(auto extra, exec::Session::create(model, options));
    more.push_back(std::move(extra));
  }
  const auto begin = Clock::now();
  std::vector<std::thread> threads;
  std::vector<Status> statuses(per_session.size(), ok_status());
  Status started = ok_status();
  try {
    for (std::size_t s = 1; s < per_session.size(); ++s)
      threads.emplace_back([&, s] {
        statuses[s] = time_session(*more[s - 1], views, args.seconds, per_session[s]);
      });
  } catch (const std::system_error& e) {
    started = io_error(std::string("cannot start a thread for each session: ") + e.what());
  }
  if (started.ok()) statuses[0] = time_session(*session, views, args.seconds, per_session[0]);
  for (auto& t : threads) t.join();
  FOLD8_CHECK_OK(std::move(started));
  const double elapsed = milliseconds_since(begin) / 1e3;
  for (const Status& s : statuses) FOLD8_CHECK_OK(Status(s));
  Samples all;
  for (const Samples& s : per_session) {
    all.wall.insert(all.wall.end(), s.wall.begin(), s.wall.end());
    all.cpu.insert(all.cpu.end(), s.cpu.begin(), s.cpu.end());
  }
  const double throughput = static_cast<double>(all.wall.size()) / elapsed;
  if (args.profile) {
    session->enable_profile(true);
    FOLD8_CHECK_OK(session->run(views[0]));
  }
  const std::string target(model->target().name);
  if (args.json != "-") {
    std::cout << fmt::format(
        "{}: min {:.4g} ms, median {:.4g} ms, p95 {:.4g} ms, {:.1f} runs/s ({} runs, {} thread(s), "
        "{} session(s), target {}, engine {})\n",
        args.model, quantile(all.wall, 0), quantile(all.wall, 0.5), quantile(all.wall, 0.95),
        throughput, all.wall.size(), options.threads, per_session.size(), target, args.engine);
    std::cout << fmt::format("  load {:.2f} ms, first run {:.2f} ms, arena {}, peak memory {}\n",
                             load_ms, first_ms,
                             readable_bytes(static_cast<double>(session->arena_bytes())),
                             readable_bytes(static_cast<double>(peak_rss_bytes())));
    if (args.profile) print_profile(*session);
  }
  if (!args.json.empty()) {
    Json j{{"schema", "fold8.bench/1"},
           {"model", args.model},
           {"target", target},
           {"engine", args.engine},
           {"cpu", kernels::cpu_brand()},
           {"threads", options.threads},
           {"sessions", per_session.size()}};
    j["latency_ms"] = distribution(all.wall);
    j["cpu_ms"] = distribution(all.cpu);
    j["throughput_per_s"] = throughput;
    j["load_ms"] = load_ms;
    j["first_run_ms"] = first_ms;
    j["peak_rss_bytes"] = peak_rss_bytes();
    j["arena_bytes"] = session->arena_bytes();
    if (args.profile) j["steps"] = profile_json(*session);
    FOLD8_CHECK_OK(write_json(j, args.json));
  }
  return 0;
}

}  // namespace

Command add_bench(CLI::App& app) {
  auto args = std::make_shared<Args>();
  app.add_option("model", args->model, "A .f8 or .onnx file")->required();
  app.add_option("--shape", args->shapes, "NAME=1x3x224x224 for inputs whose size is free");
  add_data_options(app, args->data, "--input", "Real inputs instead of made-up ones", false);
  app.add_option("--seconds", args->seconds, "How long to measure")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  app.add_option("--threads", args->threads,
                 "Threads of a session (0: all CPUs this process may use)")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024));
  app.add_option("--sessions", args->sessions, "Sessions at once")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_flag("--profile", args->profile, "Time per operator");
  app.add_option("--engine", args->engine, "fold8 or onednn")->capture_default_str();
  app.add_option("--json", args->json, "Write the figures as JSON (- for standard output)");
  return [args] { return bench(*args); };
}

}  // namespace fold8::cli
