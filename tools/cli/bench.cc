#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <system_error>
#include <thread>

#include "runtime/core/parallel.h"
#include "runtime/exec/session.h"
#include "runtime/kernels/cpu.h"
#include "tools/cli/bench.h"

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

// What one measurement found.
struct Figures {
  double load_ms = 0, first_ms = 0, throughput = 0;
  Samples all;
  Peaks peaks;
  std::vector<StepTime> steps;
};

Result<std::vector<std::vector<Tensor>>> open_samples(const Args& args, const graph::Graph& g) {
  std::vector<std::vector<Tensor>> tensors;
  if (args.data.data.empty()) {
    FOLD8_TRY(auto inputs, made_up_inputs(args.shapes, g));
    tensors.push_back(std::move(inputs));
    return tensors;
  }
  FOLD8_TRY(auto source, open_data(args.data, g));
  for (std::size_t i = 0; i < std::min<std::size_t>(source->count(), 64); ++i) {
    FOLD8_TRY(auto inputs, source->sample(i));
    tensors.push_back(std::move(inputs));
  }
  if (tensors.empty()) return invalid_model("the data holds no samples");
  return tensors;
}

// The first session and those beside it, each on a thread of its own.
Status time_sessions(const std::vector<exec::Session*>& sessions,
                     const std::vector<std::vector<TensorView>>& views, double seconds,
                     Figures& f) {
  std::vector<Samples> samples(sessions.size());
  std::vector<Status> statuses(sessions.size(), ok_status());
  const auto begin = Clock::now();
  const auto work = [&](std::size_t s) {
    statuses[s] = time_session(*sessions[s], views, seconds, samples[s]);
  };
  std::vector<std::thread> threads;
  Status started = ok_status();
  try {
    for (std::size_t s = 1; s < sessions.size(); ++s) threads.emplace_back(work, s);
  } catch (const std::system_error& e) {
    started = io_error(std::string("cannot start a thread for each session: ") + e.what());
  }
  if (started.ok()) work(0);
  for (auto& t : threads) t.join();
  FOLD8_CHECK_OK(std::move(started));
  const double elapsed = milliseconds_since(begin) / 1e3;
  for (const Status& s : statuses) FOLD8_CHECK_OK(Status(s));
  for (const Samples& s : samples) {
    f.all.wall.insert(f.all.wall.end(), s.wall.begin(), s.wall.end());
    f.all.cpu.insert(f.all.cpu.end(), s.cpu.begin(), s.cpu.end());
  }
  f.throughput = static_cast<double>(f.all.wall.size()) / elapsed;
  return ok_status();
}

void print(const Args& args, const exec::Session& session, int threads, const Figures& f) {
  std::cout << fmt::format(
      "{}: min {:.4g} ms, median {:.4g} ms, p95 {:.4g} ms, {:.1f} runs/s ({} runs, {} thread(s), "
      "{} session(s), target {}, engine {})\n",
      args.model, quantile(f.all.wall, 0), quantile(f.all.wall, 0.5), quantile(f.all.wall, 0.95),
      f.throughput, f.all.wall.size(), threads, std::max(1, args.sessions),
      session.model().target().name, args.engine);
  std::cout << fmt::format(
      "  load {:.2f} ms, first run {:.2f} ms, arena {} (at least {} live at once), peak memory "
      "{}\n",
      f.load_ms, f.first_ms, readable_bytes(static_cast<double>(session.arena_bytes())),
      readable_bytes(static_cast<double>(session.least_arena_bytes())),
      readable_bytes(static_cast<double>(peak_rss_bytes())));
  if (!args.profile) return;
  std::cout << fmt::format(
                   "  peak of one core, in registers: INT8 {:.0f} GMAC/s, f32 {:.0f} GMAC/s\n",
                   f.peaks.int8 / 1e9, f.peaks.f32 / 1e9)
            << steps_table(f.steps, 25);
}

Json to_json(const Args& args, const exec::Session& session, int threads, const Figures& f) {
  Json j{{"schema", "fold8.bench/1"},
         {"model", args.model},
         {"target", std::string(session.model().target().name)},
         {"engine", args.engine},
         {"cpu", kernels::cpu_brand()},
         {"threads", threads},
         {"sessions", std::max(1, args.sessions)}};
  j["latency_ms"] = distribution(f.all.wall);
  j["cpu_ms"] = distribution(f.all.cpu);
  j["throughput_per_s"] = f.throughput;
  j["load_ms"] = f.load_ms;
  j["first_run_ms"] = f.first_ms;
  j["peak_rss_bytes"] = peak_rss_bytes();
  j["arena_bytes"] = session.arena_bytes();
  j["arena_lower_bound_bytes"] = session.least_arena_bytes();
  if (!args.profile) return j;
  j["peak_gmac_per_s"] = {{"int8", f.peaks.int8 / 1e9}, {"f32", f.peaks.f32 / 1e9}};
  j["steps"] = steps_json(f.steps);
  return j;
}

Result<int> bench(const Args& args) {
  FOLD8_CHECK_OK(check_paths(with_data({args.model}, args.data), {args.json}));
  Figures f;
  const auto load_begin = Clock::now();
  FOLD8_TRY(auto model, load_model(args.model));
  exec::SessionOptions options;
  options.threads = args.threads > 0 ? args.threads : usable_cpus();
  options.engine = args.engine;
  FOLD8_TRY(auto session, exec::Session::create(model, options));
  f.load_ms = milliseconds_since(load_begin);
  FOLD8_TRY(const auto tensors, open_samples(args, model->graph()));
  std::vector<std::vector<TensorView>> views(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i)
    for (const Tensor& t : tensors[i]) views[i].push_back(t.view());
  const auto first = Clock::now();
  if (Status s = session->run(views[0]); !s.ok()) return bad_data(std::move(s).error());
  f.first_ms = milliseconds_since(first);
  std::vector<std::unique_ptr<exec::Session>> more;
  std::vector<exec::Session*> sessions = {session.get()};
  for (int s = 1; s < args.sessions; ++s) {
    FOLD8_TRY(auto extra, exec::Session::create(model, options));
    sessions.push_back(extra.get());
    more.push_back(std::move(extra));
  }
  if (Status s = time_sessions(sessions, views, args.seconds, f); !s.ok())
    return bad_data(std::move(s).error());
  if (args.profile) {
    f.peaks = measure_peaks(model->target().name);
    FOLD8_TRY(f.steps, profile_steps(*session, views[0], f.peaks));
  }
  if (args.json != "-") print(args, *session, options.threads, f);
  if (!args.json.empty())
    FOLD8_CHECK_OK(write_json(to_json(args, *session, options.threads, f), args.json));
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
  app.add_flag("--profile", args->profile, "Time, rate and bytes of every step");
  app.add_option("--engine", args->engine, "fold8 or onednn")->capture_default_str();
  app.add_option("--json", args->json, "Write the figures as JSON (- for standard output)");
  return [args] { return bench(*args); };
}

}  // namespace fold8::cli
