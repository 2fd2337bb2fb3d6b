// fold8: one binary, one file per sub-command. Talks on stderr, leaves data on stdout.
#include <fmt/format.h>
#include <malloc.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <new>
#include <system_error>
#include <vector>

#include "runtime/core/parallel.h"
#include "runtime/kernels/cpu.h"
#include "runtime/kernels/kernel_table.h"
#include "tools/cli/common.h"
#include "tools/cli/version.h"

namespace fold8::cli {
namespace {

struct Entry {
  CLI::App* app;
  Command run;
};

std::string version_text() {
  std::string targets;
  for (const kernels::Target& t : kernels::targets())
    targets += fmt::format("{}{}{}", targets.empty() ? "" : ", ", t.name,
                           t.cpu_can_run() ? "" : " (not on this CPU)");
  return fmt::format("fold8 {}\ncpu: {}\ntargets: {}\nengines: fold8{}\nlibraries: {}", kVersion,
                     kernels::cpu_brand(), targets, kEngines, kLibraries);
}

int report_error(const std::string& command, const Error& e) {
  say(fmt::format("fold8 {}: error: {}", command, e.message));
  if (e.code == Code::internal)
    say("This is a bug of fold8; please report it with the model if you can.");
  return exit_status(e.code);
}

// NaN passes every comparison with a bound: no option of any command takes it, nor an infinity.
Status check_finite(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_type_name().rfind("FLOAT", 0) != 0) continue;
    for (const std::string& text : option->results())
      if (!std::isfinite(std::strtod(text.c_str(), nullptr)))
        return invalid_argument(option->get_name() + " " + text + ": expected a finite number");
  }
  return ok_status();
}

// Nothing is named by an empty text, and what counts is not negative (CLI11 would take -1 for the
// largest number there is).
Status check_texts(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options())
    for (const std::string& text : option->results()) {
      if (text.empty())
        return invalid_argument(option->get_name() +
                                ": its value is empty; leave it out or give one");
      if (option->get_type_name().rfind("UINT", 0) == 0 && text.front() == '-')
        return invalid_argument(option->get_name() + " " + text + ": expected 0 or more");
    }
  return ok_status();
}

// Of every command alike, before it reads anything; also of those that run no kernel.
Status check_command(const CLI::App& command) {
  FOLD8_CHECK_OK(check_texts(command));
  FOLD8_CHECK_OK(check_finite(command));
  if (auto target = kernels::select_target(); !target.ok()) return std::move(target).error();
  return ok_status();
}

int run(int argc, char** argv) {
  CLI::App app{"fold8: INT8 inference for x86-64 CPUs: convert, run, report, bench"};
  app.require_subcommand(0, 1);
  bool version = false;
  app.add_flag("--version", version, "Version, targets, engines and libraries");
  std::vector<Entry> entries;
  const auto add = [&](const char* name, const char* help, Command (*declare)(CLI::App&)) {
    CLI::App* sub = app.add_subcommand(name, help);
    entries.push_back({sub, declare(*sub)});
  };
  add("convert", "ONNX model + calibration data -> one compiled .f8 file", add_convert);
  add("fold", "Fold BatchNorm and write plain float ONNX for any runtime", add_fold);
  add("run", "Run a model on inputs from files", add_run);
  add("report", "Compare two models, output by output and layer by layer", add_report);
  add("bench", "Latency, load time and memory", add_bench);
  add("inspect", "What is in a model: graph, types, why something was not folded", add_inspect);
  add("calibrate", "Measure ranges on samples; files of several runs merge", add_calibrate);
  add("merge", "Merge files of `fold8 calibrate` to that of one run over all samples", add_merge);
  add("check", "What of an ONNX model runs, what INT8 covers, what is refused", add_check);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e, std::cout, std::cerr);
    return code == 0 ? 0 : exit_status(Code::invalid_argument);
  }
  if (version) {
    std::cout << version_text() << "\n";
    return 0;
  }
  for (const Entry& entry : entries) {
    if (!entry.app->parsed()) continue;
    const std::string name = entry.app->get_name();
    if (const Status given = check_command(*entry.app); !given.ok())
      return report_error(name, given.error());
    try {
      const auto result = entry.run();
      return result.ok() ? *result : report_error(name, result.error());
    } catch (const std::bad_alloc&) {
      return report_error(name, io_error("out of memory"));
    } catch (const std::system_error& e) {
      return report_error(name, io_error(e.what()));
    } catch (const std::exception& e) {
      return report_error(name, internal_error(e.what()));
    }
  }
  std::cout << app.help();
  return exit_status(Code::invalid_argument);
}

}  // namespace
}  // namespace fold8::cli

// What was printed must have arrived: a full disk behind standard output is no success.
int main(int argc, char** argv) {
  // Copies of weights come and go: what is freed goes back to the system at once, instead of
  // staying in a heap that smaller pieces have been put behind.
  (void)mallopt(M_MMAP_THRESHOLD, 4 << 20);
  const int status = fold8::cli::run(argc, argv);
  if (std::cout.flush() || status != 0) return status;
  fold8::cli::say("fold8: error: cannot write to standard output");
  return fold8::cli::exit_status(fold8::Code::io);
}
