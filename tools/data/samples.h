// Samples for calibration and reports from what a user has on disk (the DATA argument), or random
// ones.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "quant/sample_source.h"
#include "runtime/graph/graph.h"
#include "tools/data/image.h"

namespace fold8::data {

// paths: files or folders of .npz (array names = inputs), .npy (one input), pictures (one input),
// folders test_data_set_* with input_N.pb, or a folder that holds such folders; or the single word
// "random".
struct DataOptions {
  std::vector<std::string> paths;
  bool stacked = false;  // axis 0 of each array counts the samples
  PictureOptions picture;
  std::uint64_t seed = 1;  // random
  std::size_t random_samples = 8;
  std::map<std::string, std::int64_t> extents;  // random: of symbols by name; others are 1
};

class Samples : public quant::SampleSource {
 public:
  const std::vector<std::string>& notes() const {
    return notes_;
  }  // conversions made so far, each once

 protected:
  void note(const std::string& text);
  std::vector<std::string> notes_;
};

// Opens everything, reads nothing large. No sample at all is an error. Samples are in the order of
// the paths; inside a folder by name.
Result<std::unique_ptr<Samples>> open_samples(const DataOptions& options, const graph::Graph& g);

// The files that samples at these paths are in, those inside folders too. Paths where there are no
// samples give none, or themselves: whether they can be opened is not asked here.
std::vector<std::string> files_of(const std::vector<std::string>& paths);

}  // namespace fold8::data
