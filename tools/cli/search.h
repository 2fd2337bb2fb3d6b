// `convert --target-sqnr` and the like: options, the log of scored candidates, and how the search
// is told.
#pragma once

#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fusion/search_options.h"
#include "tools/cli/common.h"

namespace fold8::cli {

struct SearchArgs {
  std::optional<double> sqnr_db, cosine, accuracy_drop;
  std::string labels, log, at = "logits";
  bool given() const { return sqnr_db || cosine || accuracy_drop; }
};
void add_search_options(CLI::App& app, SearchArgs& args);

// Checked against the other flags of convert: `contradicts` names one that rules a search out, or
// is empty.
Result<fusion::Target> target_of(const SearchArgs& args, const DataArgs& data,
                                 const std::string& contradicts);

// One JSON object a line: {"fold8": version, "key", "what", "values"}. Lines of other versions, of
// other searches and a last one that was cut off are passed over. A log that cannot be read and
// written is refused when it is opened; what cannot be written later is a status() to warn of: the
// search goes on without.
class SearchLog : public fusion::SearchMemory {
 public:
  static Result<std::unique_ptr<SearchLog>> open(const std::string& path);
  ~SearchLog() override;  // takes away a file that it made and wrote nothing to
  const std::vector<double>* find(const std::string& key) const override;
  void add(const std::string& key, const std::string& what,
           const std::vector<double>& values) override;
  // Of the first line that could not be written.
  const Status& status() const { return status_; }

 private:
  explicit SearchLog(std::string path) : path_(std::move(path)) {}
  Status read();
  Error failed(const char* what) const;

  std::string path_;
  std::ofstream out_;
  bool cut_off_ = false, made_ = false;
  std::map<std::string, std::vector<double>> known_;
  Status status_ = ok_status();
};

void print_search(const fusion::SearchSummary& search, const SearchArgs& args,
                  const std::string& output);
Json search_json(const fusion::SearchSummary& search, const SearchArgs& args);

}  // namespace fold8::cli
