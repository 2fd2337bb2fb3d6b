#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <set>

#include "runtime/core/parallel.h"
#include "runtime/exec/session.h"
#include "tools/cli/common.h"
#include "tools/data/npy.h"

namespace fold8::cli {
namespace {

namespace fs = std::filesystem;

struct Args {
  std::string model, output_dir, engine = "fold8";
  std::vector<std::string> dump, states, capacities;
  DataArgs data;
  int threads = 1;
  bool profile = false;
};

// `--input name=x.npy` gives one array of one input; anything else is DATA.
struct NamedInput {
  std::string name, path;
};

std::vector<NamedInput> named_inputs(const std::vector<std::string>& items, const graph::Graph& g) {
  std::vector<NamedInput> named;
  for (const std::string& item : items) {
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos) continue;
    for (graph::ValueId v : g.inputs)
      if (g.value(v).name == item.substr(0, equals))
        named.push_back({item.substr(0, equals), item.substr(equals + 1)});
  }
  return named;
}

// What to run: samples and the folder each one's results go to ("" : straight into --output-dir).
struct Work {
  std::vector<Tensor> one;  // from NAME=FILE.npy
  OpenedData data;
  std::vector<std::string> folders;
  std::size_t count() const { return data.source ? data->count() : 1; }
  Result<std::vector<Tensor>> sample(std::size_t i) {
    return data.source ? data->sample(i) : Result<std::vector<Tensor>>(one);
  }
};

// "dir/0007.npz" -> "0007"; "stack.npz, row 3" -> "stack_row_3". Distinct for distinct samples.
std::string folder_name(const std::string& description, std::size_t i,
                        std::set<std::string>& taken) {
  const std::size_t comma = description.rfind(", row ");
  std::string name = fs::path(description.substr(0, comma)).stem().string();
  if (comma != std::string::npos) name += "_row_" + description.substr(comma + 6);
  name = file_name_of(name);
  if (!taken.insert(name).second) taken.insert(name += "_" + std::to_string(i));
  return name;
}

Result<Work> open_inputs(const Args& args, const graph::Graph& g) {
  Work work;
  const auto named = named_inputs(args.data.data, g);
  for (const std::string& item : args.data.data) {
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos || fs::exists(item)) continue;
    if (g.find_value(item.substr(0, equals)) == graph::kNoValue ||
        !g.is_input(g.find_value(item.substr(0, equals)))) {
      std::string names;
      for (graph::ValueId v : g.inputs)
        names += (names.empty() ? "'" : ", '") + g.value(v).name + "'";
      return invalid_argument("--input " + item + ": the model has no input '" +
                              item.substr(0, equals) + "', it has " + names);
    }
  }
  if (named.empty()) {
    FOLD8_TRY(work.data, open_data(args.data, g));
    std::set<std::string> taken;
    for (std::size_t i = 0; i < work.data->count(); ++i)
      work.folders.push_back(
          work.data->count() == 1 ? "" : folder_name(work.data.all->describe(i), i, taken));
    return work;
  }
  if (named.size() != args.data.data.size())
    return invalid_argument("give either --input NAME=FILE.npy for every input, or data, not both");
  for (graph::ValueId v : g.inputs) {
    const std::string& name = g.value(v).name;
    const auto it = std::find_if(named.begin(), named.end(),
                                 [&](const NamedInput& n) { return n.name == name; });
    if (it == named.end())
      return invalid_argument("input '" + name + "' is not given: add --input " + name +
                              "=FILE.npy");
    FOLD8_TRY(Tensor t, data::read_npy(it->path));
    work.one.push_back(std::move(t));
  }
  work.folders.push_back("");
  return work;
}

Status make_folder(const std::string& path) {
  std::error_code ec;
  fs::create_directories(path, ec);
  return ec ? Status(io_error("cannot make folder '" + path + "': " + ec.message())) : ok_status();
}

// A file for each tensor: no two the same, none longer than file systems take.
std::vector<std::string> file_names(const std::vector<std::string>& tensors) {
  constexpr std::size_t kLongest = 200;
  std::set<std::string> taken;
  std::vector<std::string> names;
  for (const std::string& tensor : tensors) {
    const std::string stem = file_name_of(tensor).substr(0, kLongest);
    std::string name = stem;
    for (int i = 2; !taken.insert(name).second; ++i) name = stem + "_" + std::to_string(i);
    names.push_back(name);
  }
  return names;
}

// Outputs and dumped tensors, each once, and the files they go to.
struct Results {
  std::vector<std::string> tensors, files;
  std::string path(const std::string& folder, const std::string& tensor) const {
    const auto at = std::find(tensors.begin(), tensors.end(), tensor) - tensors.begin();
    return folder + "/" + files[static_cast<std::size_t>(at)] + ".npy";
  }
};

Results results_of(const Args& args, const graph::Graph& g) {
  Results r;
  for (graph::ValueId v : g.outputs) r.tensors.push_back(g.value(v).name);
  for (const std::string& name : args.dump)
    if (std::find(r.tensors.begin(), r.tensors.end(), name) == r.tensors.end())
      r.tensors.push_back(name);
  r.files = file_names(r.tensors);
  return r;
}

std::string folder_of(const Args& args, const std::string& sample) {
  return sample.empty() ? args.output_dir : args.output_dir + "/" + sample;
}

// Before anything runs: no result goes over the model or the data.
Status check_results(const Args& args, const Work& work, const Results& results) {
  if (args.output_dir.empty()) return ok_status();
  std::vector<std::string> outputs;
  std::error_code ec;
  for (const std::string& sample : work.folders) {
    const std::string folder = folder_of(args, sample);
    if (!fs::exists(folder, ec)) continue;
    for (const std::string& file : results.files) outputs.push_back(folder + "/" + file + ".npy");
  }
  return check_paths(with_data({args.model}, args.data), outputs);
}

Status write_results(const Args& args, exec::Session& session, const std::string& folder,
                     const Results& results, const std::vector<graph::ValueId>& dumps) {
  FOLD8_CHECK_OK(make_folder(folder));
  const auto outputs = session.outputs();
  for (std::size_t o = 0; o < outputs.size(); ++o)
    if (outputs[o].data != nullptr || outputs[o].shape.count() == 0)
      FOLD8_CHECK_OK(data::write_npy(results.path(folder, results.tensors[o]), outputs[o]));
  for (std::size_t i = 0; i < dumps.size(); ++i) {
    FOLD8_TRY(const Tensor t, session.value(dumps[i]));
    FOLD8_CHECK_OK(data::write_npy(results.path(folder, args.dump[i]), t.view()));
  }
  return ok_status();
}

void print_profile(const exec::Session& session) {
  double total = 0;
  for (const auto& p : session.profile()) total += p.microseconds;
  std::cerr << fmt::format("{:>10}  {:>6}  {:>8}  {:<18} {}\n", "us", "%", "GMAC/s", "operator",
                           "node");
  for (const auto& p : session.profile())
    std::cerr << fmt::format("{:>10.1f}  {:>6.1f}  {:>8.1f}  {:<18} {}\n", p.microseconds,
                             total > 0 ? 100 * p.microseconds / total : 0,
                             p.microseconds > 0 ? p.macs / p.microseconds / 1e3 : 0, p.op, p.name);
}

// "LEFT=RIGHT".
Result<std::pair<std::string, std::string>> split(const std::string& option,
                                                  const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    return invalid_argument(option + " " + text + ": expected " +
                            (option == "--state" ? "OUTPUT=INPUT" : "INPUT=N"));
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

Status add_states(const Args& args, exec::Session& session) {
  std::vector<std::pair<std::string, std::int64_t>> capacities;
  for (const std::string& c : args.capacities) {
    FOLD8_TRY(const auto parts, split("--capacity", c));
    char* end = nullptr;
    const std::int64_t n = std::strtoll(parts.second.c_str(), &end, 10);
    if (*end != 0 || n < 1) return invalid_argument("--capacity " + c + ": expected INPUT=N");
    capacities.emplace_back(parts.first, n);
  }
  for (const std::string& s : args.states) {
    FOLD8_TRY(const auto parts, split("--state", s));
    std::int64_t capacity = 0;
    for (const auto& [name, n] : capacities)
      if (name == parts.second) capacity = n;
    FOLD8_CHECK_OK(session.add_state(parts.first, parts.second, capacity));
  }
  for (const auto& [name, n] : capacities)
    if (std::none_of(args.states.begin(), args.states.end(), [&, &wanted = name](const auto& s) {
          return s.substr(s.find('=') + 1) == wanted;
        }))
      return invalid_argument("--capacity " + name + "=" + std::to_string(n) +
                              ": no --state names that input");
  return ok_status();
}

// The model as its data sees it: what a session keeps is not given.
graph::Graph without_states(const graph::Graph& g, const exec::Session& session) {
  graph::Graph rest = g;
  for (std::size_t i = g.inputs.size(); i-- > 0;)
    if (session.is_state(i))
      rest.inputs.erase(rest.inputs.begin() + static_cast<std::ptrdiff_t>(i));
  return rest;
}

Result<int> run_model(const Args& args) {
  FOLD8_TRY(auto model, load_model(args.model));
  const graph::Graph& g = model->graph();
  exec::SessionOptions options;
  options.threads = args.threads > 0 ? args.threads : usable_cpus();
  options.engine = args.engine;
  options.keep_all = !args.dump.empty();
  std::vector<graph::ValueId> dumps;
  for (const std::string& name : args.dump) {
    dumps.push_back(g.find_value(name));
    if (dumps.back() == graph::kNoValue)
      return invalid_argument(
          "--dump " + name +
          ": the model has no such tensor (fused away? `fold8 inspect --graph` lists them)");
  }
  FOLD8_TRY(auto session, exec::Session::create(model, options));
  FOLD8_CHECK_OK(add_states(args, *session));
  FOLD8_TRY(Work work, open_inputs(args, without_states(g, *session)));
  const Results results = results_of(args, g);
  FOLD8_CHECK_OK(check_results(args, work, results));
  session->enable_profile(args.profile);
  Progress progress("fold8 run");
  for (std::size_t i = 0; i < work.count(); ++i) {
    auto inputs = work.sample(i);
    if (!inputs.ok()) return inputs.error();
    std::vector<TensorView> views(g.inputs.size());
    for (std::size_t v = 0, next = 0; v < views.size(); ++v)
      if (!session->is_state(v)) views[v] = (*inputs)[next++].view();
    if (const Status s = session->run(views); !s.ok())
      return bad_data(work.count() > 1 ? in_context("sample " + std::to_string(i), s.error())
                                       : s.error());
    if (!args.output_dir.empty())
      FOLD8_CHECK_OK(
          write_results(args, *session, folder_of(args, work.folders[i]), results, dumps));
    progress("sample", i + 1, work.count());
  }
  if (args.profile) print_profile(*session);
  if (args.output_dir.empty() && !args.profile)
    say(fmt::format("ran {} sample(s); --output-dir DIR keeps the results", work.count()));
  return 0;
}

}  // namespace

Command add_run(CLI::App& app) {
  auto args = std::make_shared<Args>();
  app.add_option("model", args->model, "A .f8 or .onnx file")->required();
  add_data_options(app, args->data, "--input",
                   "NAME=FILE.npy for each input, a .npz, or a folder of them (results then go to "
                   "a folder per sample)",
                   true);
  app.add_option("--output-dir", args->output_dir,
                 "Writes one .npy per output ('/' in names becomes '_')");
  app.add_option("--dump", args->dump, "Also write this inner tensor (repeatable)");
  app.add_option("--state", args->states,
                 "OUTPUT=INPUT: the output of a sample is the input of the next (repeatable; '*' "
                 "stands for the same text in both: present.*=past.*). It is not written");
  app.add_option("--capacity", args->capacities,
                 "INPUT=N, INPUT as in --state: how long that state may grow before memory is "
                 "planned anew");
  app.add_flag("--profile", args->profile, "Time per operator");
  add_threads_option(app, args->threads);
  app.add_option("--engine", args->engine, "fold8 or onednn")->capture_default_str();
  return [args] { return run_model(*args); };
}

}  // namespace fold8::cli
