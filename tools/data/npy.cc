#include "tools/data/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "tools/data/zip.h"

namespace fold8::data {
namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr std::size_t kMaxHeader = 1 << 16;

struct Descr {
  const char* text;  // without the byte order
  DType dtype;
};
constexpr Descr kDescrs[] = {{"f4", DType::f32}, {"f8", DType::f64}, {"f2", DType::f16},
                             {"i1", DType::s8},  {"i2", DType::s16}, {"i4", DType::s32},
                             {"i8", DType::s64}, {"u1", DType::u8},  {"u2", DType::u16},
                             {"u4", DType::u32}, {"u8", DType::u64}, {"b1", DType::boolean}};

Error bad(const std::string& what, const std::string& why) {
  return invalid_model(what + " is no sound .npy array: " + why);
}

// The text behind 'key': in the header's dictionary.
Result<std::string> field(const std::string& header, const std::string& key,
                          const std::string& what) {
  const auto at = header.find("'" + key + "':");
  if (at == std::string::npos) return bad(what, "its header has no " + key);
  const auto from = header.find_first_not_of(' ', at + key.size() + 3);
  if (from == std::string::npos) return bad(what, "its header has no " + key);
  return header.substr(from);
}

Status parse_descr(const std::string& text, const std::string& what, NpyHeader& h) {
  const auto end = text.size() > 1 && text[0] == '\'' ? text.find('\'', 1) : std::string::npos;
  if (end == std::string::npos) return unsupported(what + ": structured arrays are not supported");
  const std::string descr = text.substr(1, end - 1);
  for (const Descr& d : kDescrs)
    if (descr.size() == 3 && std::strchr("<>|=", descr[0]) != nullptr &&
        descr.compare(1, 2, d.text) == 0) {
      h.dtype = d.dtype;
      h.swapped = descr[0] == '>';
      return ok_status();
    }
  return unsupported(what + ": arrays of type '" + descr + "' are not supported");
}

Status parse_shape(const std::string& text, const std::string& what, NpyHeader& h) {
  if (text.empty() || text[0] != '(') return bad(what, "its shape is no tuple");
  std::int64_t product = 1;
  std::size_t at = 1;
  for (;;) {
    while (at < text.size() && (text[at] == ' ' || text[at] == ',')) ++at;
    if (at >= text.size()) return bad(what, "its shape does not end");
    if (text[at] == ')') return ok_status();
    std::int64_t extent = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), extent);
    if (error != std::errc() || extent < 0)
      return bad(what, "its shape holds something else than sizes");
    at = static_cast<std::size_t>(end - text.data());
    if (at < text.size() && text[at] == 'L') ++at;  // Python 2
    if (h.shape.rank() == Shape::kMaxRank)
      return unsupported(what + " has more than " + std::to_string(Shape::kMaxRank) + " axes");
    if (extent > 0 && __builtin_mul_overflow(product, extent, &product))
      return bad(what, "its shape is impossible");
    h.shape.push_back(extent);
  }
}

void swap_bytes(std::byte* data, std::size_t count, std::size_t width) {
  for (std::size_t i = 0; i < count; ++i) std::reverse(data + i * width, data + (i + 1) * width);
}

// Column-major to row-major.
Tensor from_fortran(const Tensor& columns) {
  Tensor rows(columns.dtype(), columns.shape());
  const Shape& s = columns.shape();
  const std::size_t width = size_of(columns.dtype()), n = static_cast<std::size_t>(s.count());
  const std::byte* from = columns.buffer()->data();
  std::byte* to = static_cast<std::byte*>(rows.view().data);
  std::int64_t index[Shape::kMaxRank] = {};
  for (std::size_t i = 0; i < n; ++i) {  // i counts columns first
    std::size_t at = 0;
    for (int a = 0; a < s.rank(); ++a)
      at = at * static_cast<std::size_t>(s.extent(a)) + static_cast<std::size_t>(index[a]);
    std::memcpy(to + at * width, from + i * width, width);
    for (int a = 0; a < s.rank() && ++index[a] == s.extent(a); ++a) index[a] = 0;
  }
  return rows;
}

}  // namespace

Result<NpyHeader> read_npy_header(ByteStream& stream, const std::string& what) {
  unsigned char start[8];
  if (stream.size() < 10) return bad(what, "it is too short");
  FOLD8_CHECK_OK(stream.read(start, 8));
  if (std::memcmp(start, kMagic, 6) != 0) return bad(what, "it does not begin with NumPy's mark");
  std::uint32_t length = 0;
  const std::size_t width = start[6] == 1 ? 2 : 4;
  if (start[6] < 1 || start[6] > 3)
    return unsupported(what + ": .npy version " + std::to_string(start[6]));
  if (stream.size() < 8 + width) return bad(what, "it is too short");
  FOLD8_CHECK_OK(stream.read(&length, width));
  if (length > kMaxHeader || 8 + width + length > stream.size())
    return bad(what, "its header of " + std::to_string(length) + " bytes is too long");
  std::string text(length, '\0');
  FOLD8_CHECK_OK(stream.read(text.data(), length));
  NpyHeader h;
  FOLD8_TRY(const std::string descr, field(text, "descr", what));
  FOLD8_TRY(const std::string order, field(text, "fortran_order", what));
  FOLD8_TRY(const std::string shape, field(text, "shape", what));
  FOLD8_CHECK_OK(parse_descr(descr, what, h));
  FOLD8_CHECK_OK(parse_shape(shape, what, h));
  h.fortran = order.starts_with("True");
  const std::uint64_t stored = stream.size() - 8 - width - length,
                      needed = static_cast<std::uint64_t>(h.shape.count());
  if (needed > stored || needed * size_of(h.dtype) != stored)
    return bad(what, "shape " + to_string(h.shape) + " of " + std::string(name(h.dtype)) +
                         " does not fit the " + std::to_string(stored) + " bytes stored");
  return h;
}

Result<Tensor> read_npy_data(ByteStream& stream, const NpyHeader& h) {
  Tensor t(h.dtype, h.shape);
  auto* data = static_cast<std::byte*>(t.view().data);
  FOLD8_CHECK_OK(stream.read(data, h.data_bytes()));
  if (h.swapped) swap_bytes(data, static_cast<std::size_t>(h.shape.count()), size_of(h.dtype));
  if (h.dtype == DType::boolean)
    for (std::size_t i = 0; i < h.data_bytes(); ++i)
      data[i] = data[i] == std::byte{0} ? data[i] : std::byte{1};
  return h.fortran && h.shape.rank() > 1 ? from_fortran(t) : t;
}

Result<std::unique_ptr<ByteStream>> ArrayPlace::open() const {
  if (name.empty()) return open_file(file);
  FOLD8_TRY(const auto entries, list_zip(file));
  for (const ZipEntry& e : entries)
    if (e.name == name + ".npy" || e.name == name) return open_entry(file, e);
  return invalid_model("'" + file + "' holds no array '" + name + "'");
}

Result<std::vector<ArrayPlace>> list_npz(const std::string& path) {
  FOLD8_TRY(const auto entries, list_zip(path));
  std::vector<ArrayPlace> places;
  for (const ZipEntry& e : entries) {
    const std::string name =
        e.name.ends_with(".npy") ? e.name.substr(0, e.name.size() - 4) : e.name;
    for (const ArrayPlace& p : places)
      if (p.name == name)
        return invalid_model("'" + path + "' holds two arrays named '" + name + "'");
    places.push_back({path, name});
  }
  return places;
}

namespace {
Result<Tensor> read_place(const ArrayPlace& place) {
  FOLD8_TRY(auto stream, place.open());
  FOLD8_TRY(const NpyHeader header, read_npy_header(*stream, place.what()));
  auto t = read_npy_data(*stream, header);
  if (!t.ok()) return in_context(place.what(), t.error());
  return t;
}
}  // namespace

Result<Tensor> read_npy(const std::string& path) { return read_place({path, ""}); }

Result<NamedTensors> read_npz(const std::string& path) {
  FOLD8_TRY(const auto places, list_npz(path));
  NamedTensors tensors;
  for (const ArrayPlace& p : places) {
    FOLD8_TRY(Tensor t, read_place(p));
    tensors.emplace_back(p.name, std::move(t));
  }
  return tensors;
}

Result<std::string> npy_bytes(const TensorView& t) {
  const auto* d = std::find_if(std::begin(kDescrs), std::end(kDescrs),
                               [&](const Descr& x) { return x.dtype == t.dtype; });
  if (d == std::end(kDescrs))
    return unsupported("NumPy has no type for " + std::string(name(t.dtype)));
  std::string shape;
  for (Dim x : t.shape.dims())
    shape += std::to_string(x.value()) + (t.shape.rank() == 1 ? "," : ", ");
  if (t.shape.rank() > 1) shape.resize(shape.size() - 2);
  std::string header = "{'descr': '" + std::string(size_of(t.dtype) == 1 ? "|" : "<") + d->text +
                       "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.append(63 - (10 + header.size()) % 64, ' ');  // the data begins at a multiple of 64
  header += '\n';
  std::string out(kMagic, 6);
  out += '\1';
  out += '\0';
  const auto length = static_cast<std::uint16_t>(header.size());
  out.append(reinterpret_cast<const char*>(&length), 2);
  out += header;
  if (t.bytes() > 0) out.append(static_cast<const char*>(t.data), t.bytes());
  return out;
}

Status write_npy(const std::string& path, const TensorView& tensor) {
  FOLD8_TRY(const std::string bytes, npy_bytes(tensor));
  return write_file(path, bytes);
}

Status write_npz(const std::string& path,
                 const std::vector<std::pair<std::string, TensorView>>& tensors) {
  ZipWriter zip;
  for (const auto& [name, tensor] : tensors) {
    FOLD8_TRY(const std::string bytes, npy_bytes(tensor));
    FOLD8_CHECK_OK(zip.add(name + ".npy", bytes));
  }
  FOLD8_TRY(const std::string all, zip.finish());
  return write_file(path, all);
}

}  // namespace fold8::data
