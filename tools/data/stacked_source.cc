// Arrays whose first axis counts the samples: row i of each is sample i. Rows are read where they
// are needed.
#include "tools/data/sources.h"

namespace fold8::data {
namespace {

struct Stack {
  ArrayPlace place;
  NpyHeader header;
  Shape row_shape;  // with a leading 1 where the model's input has that axis
  std::size_t row_bytes = 0;
  std::unique_ptr<ByteStream> stream;  // stands at row `next`
  std::size_t next = 0;
};

struct StackedFile {
  std::size_t rows = 0;
  std::vector<Stack> stacks;  // in the order of the model's inputs
};

class StackedSource final : public Samples {
 public:
  StackedSource(std::vector<StackedFile> files, Signature signature)
      : files_(std::move(files)), signature_(std::move(signature)) {
    for (const StackedFile& f : files_) count_ += f.rows;
  }

  std::size_t count() const override { return count_; }
  std::string describe(std::size_t i) const override {
    const auto [file, row] = locate(i);
    return files_[file].stacks[0].place.file + ", row " + std::to_string(row);
  }

  Result<std::vector<Tensor>> sample(std::size_t i) override {
    if (i >= count_) return invalid_argument("there is no sample " + std::to_string(i));
    const auto [file, row] = locate(i);
    std::vector<Tensor> sample;
    for (std::size_t k = 0; k < files_[file].stacks.size(); ++k) {
      Stack& s = files_[file].stacks[k];
      auto t = read_row(s, row);
      if (!t.ok()) return in_context(s.place.what() + ", row " + std::to_string(row), t.error());
      const DType to = signature_.inputs[k].type.dtype;
      if (t->dtype() != to)
        note("input '" + signature_.inputs[k].name + "': " + std::string(name(t->dtype())) +
             " data is converted to " + std::string(name(to)));
      FOLD8_TRY(Tensor ready, convert(*t, to));
      sample.push_back(std::move(ready));
    }
    return sample;
  }

 private:
  std::pair<std::size_t, std::size_t> locate(std::size_t i) const {
    std::size_t file = 0;
    while (i >= files_[file].rows) i -= files_[file++].rows;
    return {file, i};
  }

  Result<Tensor> read_row(Stack& s, std::size_t row) {
    if (!s.stream || row < s.next) {
      FOLD8_TRY(s.stream, s.place.open());
      FOLD8_TRY(const NpyHeader again, read_npy_header(*s.stream, s.place.what()));
      if (!(again.shape == s.header.shape) || again.dtype != s.header.dtype)
        return invalid_model("the file has changed");
      s.next = 0;
    }
    if (row > s.next)
      FOLD8_CHECK_OK(s.stream->skip(static_cast<std::uint64_t>(row - s.next) * s.row_bytes));
    NpyHeader one = s.header;
    one.shape = s.row_shape;
    auto t = read_npy_data(*s.stream, one);
    s.next = row + 1;
    if (!t.ok()) s.stream.reset();
    return t;
  }

  std::vector<StackedFile> files_;
  Signature signature_;
  std::size_t count_ = 0;
};

Result<Stack> open_stack(const ArrayPlace& place, const InputSpec& input,
                         const Signature& signature, SymbolExtents& symbols) {
  Stack s;
  s.place = place;
  FOLD8_TRY(auto stream, place.open());
  FOLD8_TRY(s.header, read_npy_header(*stream, place.what()));
  if (s.header.shape.rank() == 0)
    return invalid_model(place.what() + " is a single number, it has no axis that counts samples");
  if (s.header.fortran && s.header.shape.rank() > 1)
    return unsupported(
        place.what() +
        " is stored columns first; save numpy.ascontiguousarray of it to read its rows");
  s.row_shape = s.header.shape;
  // The model's own batch axis stays, as 1; a model without one gets rows of one axis less.
  if (s.header.shape.rank() == input.type.shape.rank())
    s.row_shape[0] = 1;
  else
    s.row_shape.erase(0);
  s.row_bytes = static_cast<std::size_t>(s.row_shape.count()) * size_of(s.header.dtype);
  FOLD8_CHECK_OK(check_array(signature, input, s.header.dtype, s.row_shape,
                             place.what() + ", each row", symbols));
  return s;
}

Result<StackedFile> open_stacked_file(const SampleFile& file, const Signature& signature) {
  std::vector<ArrayPlace> places{{file.path, ""}};
  if (file.kind == FileKind::npz) {
    FOLD8_TRY(places, match_arrays(file.path, signature));
  }
  StackedFile f;
  SymbolExtents symbols;
  for (std::size_t i = 0; i < places.size(); ++i) {
    FOLD8_TRY(Stack s, open_stack(places[i], signature.inputs[i], signature, symbols));
    const auto rows = static_cast<std::size_t>(s.header.shape.extent(0));
    if (i > 0 && rows != f.rows)
      return invalid_model("'" + file.path + "': array '" + places[i].name + "' has " +
                           std::to_string(rows) + " rows, '" + places[0].name + "' has " +
                           std::to_string(f.rows));
    f.rows = rows;
    f.stacks.push_back(std::move(s));
  }
  return f;
}

}  // namespace

Result<std::unique_ptr<Samples>> make_stacked_source(std::vector<SampleFile> files,
                                                     Signature signature) {
  if (signature.inputs.empty()) return invalid_argument("the model has no inputs");
  std::vector<StackedFile> opened;
  std::size_t rows = 0;
  for (const SampleFile& f : files) {
    FOLD8_TRY(StackedFile one, open_stacked_file(f, signature));
    rows += one.rows;
    opened.push_back(std::move(one));
  }
  if (rows == 0)
    return invalid_model("'" + files[0].path + "': there are no samples: the arrays have 0 rows");
  return std::unique_ptr<Samples>(
      std::make_unique<StackedSource>(std::move(opened), std::move(signature)));
}

}  // namespace fold8::data
