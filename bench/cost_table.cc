// The cost table of `fold8 convert --prefer speed` (fusion/cost_table.h), for the target that
// FOLD8_TARGET names or the best of this CPU: layers of common shapes in INT8 and in
// float, each writing u8 and f32, by the executor's own clock of the step. All run in turns; lower
// quartiles.
//
//   FOLD8_TARGET=avx2 cost_table > fusion/cost_tables/avx2.csv           (under a minute, one
//   thread)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "bench/need.h"
#include "fusion/cost_table.h"
#include "fusion/pipeline.h"
#include "runtime/exec/session.h"
#include "runtime/graph/text.h"

namespace fold8::bench {
namespace {

using fusion::CostKind;
using Clock = std::chrono::steady_clock;

constexpr double kSeconds = 0.5;  // a row, once it has kFewestRuns
constexpr std::size_t kFewestRuns = 9, kMostRuns = 400;

std::string dims(std::initializer_list<std::int64_t> extents) {
  std::string text;
  for (std::int64_t e : extents) text += (text.empty() ? "[" : ",") + std::to_string(e);
  return text + "]";
}

// One layer as text: its operator, the shapes around it.
struct Layer {
  fusion::CostKey key;
  std::string op;  // "conv"
  std::string x, w, y, attributes;
  int channel_axis = 0;  // of w
};

Layer linear(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {{CostKind::linear, m, n, k}, "linear", dims({m, k}), dims({n, k}), dims({m, n}), "", 0};
}

// side x side positions in and out, stride 1.
Layer conv(std::int64_t side, std::int64_t out, std::int64_t in, std::int64_t kernel,
           std::int64_t group = 1) {
  const CostKind kind = group == 1                    ? CostKind::conv
                        : group == in && group == out ? CostKind::depthwise
                                                      : CostKind::grouped;
  const std::int64_t pad = kernel / 2;
  return {{kind, side * side, out, in / group * kernel * kernel},
          "conv",
          dims({1, in, side, side}),
          dims({out, in / group, kernel, kernel}),
          dims({1, out, side, side}),
          " kernel=" + dims({kernel, kernel}) + " strides=[1,1] dilations=[1,1] pads=" +
              dims({pad, pad, pad, pad}) + " group=" + std::to_string(group),
          0};
}

// Kernel and stride 2: twice as many positions a side.
Layer upsampling(std::int64_t side, std::int64_t out, std::int64_t in) {
  return {{CostKind::transposed, side * side, in, out * 4},
          "conv",
          dims({1, in, side, side}),
          dims({in, out, 2, 2}),
          dims({1, out, 2 * side, 2 * side}),
          " kernel=[2,2] strides=[2,2] dilations=[1,1] pads=[0,0,0,0] transposed=true",
          1};
}

// None takes more than about a millisecond: long ones are disturbed by others on the machine, and
// differ from these by their multiply-adds only.
std::vector<Layer> layers() {
  std::vector<Layer> all;
  for (std::int64_t m : {1, 16, 128})
    for (const auto& [n, k] :
         {std::pair{16, 64}, {64, 64}, {256, 256}, {384, 768}, {768, 384}, {1000, 512}})
      all.push_back(linear(m, n, k));
  for (const auto& [n, k] : {std::pair{3072, 768}, {1000, 2048}}) all.push_back(linear(1, n, k));
  for (const auto& [side, out, in] : {std::tuple{112, 16, 16},
                                      {112, 64, 32},
                                      {56, 24, 96},
                                      {56, 64, 64},
                                      {56, 256, 64},
                                      {28, 40, 120},
                                      {28, 128, 128},
                                      {14, 256, 256},
                                      {14, 576, 96},
                                      {7, 160, 960},
                                      {7, 512, 512},
                                      {1, 64, 16},
                                      {1, 240, 960}})
    all.push_back(conv(side, out, in, 1));
  for (const auto& [side, out, in] : {std::tuple{112, 16, 3},
                                      {56, 32, 32},
                                      {28, 32, 32},
                                      {28, 64, 64},
                                      {14, 128, 128},
                                      {7, 256, 256}})
    all.push_back(conv(side, out, in, 3));
  all.push_back(conv(56, 64, 3, 7));
  for (const auto& [side, channels] : {std::pair{112, 16},
                                       {112, 64},
                                       {56, 24},
                                       {56, 144},
                                       {28, 40},
                                       {28, 240},
                                       {14, 96},
                                       {14, 512},
                                       {7, 960}})
    all.push_back(conv(side, channels, channels, 3, channels));
  for (const auto& [side, channels] : {std::pair{28, 72}, {14, 240}, {7, 960}})
    all.push_back(conv(side, channels, channels, 5, channels));
  for (const auto& [side, channels, group] :
       {std::tuple{56, 128, 32}, {28, 64, 4}, {28, 256, 32}, {14, 512, 32}, {7, 96, 2}})
    all.push_back(conv(side, channels, channels, 3, group));
  for (const auto& [side, out, in] :
       {std::tuple{80, 1, 24}, {40, 24, 24}, {28, 64, 64}, {14, 128, 256}})
    all.push_back(upsampling(side, out, in));
  return all;
}

// A model whose one interesting step is timed.
class Timed {
 public:
  Timed(const std::string& text, std::string_view op) {
    graph::Graph g = need(graph::parse(text));
    if (const Status s = exec::infer_types(g); !s.ok()) stop(s.error().message);
    need(fusion::run(fusion::stage("emit"), g));
    const auto model = need(exec::Model::from_graph(std::move(g)));
    session_ = need(exec::Session::create(model));
    session_->enable_profile(true);
    for (const graph::ValueId v : model->graph().inputs) {
      Tensor t(DType::f32, model->graph().type(v).shape);
      for (std::size_t i = 0; float& x : t.as<float>())
        x = static_cast<float>(i++ * 2654435761u % 2048) / 1024 - 1;
      inputs_.push_back(std::move(t));
      views_.push_back(inputs_.back().view());
    }
    run();
    const auto steps = session_->profile();
    const auto wanted = std::find_if(steps.begin(), steps.end(),
                                     [&](const auto& s) { return s.op.find(op) != s.op.npos; });
    if (wanted == steps.end()) stop("no step " + std::string(op) + " in\n" + text);
    step_ = static_cast<std::size_t>(wanted - steps.begin());
    times_.clear();
  }

  void run() {
    if (const Status s = session_->run(views_); !s.ok()) stop(s.error().message);
    times_.push_back(session_->profile()[step_].microseconds);
  }
  std::size_t runs() const { return times_.size(); }
  // The lower quartile: half of the runs may be disturbed by others on the machine.
  double quartile() {
    std::sort(times_.begin(), times_.end());
    return times_[times_.size() / 4];
  }

 private:
  std::unique_ptr<exec::Session> session_;
  std::vector<Tensor> inputs_;
  std::vector<TensorView> views_;
  std::size_t step_ = 0;
  std::vector<double> times_;
};

// Runs all of them in turns.
void take_turns(const std::vector<Timed*>& models) {
  const auto begin = Clock::now();
  const Timed& first = *models.front();
  while (first.runs() < kFewestRuns ||
         (first.runs() < kMostRuns &&
          std::chrono::duration<double>(Clock::now() - begin).count() < kSeconds))
    for (Timed* m : models) m->run();
}

// The lower quartiles of up to four models; 0 where there is none.
void print_row(const fusion::CostKey& key, std::vector<Timed*> models) {
  take_turns(models);
  std::printf("%s,%lld,%lld,%lld", std::string(name(key.kind)).c_str(),
              static_cast<long long>(key.m), static_cast<long long>(key.n),
              static_cast<long long>(key.k));
  models.resize(4, nullptr);
  for (Timed* m : models) {
    const double us = m == nullptr ? 0 : m->quartile();
    std::printf(us < 100 ? ",%.3g" : ",%.0f", us);
  }
  std::printf("\n");
  std::fflush(stdout);
}

void time_layer(const Layer& l) {
  const std::string channels = "@channel(" + std::to_string(l.channel_axis) + ")";
  const std::int64_t out = l.key.kind == CostKind::transposed ? l.key.k / 4 : l.key.n;
  const std::string tail = ", random:f32[" + std::to_string(out) + "])" + l.attributes + "\n";
  const std::string x = "x: f32" + l.x + "\n",
                    q = x + "q: u8" + l.x + " @(0.01,128) = quantize(x)\nw = const random:s8" +
                        l.w + " " + channels + "\n",
                    int8 = l.op + "(q, w" + tail, f32 = l.op + "(x, random:f32" + l.w + tail,
                    u8 = "y: u8" + l.y + " @(0.05,128) = ", widen = "z = dequantize(y)\nreturn z";
  Timed int8_int8(q + u8 + int8 + widen, l.op), f32_f32(x + "y = " + f32 + "return y", l.op),
      int8_f32(q + "y = " + int8 + "return y", l.op), f32_int8(x + u8 + f32 + widen, l.op);
  print_row(l.key, {&int8_int8, &f32_f32, &int8_f32, &f32_int8});
}

void time_rounding() {
  for (std::int64_t n : {256, 4096, 65536, 802816}) {
    Timed t("x: f32" + dims({n}) + "\nq: u8" + dims({n}) +
                " @(0.01,128) = quantize(x)\ny = dequantize(q)\nreturn y",
            "quantize");
    print_row({CostKind::quantize, n}, {&t});
  }
  for (const auto& [rows, columns] : {std::pair{1, 256}, {16, 256}, {128, 768}, {512, 3072}}) {
    Timed t("x: f32" + dims({rows, columns}) + "\nq, s = dynamic_quantize(x)\nreturn q, s",
            "dynamic_quantize");
    print_row({CostKind::quantize_rows, rows, columns}, {&t});
  }
}

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

void print_table() {
  const auto* target = need(kernels::select_target());
  const std::string name(target->name);
  std::printf(
      "# What layers cost in INT8 and in float: read by `fold8 convert --prefer speed`.\n"
      "# target: %s\n# CPU: %s, one thread\n# fold8 %s\n"
      "# made by: FOLD8_TARGET=%s cost_table > fusion/cost_tables/%s.csv\n"
      "kind,m,n,k,int8_us,f32_us,int8_to_f32_us,f32_to_int8_us\n",
      name.c_str(), cpu_name().c_str(), FOLD8_BENCH_VERSION, name.c_str(), name.c_str());
  for (const Layer& l : layers()) time_layer(l);
  time_rounding();
}

}  // namespace
}  // namespace fold8::bench

int main() { fold8::bench::print_table(); }
