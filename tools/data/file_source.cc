// One sample a file or folder.
#include <filesystem>

#include "tools/data/sources.h"
#include "tools/onnx/tensor_file.h"

namespace fold8::data {
namespace {

class FileSource final : public Samples {
 public:
  FileSource(std::vector<SampleFile> files, Signature signature, PictureOptions picture)
      : files_(std::move(files)), signature_(std::move(signature)), picture_(std::move(picture)) {}

  std::size_t count() const override { return files_.size(); }
  std::string describe(std::size_t i) const override { return files_[i].path; }

  Result<std::vector<Tensor>> sample(std::size_t i) override {
    if (i >= files_.size()) return invalid_argument("there is no sample " + std::to_string(i));
    const SampleFile& f = files_[i];
    switch (f.kind) {
      case FileKind::npz:
        return from_npz(f.path);
      case FileKind::npy:
        return from_places({{f.path, ""}});
      case FileKind::picture:
        return from_picture(f.path);
      case FileKind::test_data_set:
        return from_folder(f.path);
    }
    return internal_error("unknown kind of sample file");
  }

 private:
  Result<std::vector<Tensor>> from_npz(const std::string& path) {
    FOLD8_TRY(const auto places, match_arrays(path, signature_));
    return from_places(places);
  }

  // Type and shape are checked before the data is read.
  Result<std::vector<Tensor>> from_places(const std::vector<ArrayPlace>& places) {
    std::vector<Tensor> sample;
    SymbolExtents symbols;
    for (std::size_t i = 0; i < places.size(); ++i) {
      FOLD8_TRY(auto stream, places[i].open());
      FOLD8_TRY(const NpyHeader h, read_npy_header(*stream, places[i].what()));
      FOLD8_CHECK_OK(check_array(signature_, signature_.inputs[i], h.dtype, h.shape,
                                 "'" + places[i].file + "'", symbols));
      auto data = read_npy_data(*stream, h);
      if (!data.ok()) return in_context(places[i].what(), data.error());
      FOLD8_TRY(Tensor t, converted(*data, signature_.inputs[i]));
      sample.push_back(std::move(t));
    }
    return sample;
  }

  Result<std::vector<Tensor>> from_picture(const std::string& path) {
    auto t = picture_tensor(path, signature_.inputs[0].type, picture_);
    if (!t.ok()) return in_context("input '" + signature_.inputs[0].name + "'", t.error());
    return std::vector<Tensor>{*t};
  }

  Result<std::vector<Tensor>> from_folder(const std::string& folder) {
    std::vector<Tensor> sample(signature_.inputs.size());
    std::vector<bool> filled(sample.size(), false);
    SymbolExtents symbols;
    for (std::size_t n = 0; n < sample.size(); ++n) {
      const std::string path =
          (std::filesystem::path(folder) / ("input_" + std::to_string(n) + ".pb")).string();
      FOLD8_TRY(const onnx_io::TensorFile file, onnx_io::read_tensor_file(path));
      std::size_t at = n;  // by name; by number where there is none, or none that fits
      for (std::size_t k = 0; k < sample.size(); ++k)
        if (signature_.inputs[k].name == file.name) at = k;
      if (filled[at])
        return invalid_model("'" + path + "': input '" + signature_.inputs[at].name +
                             "' is given twice");
      filled[at] = true;
      FOLD8_CHECK_OK(check_array(signature_, signature_.inputs[at], file.tensor.dtype(),
                                 file.tensor.shape(), "'" + path + "'", symbols));
      FOLD8_TRY(sample[at], converted(file.tensor, signature_.inputs[at]));
    }
    return sample;
  }

  Result<Tensor> converted(const Tensor& t, const InputSpec& input) {
    if (t.dtype() != input.type.dtype)
      note("input '" + input.name + "': " + std::string(name(t.dtype())) +
           " data is converted to " + std::string(name(input.type.dtype)));
    return convert(t, input.type.dtype);
  }

  std::vector<SampleFile> files_;
  Signature signature_;
  PictureOptions picture_;
};

}  // namespace

std::unique_ptr<Samples> make_file_source(std::vector<SampleFile> files, Signature signature,
                                          PictureOptions picture) {
  return std::make_unique<FileSource>(std::move(files), std::move(signature), std::move(picture));
}

Result<std::vector<ArrayPlace>> match_arrays(const std::string& path, const Signature& signature) {
  FOLD8_TRY(const auto found, list_npz(path));
  if (signature.inputs.size() == 1 && found.size() == 1 && found[0].name == "arr_0") return found;
  std::vector<ArrayPlace> places;
  for (const InputSpec& i : signature.inputs) {
    bool present = false;
    for (const ArrayPlace& p : found)
      if (p.name == i.name) {
        places.push_back(p);
        present = true;
      }
    if (present) continue;
    std::string held;
    for (const ArrayPlace& p : found) held += (held.empty() ? "'" : ", '") + p.name + "'";
    return invalid_model("'" + path + "' holds no array for input '" + i.name + "': it holds " +
                         (held.empty() ? "none" : held) + ", the model's inputs are " +
                         list_names(signature));
  }
  return places;
}

}  // namespace fold8::data
