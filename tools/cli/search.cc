#include "tools/cli/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tools/cli/labels.h"
#include "tools/cli/version.h"

namespace fold8::cli {
namespace {

std::string percent(double share) { return fmt::format("{:.1f} %", share * 100); }

std::string target_text(const SearchArgs& args, const fusion::SearchSummary& s) {
  std::vector<std::string> parts;
  if (args.sqnr_db) parts.push_back(fmt::format("{:g} dB", *args.sqnr_db));
  if (args.cosine) parts.push_back(fmt::format("cosine {:g}", *args.cosine));
  if (args.accuracy_drop)
    parts.push_back(fmt::format("{} within {:g}", s.accuracy_measure, *args.accuracy_drop));
  return fmt::format("{}", fmt::join(parts, " and "));
}

constexpr std::string_view kLineBegin = "{\"fold8\":";  // of every line of a log

// "31.4 dB (30.2)": the value and its lower bound.
std::string with_bound(const std::optional<double>& value, const std::optional<double>& low,
                       const char* format) {
  if (!value) return "exact";
  return fmt::format(fmt::runtime(format), *value, low.value_or(*value));
}

std::string step_line(const fusion::SearchStep& t, const SearchArgs& args) {
  std::string measured;
  if (args.sqnr_db || !args.given())
    measured += with_bound(t.sqnr_db, t.sqnr_low_db, "{:6.2f} dB (at least {:.2f})");
  if (args.cosine)
    measured += "  cosine " + with_bound(t.cosine, t.cosine_low, "{:.6f} (at least {:.6f})");
  if (args.accuracy_drop && t.accuracy_drop)
    measured += fmt::format("  lost {:.4f}", *t.accuracy_drop);
  return fmt::format("    {:>7} float  {} on {} samples{}  {}", percent(t.float_share), measured,
                     t.samples, t.meets ? "  meets" : "", t.what);
}

// What nothing cheaper is as accurate as: the frontier that was walked.
std::vector<const fusion::SearchStep*> frontier(const fusion::SearchSummary& s) {
  std::vector<const fusion::SearchStep*> steps;
  for (const auto& t : s.steps)
    if (t.samples == s.samples) steps.push_back(&t);
  const auto accuracy = [](const fusion::SearchStep* t) {
    return t->sqnr_low_db.value_or(std::numeric_limits<double>::infinity());
  };
  std::stable_sort(steps.begin(), steps.end(), [&](auto* a, auto* b) {
    return a->cost != b->cost ? a->cost < b->cost : accuracy(a) > accuracy(b);
  });
  std::vector<const fusion::SearchStep*> best;
  for (const auto* t : steps)
    if (best.empty() || accuracy(t) > accuracy(best.back())) best.push_back(t);
  return best;
}

Json step_json(const fusion::SearchStep& t) {
  Json j{{"what", t.what},
         {"float_share", t.float_share},
         {"cost", t.cost},
         {"float_layers", t.float_layers},
         {"samples", t.samples}};
  j["sqnr_db"] = number_or_null(t.sqnr_db);
  j["sqnr_low_db"] = number_or_null(t.sqnr_low_db);
  j["cosine"] = number_or_null(t.cosine);
  j["cosine_low"] = number_or_null(t.cosine_low);
  j["accuracy_drop"] = number_or_null(t.accuracy_drop);
  j["meets"] = t.meets;
  return j;
}

}  // namespace

void add_search_options(CLI::App& app, SearchArgs& args) {
  app.add_option("--target-sqnr", args.sqnr_db,
                 "Search for the cheapest model whose worst output keeps this SQNR (dB): the "
                 "fewest multiply-adds left float. Exit 1 if none does (the most accurate one is "
                 "written)")
      ->check(CLI::Range(0.0, 200.0));
  app.add_option("--target-cosine", args.cosine, "The same for the cosine of the worst output")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option(
         "--max-accuracy-drop", args.accuracy_drop,
         "The same for accuracy: share of samples (0..1) that may be lost, against --labels, or "
         "without labels of samples that keep the float model's class")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--labels", args.labels,
                 "For --max-accuracy-drop: right classes of the calibration samples (.npy of "
                 "integers)");
  app.add_option("--target-at", args.at,
                 "Where targets are judged: logits (an output that is a Softmax by the tensor in "
                 "front of it) or outputs (as they are)")
      ->check(CLI::IsMember({"logits", "outputs"}))
      ->capture_default_str();
  app.add_option("--search-log", args.log,
                 "Remember scored candidates in this file, and do not score again what is in it: a "
                 "search that was interrupted goes on where it was");
}

Result<fusion::Target> target_of(const SearchArgs& args, const DataArgs& data,
                                 const std::string& contradicts) {
  fusion::Target target;
  if (!args.given()) {
    if (!args.labels.empty())
      return invalid_argument(
          "--labels goes with --max-accuracy-drop: without it labels decide nothing");
    if (!args.log.empty())
      return invalid_argument(
          "--search-log goes with --target-sqnr, --target-cosine or --max-accuracy-drop: without "
          "a target nothing is searched");
    return target;
  }
  const char* flag = args.sqnr_db  ? "--target-sqnr"
                     : args.cosine ? "--target-cosine"
                                   : "--max-accuracy-drop";
  if (!contradicts.empty())
    return invalid_argument(std::string(flag) +
                            " searches for an INT8 model: it does not go with " + contradicts);
  if (!data.given())
    return invalid_argument(std::string(flag) +
                            " needs calibration data (--calib DATA): candidates are judged on it");
  if (!args.labels.empty() && !args.accuracy_drop)
    return invalid_argument(
        "--labels goes with --max-accuracy-drop: without it labels decide nothing");
  if (!args.labels.empty() && !data.again.empty())
    return invalid_argument(
        "--labels are of the samples of --calib, and --recalib takes others: give those to --calib "
        "and their classes to --labels, without --recalib");
  target.sqnr_db = args.sqnr_db;
  target.cosine = args.cosine;
  target.at_outputs = args.at == "outputs";
  if (args.accuracy_drop) target.accuracy_drop = *args.accuracy_drop;
  if (!args.labels.empty()) {
    FOLD8_TRY(target.labels, read_labels(args.labels));
  }
  return target;
}

Result<std::unique_ptr<SearchLog>> SearchLog::open(const std::string& path) {
  std::unique_ptr<SearchLog> log;
  if (path.empty()) return log;
  if (path == "-")
    return invalid_argument(
        "--search-log -: a log is read and added to, which needs a file; name one");
  log.reset(new SearchLog(path));
  std::error_code none;
  const auto type = std::filesystem::status(path, none).type();  // opening a pipe would wait
  log->made_ = type == std::filesystem::file_type::not_found;
  if (!log->made_ && type != std::filesystem::file_type::regular)
    return io_error("--search-log '" + path + "' is no regular file");
  if (!log->made_) FOLD8_CHECK_OK(log->read());
  log->out_.open(path, std::ios::app);
  if (!log->out_) {
    log->made_ = false;
    return log->failed("cannot be written");
  }
  return log;
}

SearchLog::~SearchLog() {
  if (!made_) return;
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

Error SearchLog::failed(const char* what) const {
  return io_error("--search-log '" + path_ + "' " + what + ": " + std::strerror(errno));
}

Status SearchLog::read() {
  std::ifstream in(path_);
  if (!in) return failed("cannot be read");
  std::string begin(kLineBegin.size(), '\0');
  in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(in.gcount()));
  if (!kLineBegin.starts_with(begin))
    return invalid_argument("--search-log " + path_ +
                            ": this file is no log of a search, and is left as it is; name one "
                            "that is, or a new one");
  in.clear();
  in.seekg(0);
  for (std::string line; std::getline(in, line);) {
    cut_off_ = in.eof();  // no line end: the next line must not go on there
    const Json j = Json::parse(line, nullptr, false);
    if (!j.is_object() || j.value("fold8", Json()) != kVersion || !j.contains("key") ||
        !j["key"].is_string() || !j.contains("values") || !j["values"].is_array())
      continue;
    std::vector<double> values;
    for (const Json& v : j["values"])
      if (v.is_number()) values.push_back(v.get<double>());
    if (values.size() == j["values"].size())
      known_[j["key"].get<std::string>()] = std::move(values);
  }
  return ok_status();
}

const std::vector<double>* SearchLog::find(const std::string& key) const {
  const auto it = known_.find(key);
  return it == known_.end() ? nullptr : &it->second;
}

void SearchLog::add(const std::string& key, const std::string& what,
                    const std::vector<double>& values) {
  known_[key] = values;
  if (!status_.ok()) return;
  if (cut_off_) out_ << '\n';
  cut_off_ = made_ = false;
  out_ << Json{{"fold8", kVersion}, {"key", key}, {"what", what}, {"values", values}}.dump()
       << '\n';
  out_.flush();
  if (!out_) status_ = failed("could not be written to its end");
}

void print_search(const fusion::SearchSummary& s, const SearchArgs& args,
                  const std::string& output) {
  say(fmt::format(
      "  searched {} candidates for {} ({} scored, {} remembered), judged on {} samples, {}",
      s.steps.size(), target_text(args, s), s.scored, s.remembered, s.samples,
      s.held_out > 0 ? fmt::format("{} of them held out of calibration", s.held_out)
                     : std::string("too few to hold any out of calibration")));
  say(fmt::format("  judged at {}", fmt::join(s.judged, ", ")));
  say("  accuracy against cost (multiply-adds left float; in brackets the bound that counts):");
  for (const auto* t : frontier(s)) say(step_line(*t, args));
  const fusion::SearchStep& t = s.steps[s.chosen];
  if (s.met)
    say(fmt::format("  chosen: {} of the multiply-adds left float, {} layers ({})",
                    percent(t.float_share), t.float_layers, t.what));
  else
    say(fmt::format(
        "MISSED: no INT8 model that was tried keeps {}; {} is the most accurate one, with {} of "
        "the multiply-adds left float",
        target_text(args, s), output, percent(t.float_share)));
}

Json search_json(const fusion::SearchSummary& s, const SearchArgs& args) {
  Json j;
  j["target_sqnr_db"] = number_or_null(args.sqnr_db);
  j["target_cosine"] = number_or_null(args.cosine);
  j["max_accuracy_drop"] = number_or_null(args.accuracy_drop);
  if (!s.accuracy_measure.empty()) j["accuracy_measure"] = s.accuracy_measure;
  j["met"] = s.met;
  j["samples"] = s.samples;
  j["held_out"] = s.held_out;
  j["judged"] = s.judged;
  j["scored"] = s.scored;
  j["remembered"] = s.remembered;
  j["chosen"] = step_json(s.steps[s.chosen]);
  j["frontier"] = j["steps"] = Json::array();
  for (const auto* t : frontier(s)) j["frontier"].push_back(step_json(*t));
  for (const auto& t : s.steps) j["steps"].push_back(step_json(t));
  return j;
}

}  // namespace fold8::cli
