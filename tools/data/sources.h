// The kinds of sources behind open_samples().
#pragma once

#include "tools/data/conform.h"
#include "tools/data/npy.h"
#include "tools/data/samples.h"

namespace fold8::data {

// One sample a file or folder: .npz, .npy, picture, test_data_set folder.
enum class FileKind { npz, npy, picture, test_data_set };
struct SampleFile {
  std::string path;
  FileKind kind{};
};
std::unique_ptr<Samples> make_file_source(std::vector<SampleFile> files, Signature signature,
                                          PictureOptions picture);

// Rows of .npz and .npy files, one after another.
Result<std::unique_ptr<Samples>> make_stacked_source(std::vector<SampleFile> files,
                                                     Signature signature);

Result<std::unique_ptr<Samples>> make_random_source(const DataOptions& options,
                                                    Signature signature);

// The array of each input of the model in an .npz, in the model's order: all of them; other arrays
// (labels) are left alone. A single unnamed array ("arr_0", as numpy.savez names it) may serve a
// single input.
Result<std::vector<ArrayPlace>> match_arrays(const std::string& path, const Signature& signature);

}  // namespace fold8::data
