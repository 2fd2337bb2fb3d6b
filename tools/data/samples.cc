#include "tools/data/samples.h"

#include <algorithm>
#include <filesystem>

#include "tools/data/sources.h"

namespace fold8::data {
namespace {

namespace fs = std::filesystem;

std::optional<FileKind> kind_of(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name.ends_with(".npz")) return FileKind::npz;
  if (name.ends_with(".npy")) return FileKind::npy;
  if (is_picture_name(name)) return FileKind::picture;
  return std::nullopt;
}

bool is_test_data_set(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "input_0.pb", error);
}

// As people count: s2 before s10. Runs of digits compare as numbers, the rest as text.
bool comes_before(const std::string& a, const std::string& b) {
  const auto digits = [](const std::string& s, std::size_t i) {
    std::size_t end = i;
    while (end < s.size() && s[end] >= '0' && s[end] <= '9') ++end;
    return end - i;
  };
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    const std::size_t m = digits(a, i), n = digits(b, j);
    if (m == 0 || n == 0) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
      continue;
    }
    const auto number = [](std::string s) {
      s.erase(0, std::min(s.find_first_not_of('0'), s.size()));
      return s;
    };
    const std::string x = number(a.substr(i, m)), y = number(b.substr(j, n));
    if (x.size() != y.size()) return x.size() < y.size();
    if (x != y) return x < y;
    i += m, j += n;
  }
  if (i == a.size() && j == b.size()) return a < b;  // 01 and 1
  return i == a.size();
}

Result<std::vector<SampleFile>> files_in(const fs::path& folder) {
  if (is_test_data_set(folder))
    return std::vector<SampleFile>{{folder.string(), FileKind::test_data_set}};
  std::vector<SampleFile> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->is_directory(ignored)) {
      if (is_test_data_set(it->path()))
        files.push_back({it->path().string(), FileKind::test_data_set});
    } else if (const auto kind = kind_of(it->path())) {
      files.push_back({it->path().string(), *kind});
    }
  }
  if (error) return io_error("cannot list folder '" + folder.string() + "': " + error.message());
  std::sort(files.begin(), files.end(),
            [](const SampleFile& a, const SampleFile& b) { return comes_before(a.path, b.path); });
  if (files.empty())
    return invalid_model(
        "'" + folder.string() +
        "': there are no samples in this folder (.npz, .npy, pictures, test_data_set_*)");
  for (const SampleFile& f : files)
    if (f.kind != files[0].kind)
      return invalid_model("'" + folder.string() + "' mixes samples of several kinds: '" +
                           files[0].path + "' and '" + f.path + "'");
  return files;
}

Result<std::vector<SampleFile>> find_files(const std::vector<std::string>& paths) {
  std::vector<SampleFile> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::exists(path, error)) return io_error("there is no data at '" + path + "'");
    if (fs::is_directory(path, error)) {
      FOLD8_TRY(const auto inside, files_in(path));
      files.insert(files.end(), inside.begin(), inside.end());
    } else if (const auto kind = kind_of(path)) {
      files.push_back({path, *kind});
    } else {
      return invalid_argument("'" + path +
                              "': samples are .npz, .npy, pictures, or folders of them");
    }
  }
  if (files.empty()) return invalid_argument("no samples are given");
  return files;
}

}  // namespace

void Samples::note(const std::string& text) {
  if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(text);
}

std::vector<std::string> files_of(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  const auto collect = [&](const fs::path& folder, const auto& inner) {
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      std::error_code ignored;
      if (!it->is_directory(ignored))
        files.push_back(it->path().string());
      else
        inner(it->path());
    }
  };
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error))
      files.push_back(path);
    else
      collect(path, [&](const fs::path& folder) {
        if (is_test_data_set(folder)) collect(folder, [](const fs::path&) {});
      });
  }
  return files;
}

Result<std::unique_ptr<Samples>> open_samples(const DataOptions& options, const graph::Graph& g) {
  Signature signature = signature_of(g);
  if (options.paths.size() == 1 && options.paths[0] == "random")
    return make_random_source(options, std::move(signature));
  FOLD8_TRY(auto files, find_files(options.paths));
  const bool single = signature.inputs.size() == 1;
  for (const SampleFile& f : files) {
    if (!single && (f.kind == FileKind::npy || f.kind == FileKind::picture))
      return invalid_argument("'" + f.path + "' is one array, but the model has " +
                              std::to_string(signature.inputs.size()) + " inputs (" +
                              list_names(signature) + "); give .npz files with an array for each");
    if (options.stacked && f.kind != FileKind::npz && f.kind != FileKind::npy)
      return invalid_argument("'" + f.path + "': only .npz and .npy files can be stacked");
  }
  if (options.stacked) return make_stacked_source(std::move(files), std::move(signature));
  return make_file_source(std::move(files), std::move(signature), options.picture);
}

}  // namespace fold8::data
