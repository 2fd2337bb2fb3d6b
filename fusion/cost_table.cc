#include "fusion/cost_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <span>
#include <tuple>

#include "runtime/format/layout.h"
#include "runtime/kernels/math_double.h"

namespace fold8::fusion {
namespace {

constexpr std::string_view kHeader = "kind,m,n,k,int8_us,f32_us,int8_to_f32_us,f32_to_int8_us";
constexpr std::string_view kTargetComment = "# target:";
constexpr std::array kKinds = {CostKind::linear,       CostKind::conv,       CostKind::depthwise,
                               CostKind::grouped,      CostKind::transposed, CostKind::quantize,
                               CostKind::quantize_rows};
constexpr std::size_t kNeighbours = 4;
constexpr double kLeastUs = 1e-6, kMostUs = 1e9;
constexpr std::int64_t kMostExtent = (std::int64_t{1} << 31) - 1;

bool rounds_only(CostKind kind) {
  return kind == CostKind::quantize || kind == CostKind::quantize_rows;
}

std::string_view trimmed(std::string_view s) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!s.empty() && blank(s.front())) s.remove_prefix(1);
  while (!s.empty() && blank(s.back())) s.remove_suffix(1);
  return s;
}

std::string quoted(std::string_view s) { return "'" + std::string(s.substr(0, 80)) + "'"; }

// "linear, conv, .."
std::string kind_names() {
  std::string names;
  for (CostKind k : kKinds) names += (names.empty() ? "" : ", ") + std::string(name(k));
  return names;
}

template <class T>
std::optional<T> number(std::string_view text) {
  T v{};
  const char* end = text.data() + text.size();
  const auto r = std::from_chars(text.data(), end, v);
  return r.ec == std::errc() && r.ptr == end ? std::optional(v) : std::nullopt;
}

Result<std::int64_t> extent(std::string_view column, std::string_view text) {
  const auto v = number<std::int64_t>(text);
  if (!v || *v < 1 || *v > kMostExtent)
    return invalid_model(std::string(column) + " is " + quoted(text) +
                         ", expected a whole number from 1 to " + std::to_string(kMostExtent));
  return *v;
}

Result<double> microseconds(std::string_view column, std::string_view text, bool zero) {
  const auto v = number<double>(text);
  if (!v || !(zero ? *v == 0 : *v >= kLeastUs && *v <= kMostUs))
    return invalid_model(std::string(column) + " is " + quoted(text) + ", expected " +
                         (zero ? "0: it is no layer" : "microseconds from 1e-6 to 1e9"));
  return *v;
}

// Whose rows stand for a kind that has none.
std::span<const CostKind> stand_ins(CostKind kind) {
  static constexpr std::array depthwise = {CostKind::grouped, CostKind::conv};
  static constexpr std::array conv = {CostKind::conv};
  static constexpr std::array quantize = {CostKind::quantize};
  switch (kind) {
    case CostKind::depthwise:
      return depthwise;
    case CostKind::grouped:
    case CostKind::transposed:
      return conv;
    case CostKind::quantize_rows:
      return quantize;
    default:
      return {};
  }
}

double multiply_adds(const CostKey& key) {
  return static_cast<double>(key.m) * static_cast<double>(key.n) * static_cast<double>(key.k);
}

double squared_distance(const CostKey& a, const CostKey& b) {
  const auto axis = [](std::int64_t x, std::int64_t y) {
    const double d = kernels::log_f64(static_cast<double>(x) / static_cast<double>(y));
    return d * d;
  };
  return axis(a.m, b.m) + axis(a.n, b.n) + axis(a.k, b.k);
}

}  // namespace

std::string_view name(CostKind kind) {
  switch (kind) {
    case CostKind::linear:
      return "linear";
    case CostKind::conv:
      return "conv";
    case CostKind::depthwise:
      return "depthwise";
    case CostKind::grouped:
      return "grouped";
    case CostKind::transposed:
      return "transposed";
    case CostKind::quantize:
      return "quantize";
    case CostKind::quantize_rows:
      return "quantize_rows";
  }
  return "";
}

// Of one line, without comments.
Result<CostTable::Row> CostTable::parse_row(std::string_view line) {
  std::array<std::string_view, 8> field;
  std::size_t count = 0;
  for (std::string_view rest = line;; ++count) {
    const std::size_t comma = rest.find(',');
    if (count < field.size()) field[count] = trimmed(rest.substr(0, comma));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (++count != field.size())
    return invalid_model(std::to_string(count) + " fields, expected 8: " + std::string(kHeader));
  const auto kind =
      std::find_if(kKinds.begin(), kKinds.end(), [&](CostKind k) { return name(k) == field[0]; });
  if (kind == kKinds.end())
    return invalid_model("unknown kind " + quoted(field[0]) + "; known are " + kind_names());
  Row row;
  row.key.kind = *kind;
  FOLD8_TRY(row.key.m, extent("m", field[1]));
  FOLD8_TRY(row.key.n, extent("n", field[2]));
  FOLD8_TRY(row.key.k, extent("k", field[3]));
  FOLD8_TRY(row.cost.int8_us, microseconds("int8_us", field[4], false));
  const bool zero = rounds_only(*kind);
  FOLD8_TRY(row.cost.f32_us, microseconds("f32_us", field[5], zero));
  FOLD8_TRY(row.cost.int8_to_f32_us, microseconds("int8_to_f32_us", field[6], zero));
  FOLD8_TRY(row.cost.f32_to_int8_us, microseconds("f32_to_int8_us", field[7], zero));
  return row;
}

Result<CostTable> CostTable::parse(std::string_view text, const std::string& origin) {
  CostTable table;
  table.digest_ = format::checksum(text.data(), text.size());
  std::set<std::tuple<CostKind, std::int64_t, std::int64_t, std::int64_t>> seen;
  bool header = false;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const std::string place = origin + ":" + std::to_string(number);
    if (line.starts_with(kTargetComment)) {
      if (!table.target_.empty()) return invalid_model(place + ": a second target");
      table.target_ = trimmed(line.substr(kTargetComment.size()));
    } else if (line.empty() || line.front() == '#') {
      continue;
    } else if (!header) {
      if (line != kHeader)
        return invalid_model(place + ": expected the header " + quoted(kHeader) + ", found " +
                             quoted(line));
      header = true;
    } else {
      const auto row = parse_row(line);
      if (!row.ok()) return in_context(place, row.error());
      if (!seen.emplace(row->key.kind, row->key.m, row->key.n, row->key.k).second)
        return invalid_model(place + ": the same kind, m, n and k as in a line before");
      table.rows_.push_back(*row);
    }
  }
  if (!header)
    return invalid_model(origin + ": no cost table: the header " + quoted(kHeader) + " is missing");
  if (table.rows_.empty()) return invalid_model(origin + ": the cost table has no rows");
  if (table.target_.empty())
    return invalid_model(origin + ": no line '# target: NAME' says what was measured");
  return table;
}

std::vector<const CostTable::Row*> CostTable::rows_of(CostKind kind) const {
  std::vector<const Row*> rows;
  const auto collect = [&](CostKind k) {
    for (const Row& row : rows_)
      if (row.key.kind == k) rows.push_back(&row);
    return !rows.empty();
  };
  if (collect(kind)) return rows;
  for (CostKind k : stand_ins(kind))
    if (collect(k)) break;
  return rows;
}

std::optional<Cost> CostTable::estimate(const CostKey& key) const {
  struct Near {
    double squared;
    const Row* row;
  };
  std::vector<Near> near;
  const std::vector<const Row*> rows = rows_of(key.kind);
  for (const Row* row : rows) near.push_back({squared_distance(key, row->key), row});
  if (near.empty()) return std::nullopt;
  std::stable_sort(near.begin(), near.end(),
                   [](const Near& a, const Near& b) { return a.squared < b.squared; });
  near.resize(std::min(near.size(), kNeighbours));
  if (near[0].squared == 0) return near[0].row->cost;
  Cost cost;
  for (double Cost::*time :
       {&Cost::int8_us, &Cost::f32_us, &Cost::int8_to_f32_us, &Cost::f32_to_int8_us}) {
    double weights = 0, sum = 0;  // of ln(us per multiply-add)
    double least = kMostUs;
    for (const Row* row : rows) least = std::min(least, row->cost.*time);
    for (const auto& [squared, row] : near) {
      if (row->cost.*time == 0) continue;
      weights += 1 / squared;
      sum += kernels::log_f64(row->cost.*time / multiply_adds(row->key)) / squared;
    }
    if (weights > 0)
      cost.*time = std::max(least, kernels::exp_f64(sum / weights) * multiply_adds(key));
  }
  return cost;
}

}  // namespace fold8::fusion
