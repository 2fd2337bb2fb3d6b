// Sample sources from the command line's DATA argument (used by tools/cli; implemented here).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "quant/sample_source.h"
#include "runtime/core/result.h"
#include "runtime/graph/graph.h"

namespace fold8::data {

struct SourceOptions {
  bool stacked = false;                  // axis 0 of each array counts the samples
  std::vector<float> mean, std;          // images: per channel, on values scaled to 0..1
  std::string size;                      // images: "224" or "224x320" (height x width)
  std::string layout = "nchw";           // images: nchw or nhwc
  std::size_t random_samples = 8;
  std::size_t max_samples = 0;           // 0: all
};

// Each item: a folder of .npz files or of test_data_set_* folders or of images, a .npz, a .npy (single input), an image, or
// "random". Files of a folder come in the order of their names. Errors name the file and the input.
Result<std::unique_ptr<quant::SampleSource>> open_samples(const std::vector<std::string>& items, const SourceOptions& options,
                                                          const graph::Graph& g);

// The names of the samples of a source opened from files ("0007", from 0007.npz), for naming results; index i as in sample(i).
Result<std::vector<std::string>> sample_names(const std::vector<std::string>& items, const SourceOptions& options);

}  // namespace fold8::data
