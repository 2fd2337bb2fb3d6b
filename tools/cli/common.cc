#include "tools/cli/common.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <unordered_map>

#include "fusion/convert.h"
#include "runtime/format/f8.h"
#include "tools/onnx/onnx.h"

namespace fold8::cli {

int exit_status(Code code) {
  switch (code) {
    case Code::invalid_argument:
      return 2;
    case Code::invalid_model:
      return 3;
    case Code::unsupported:
      return 4;
    case Code::io:
      return 5;
    case Code::internal:
      return 70;
  }
  return 70;
}

Status write_json(const Json& json, const std::string& path) {
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  if (path == "-") {
    std::cout << text << std::flush;
    return std::cout ? ok_status() : Status(io_error("cannot write to standard output"));
  }
  return format::write_atomically(path, text.data(), text.size());
}

namespace {

// Equal for the same regular file, under whatever name; for a file that is not there yet, for the
// same place. Empty: a device or a folder, which may be named twice.
std::string identity(const std::string& path) {
  namespace fs = std::filesystem;
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0)
    return S_ISREG(info.st_mode) ? fmt::format("{}:{}", info.st_dev, info.st_ino) : "";
  std::error_code ec;
  const fs::path there = fs::weakly_canonical(path, ec);
  return (ec ? fs::absolute(path, ec).lexically_normal() : there).string();
}

}  // namespace

Status check_paths(const std::vector<std::string>& inputs,
                   const std::vector<std::string>& outputs) {
  struct Use {
    std::string path;
    bool input = false;
  };
  std::unordered_map<std::string, Use> seen;
  for (const std::string& p : inputs)
    if (!p.empty()) seen.emplace(identity(p), Use{p, true});
  for (const std::string& p : outputs) {
    if (p.empty() || p == "-") continue;
    const std::string id = identity(p);
    if (id.empty()) continue;
    const auto [it, fresh] = seen.emplace(id, Use{p, false});
    if (fresh) continue;
    return invalid_argument(it->second.input
                                ? "'" + p + "' would overwrite the input '" + it->second.path +
                                      "': give the output another name"
                                : "two outputs go to '" + p + "'");
  }
  return ok_status();
}

Progress::Progress(std::string what)
    : what_(std::move(what)), terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void Progress::operator()(const std::string& stage, std::size_t done, std::size_t total) {
  if (!terminal_) return;
  shown_ = true;
  const std::string line = total > 0
                               ? fmt::format("\r\033[K{}: {} {}/{}", what_, stage, done, total)
                               : fmt::format("\r\033[K{}: {}", what_, stage);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

Error bad_data(Error e) {
  if (e.code == Code::invalid_argument) e.code = Code::invalid_model;
  return e;
}

void say(const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }
void say_warning(const std::string& line) { say("warning: " + line); }
void say_note(const std::string& node, const std::string& message) {
  say("note: " + (node.empty() ? "" : node + ": ") + message);
}

bool is_f8(const std::string& path) {
  return path.size() > 3 && path.substr(path.size() - 3) == ".f8";
}

Result<std::shared_ptr<const exec::Model>> load_model(const std::string& path,
                                                      exec::Verify verify) {
  if (is_f8(path)) return exec::Model::load(path, verify);
  FOLD8_TRY(auto imported, onnx_io::import_file(path));
  fusion::ConvertOptions options;
  options.float_only = true;
  FOLD8_TRY(auto converted, fusion::convert(std::move(imported.graph), nullptr, options));
  return exec::Model::from_graph(std::move(converted.graph));
}

std::string readable_bytes(double bytes) {
  if (bytes < 1024) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1024 * 1024) return fmt::format("{:.1f} KiB", bytes / 1024);
  return fmt::format("{:.1f} MiB", bytes / 1024 / 1024);
}

std::string decibels(const std::optional<double>& db, bool exact) {
  if (exact) return "exact";
  return db ? fmt::format("{:.1f} dB", *db) : "-";
}

std::string file_name_of(const std::string& tensor) {
  std::string name = tensor;
  for (char& c : name)
    if (c == '/' || c == '\0') c = '_';
  return name.empty() || name == "." || name == ".." ? "_" + name : name;
}

}  // namespace fold8::cli
