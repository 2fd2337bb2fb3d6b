#include "tools/cli/report_facts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <unordered_map>

#include "runtime/exec/session.h"
#include "runtime/format/layout.h"
#include "tools/cli/bench.h"
#include "tools/cli/labels.h"

namespace fold8::cli {
namespace {

std::string hexadecimal(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

// Microseconds of the step that writes each tensor, and of all steps.
struct StepTimes {
  std::unordered_map<std::string, double> by_tensor;
  double all = 0;
};

Result<StepTimes> step_times(std::shared_ptr<const exec::Model> model,
                             const std::vector<Tensor>& inputs,
                             const std::vector<std::string>& names, int threads) {
  exec::SessionOptions options;
  options.threads = threads;
  FOLD8_TRY(auto session, exec::Session::create(model, options));
  const graph::Graph& g = model->graph();
  std::vector<TensorView> views;
  for (graph::ValueId v : g.inputs)
    for (std::size_t i = 0; i < names.size(); ++i)
      if (names[i] == g.value(v).name) views.push_back(inputs[i].view());
  FOLD8_CHECK_OK(session->run(views));
  FOLD8_TRY(const auto steps, profile_steps(*session, views, {1, 1}));
  StepTimes times;
  for (const StepTime& s : steps) {
    times.all += s.step.microseconds;
    const auto& outputs = g.node(s.step.node).outputs;
    if (!outputs.empty() && outputs[0] != graph::kNoValue)
      times.by_tensor[g.value(outputs[0]).name] += s.step.microseconds;
  }
  return times;
}

}  // namespace

Result<report::FileFacts> file_facts(const std::string& path) {
  report::FileFacts facts;
  facts.path = path;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return io_error("'" + path + "': " + std::strerror(errno));
  struct stat status {};
  void* data = MAP_FAILED;
  if (::fstat(fd, &status) == 0 && status.st_size > 0)
    data = ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
  ::close(fd);
  if (data == MAP_FAILED) return facts;  // no regular file: nothing to hash
  facts.bytes = static_cast<std::uint64_t>(status.st_size);
  facts.xxh3 = hexadecimal(format::checksum(data, facts.bytes));
  ::munmap(data, facts.bytes);
  return facts;
}

Result<std::vector<Tensor>> HashedSamples::sample(std::size_t i) {
  FOLD8_TRY(std::vector<Tensor> inputs, samples_.sample(i));
  if (i != next_) return inputs;
  ++next_;
  for (const Tensor& t : inputs) {
    const std::string shape = to_string(t.shape());
    const std::uint64_t parts[] = {hash_, format::checksum(shape.data(), shape.size()),
                                   format::checksum(t.view().data, t.view().bytes())};
    hash_ = format::checksum(parts, sizeof parts);
  }
  return inputs;
}

std::string HashedSamples::digest() const {
  return next_ > 0 && next_ == count() ? hexadecimal(hash_) : "";
}

Result<report::Times> measure_times(std::shared_ptr<const exec::Model> reference,
                                    std::shared_ptr<const exec::Model> other,
                                    quant::SampleSource& samples, int threads) {
  FOLD8_TRY(const std::vector<Tensor> inputs, samples.sample(0));
  std::vector<std::string> names;  // samples have the order of the reference's inputs
  for (graph::ValueId v : reference->graph().inputs)
    names.push_back(reference->graph().value(v).name);
  FOLD8_TRY(const StepTimes a, step_times(reference, inputs, names, threads));
  FOLD8_TRY(const StepTimes b, step_times(other, inputs, names, threads));
  report::Times times{a.all, b.all, {}};
  const graph::Graph& g = other->graph();
  for (graph::NodeId n : other->order()) {
    const auto& outputs = g.node(n).outputs;
    if (outputs.empty() || outputs[0] == graph::kNoValue) continue;
    report::LayerTime t{g.value(outputs[0]).name, {}, {}};
    if (const auto it = a.by_tensor.find(t.name); it != a.by_tensor.end())
      t.reference_us = it->second;
    if (const auto it = b.by_tensor.find(t.name); it != b.by_tensor.end()) t.other_us = it->second;
    if (t.reference_us || t.other_us) times.layers.push_back(std::move(t));
  }
  return times;
}

Result<Labels> Labels::read(const std::string& argument, const std::vector<std::string>& outputs) {
  Labels labels;
  labels.path_ = argument;
  if (!outputs.empty()) labels.output_ = outputs[0];
  // A file may have '=' in its name, and so may an output.
  if (!std::filesystem::exists(argument) && argument.find('=') != std::string::npos) {
    std::size_t at = std::string::npos;
    for (std::size_t i = argument.find('='); i != std::string::npos; i = argument.find('=', i + 1))
      if (std::find(outputs.begin(), outputs.end(), argument.substr(0, i)) != outputs.end()) at = i;
    if (at == std::string::npos)
      return invalid_argument(
          fmt::format("--labels {}: no such output; the outputs that both models have are: {}",
                      argument, fmt::join(outputs, ", ")));
    labels.output_ = argument.substr(0, at);
    labels.path_ = argument.substr(at + 1);
  }
  FOLD8_TRY(labels.labels_, read_labels(labels.path_));
  return labels;
}

Status Labels::add(const quant::OutputPair& pair) {
  if (pair.name != output_ || pair.reference.empty()) return ok_status();
  if (pair.dtype != DType::f32)
    return invalid_model("--labels needs class scores, and it is " + std::string(name(pair.dtype)) +
                         "; name another output: --labels OUTPUT=" + path_);
  const auto classes = quant::classes_of(pair.shape);
  if (!classes.ok())
    return invalid_model("--labels needs class scores, but " + classes.error().message +
                         "; name another output: --labels OUTPUT=" + path_);
  const std::size_t rows = pair.reference.size() / *classes;
  if (seen_ + rows > labels_.size())
    return invalid_model("--labels " + path_ + " has " + std::to_string(labels_.size()) +
                         " labels, the data has more samples");
  const std::span<const std::int64_t> mine(labels_.data() + seen_, rows);
  if (const Status s = quant::count_right(pair.reference, pair.got, mine, seen_, counts_); !s.ok())
    return in_context("--labels " + path_, s.error());
  seen_ += rows;
  return ok_status();
}

Result<report::Accuracy> Labels::finish() const {
  if (seen_ != labels_.size())
    return invalid_model("--labels " + path_ + " has " + std::to_string(labels_.size()) +
                         " labels for " + std::to_string(seen_) + " samples");
  return report::Accuracy{output_, counts_};
}

}  // namespace fold8::cli
