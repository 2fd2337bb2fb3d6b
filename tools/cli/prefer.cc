#include "tools/cli/prefer.h"

#include "runtime/kernels/kernel_table.h"
#include "tools/data/byte_stream.h"

namespace fold8::cli {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;

Result<std::string> read_table(const std::string& path) {
  auto text = data::read_small_file(path, kMostBytes);
  if (!text.ok()) return in_context("the cost table", text.error());
  return text;
}

Result<fusion::CostTable> from_file(const PreferArgs& args) {
  FOLD8_TRY(const std::string text, read_table(args.cost_table));
  FOLD8_TRY(auto table, fusion::CostTable::parse(text, args.cost_table));
  if (!args.target.empty() && args.target != table.target())
    return invalid_argument("--target " + args.target + ": " + args.cost_table +
                            " was measured on " + table.target());
  return table;
}

Result<fusion::CostTable> shipped(const std::string& target) {
  const auto text = fusion::shipped_cost_table(target);
  if (!text)
    return invalid_argument("--target " + target + ": no cost table ships for it, only for " +
                            fusion::shipped_cost_table_names() + "; --cost-table gives another");
  return fusion::CostTable::parse(*text, "the cost table of " + target);
}

Result<std::string> target_of_this_machine() {
  FOLD8_TRY(const kernels::Target* best, kernels::select_target());
  for (const kernels::Target& t : kernels::targets())  // best first
    if (&t >= best && t.cpu_can_run() && fusion::shipped_cost_table(t.name))
      return std::string(t.name);
  return invalid_argument("--prefer speed: no cost table ships for " + std::string(best->name) +
                          "; name one of " + fusion::shipped_cost_table_names() +
                          " with --target, or a file with --cost-table");
}

}  // namespace

void add_prefer_options(CLI::App& app, PreferArgs& args) {
  app.add_option("--prefer", args.prefer,
                 "int8: every layer that can be INT8 is; speed: those stay float that INT8 would "
                 "make slower on the target, for the shapes of the first sample")
      ->capture_default_str();
  app.add_option("--target", args.target,
                 "For --prefer speed: the instruction set whose cost table ships with fold8, "
                 "e.g. avx2 (default: the best of this machine)");
  app.add_option("--cost-table", args.cost_table,
                 "For --prefer speed: a cost table (CSV) instead of one that ships");
}

Result<std::optional<fusion::CostTable>> open_cost_table(const PreferArgs& args) {
  using Table = std::optional<fusion::CostTable>;
  if (args.prefer != "int8" && args.prefer != "speed")
    return invalid_argument("--prefer " + args.prefer + ": expected int8 or speed");
  if (args.prefer == "int8") {
    if (!args.target.empty() || !args.cost_table.empty())
      return invalid_argument(std::string(args.target.empty() ? "--cost-table" : "--target") +
                              " goes with --prefer speed only: a .f8 file runs on every target");
    return Table();
  }
  if (!args.cost_table.empty()) {
    FOLD8_TRY(auto table, from_file(args));
    return Table(std::move(table));
  }
  std::string target = args.target;
  if (target.empty()) {
    FOLD8_TRY(target, target_of_this_machine());
  }
  FOLD8_TRY(auto table, shipped(target));
  return Table(std::move(table));
}

}  // namespace fold8::cli
