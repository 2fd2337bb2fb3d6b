// What the sub-commands share: exit statuses, messages, progress, JSON files, models and data from
// the command line.
#pragma once

#include <CLI/CLI.hpp>

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "quant/sample_source.h"
#include "runtime/core/result.h"
#include "runtime/exec/model.h"
#include "tools/data/samples.h"
#include "tools/report/metrics_json.h"

namespace fold8::cli {

// 0 done, 1 a threshold was missed, 2 usage, 3 bad model or data, 4 unsupported, 5 I/O, 70 our bug.
int exit_status(Code code);

// A sub-command: declared on the app, run if it was chosen. The int is the exit status (0 or 1);
// errors map by code.
using Command = std::function<Result<int>()>;

// Keys in insertion order, so that files read well and are stable.
using Json = nlohmann::ordered_json;

// Writes to a file (atomically), or to stdout for "-".
Status write_json(const Json& json, const std::string& path);

// One line on stderr that rewrites itself, only on a terminal.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  void operator()(const std::string& stage, std::size_t done, std::size_t total);

 private:
  std::string what_;
  bool shown_ = false, terminal_;
};

// No output may be one of the inputs, nor two outputs the same file, under whatever names ("" and
// "-" do not count): nothing is lost. Every command gives all files it reads and all it writes.
Status check_paths(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs);

// An input that a run refused (its shape, an index outside a table): the data is bad, not the
// usage.
Error bad_data(Error e);

void say(const std::string& line);  // to stderr
void say_warning(const std::string& line);
void say_note(const std::string& node, const std::string& message);  // node may be empty

// A .f8 file as it is; a .onnx file converted in memory to a float model (its Q/DQ evaluated).
Result<std::shared_ptr<const exec::Model>> load_model(const std::string& path,
                                                      exec::Verify verify = exec::Verify::header);
bool is_f8(const std::string& path);

// Where samples come from; the options every command with DATA has.
struct DataArgs {
  std::vector<std::string> data;
  bool stacked = false;
  std::vector<float> mean, std;  // images
  std::string size, layout = "nchw";
  std::size_t random_samples = 8;
  std::size_t max_samples = 0;     // 0: all
  std::vector<std::string> again;  // in place of `data`
  const std::vector<std::string>& paths() const { return again.empty() ? data : again; }
  bool given() const { return !paths().empty(); }
  bool random() const { return paths().size() == 1 && paths()[0] == "random"; }
};
void add_data_options(CLI::App& app, DataArgs& args, const std::string& flag,
                      const std::string& help, bool required);
// `inputs` and the files that the data is read from, for check_paths(): also those inside folders,
// of --calib where --recalib replaces it, and of NAME=FILE.
std::vector<std::string> with_data(std::vector<std::string> inputs, const DataArgs& args);
// The files that "FILE" or "NAME=FILE" can mean and that are there.
std::vector<std::string> named_files(const std::string& argument);
void add_threads_option(CLI::App& app, int& threads);
// For fixes of a report: forgets the data options in front of it (--stacked, --mean, ...).
void add_recalib_option(CLI::App& app, DataArgs& args);

// The samples with at most max_samples of them.
struct OpenedData {
  std::unique_ptr<data::Samples> all;
  std::unique_ptr<quant::SampleSource> source;
  quant::SampleSource* operator->() const { return source.get(); }
  quant::SampleSource& operator*() const { return *source; }
};
Result<OpenedData> open_data(const DataArgs& args, const graph::Graph& g);

// "12.3 MB"
std::string readable_bytes(double bytes);
// "31.4 dB", "exact", "-"
std::string decibels(const std::optional<double>& db, bool exact);
// A file name for a tensor: '/' becomes '_'.
std::string file_name_of(const std::string& tensor);

using report::error_json;
using report::number_or_null;

// The commands.
Command add_convert(CLI::App& app);
Command add_fold(CLI::App& app);
Command add_run(CLI::App& app);
Command add_report(CLI::App& app);
Command add_bench(CLI::App& app);
Command add_inspect(CLI::App& app);
Command add_check(CLI::App& app);
Command add_calibrate(CLI::App& app);
Command add_merge(CLI::App& app);

}  // namespace fold8::cli
