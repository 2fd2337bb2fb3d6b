#include "tools/onnx/op_map.h"

#include <unordered_map>

namespace fold8::onnx_io {
namespace {

using Table = std::unordered_map<std::string_view, MapFn>;

Table default_domain() {
  Table t;
  for (auto family : {attention_ops(), elementwise_ops(), linear_ops(), norm_ops(), pool_ops(),
                      quant_ops(), quant_linear_ops(), reduce_ops(), shape_ops(), slice_ops()})
    for (const MapEntry& e : family) t.emplace(e.op, e.map);
  return t;
}

Table microsoft_domain() {
  Table t;
  for (auto family : {grouped_query_ops(), microsoft_attention_ops(), microsoft_ops()})
    for (const MapEntry& e : family) t.emplace(e.op, e.map);
  return t;
}

constexpr std::string_view kControlFlow[] = {"If", "Loop", "Scan"};
constexpr std::string_view kRecurrent[] = {"LSTM", "GRU", "RNN"};
constexpr std::string_view kSequences[] = {
    "SequenceAt",         "SequenceConstruct", "SequenceEmpty",      "SequenceErase",
    "SequenceInsert",     "SequenceLength",    "SequenceMap",        "SplitToSequence",
    "ConcatFromSequence", "Optional",          "OptionalGetElement", "OptionalHasElement"};
constexpr std::string_view kRandom[] = {"Bernoulli",     "RandomNormal",      "RandomNormalLike",
                                        "RandomUniform", "RandomUniformLike", "Multinomial"};
constexpr std::string_view kStrings[] = {"StringNormalizer", "StringConcat", "StringSplit",
                                         "RegexFullMatch", "TfIdfVectorizer"};

bool among(std::span<const std::string_view> names, const std::string& op) {
  for (std::string_view n : names)
    if (n == op) return true;
  return false;
}

}  // namespace

MapFn find_map(std::string_view domain, std::string_view op) {
  static const Table standard = default_domain(), microsoft = microsoft_domain();
  const Table* table = domain.empty() || domain == "ai.onnx" ? &standard
                       : domain == "com.microsoft"           ? &microsoft
                                                             : nullptr;
  if (table == nullptr) return nullptr;
  const auto it = table->find(op);
  return it == table->end() ? nullptr : it->second;
}

std::string why_unsupported(const std::string& domain, const std::string& op) {
  if (!domain.empty() && domain != "ai.onnx" && domain != "com.microsoft")
    return "operators of domain '" + domain + "' are not supported";
  if (among(kControlFlow, op)) return "control flow with nested graphs is not supported";
  if (among(kRecurrent, op)) return "recurrent operators are not supported";
  if (among(kSequences, op)) return "sequences and optional values are not supported";
  if (among(kRandom, op))
    return "random numbers are not supported: results would not be reproducible";
  if (among(kStrings, op)) return "strings are not supported";
  return "there is no counterpart in fold8";
}

}  // namespace fold8::onnx_io
