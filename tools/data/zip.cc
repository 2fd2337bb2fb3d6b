#include "tools/data/zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

namespace fold8::data {
namespace {

constexpr std::uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50,
                        kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr std::uint64_t kMaxEntries = 65536, kMaxDirectory = 64u << 20;
constexpr std::uint64_t kMaxDeflateRatio =
    1032;  // deflate cannot do better, so a larger claim is a lie

template <class T>
T get(const std::string& s, std::size_t at) {
  T v{};
  std::memcpy(&v, s.data() + at, sizeof v);
  return v;
}
template <class T>
void put(std::string& s, T v) {
  s.append(reinterpret_cast<const char*>(&v), sizeof v);
}

Error bad(const std::string& path, const std::string& why) {
  return invalid_model("'" + path + "' is no sound zip file: " + why);
}

struct Directory {
  std::uint64_t entries = 0, bytes = 0, offset = 0;
};

Result<std::string> read_at(const std::string& path, std::uint64_t offset, std::uint64_t bytes) {
  FOLD8_TRY(auto stream, open_file(path, offset, static_cast<std::int64_t>(bytes)));
  std::string s(static_cast<std::size_t>(bytes), '\0');
  FOLD8_CHECK_OK(stream->read(s.data(), s.size()));
  return s;
}

Result<Directory> find_directory(const std::string& path) {
  FOLD8_TRY(auto file, open_file(path));
  const std::uint64_t size = file->size();
  const std::uint64_t tail_bytes = std::min<std::uint64_t>(size, 22 + 65535);
  FOLD8_TRY(const std::string tail, read_at(path, size - tail_bytes, tail_bytes));
  if (tail.size() < 22) return bad(path, "it is too short");
  std::size_t at = tail.size() - 22;
  while (get<std::uint32_t>(tail, at) != kEnd)
    if (at-- == 0) return bad(path, "it has no directory");
  Directory d{get<std::uint16_t>(tail, at + 10), get<std::uint32_t>(tail, at + 12),
              get<std::uint32_t>(tail, at + 16)};
  const bool wide = d.entries == 0xffff || d.bytes == 0xffffffff || d.offset == 0xffffffff;
  if (wide && at >= 20 && get<std::uint32_t>(tail, at - 20) == kLocator64) {
    FOLD8_TRY(const std::string end, read_at(path, get<std::uint64_t>(tail, at - 12), 56));
    if (get<std::uint32_t>(end, 0) != kEnd64) return bad(path, "its zip64 directory is damaged");
    d = {get<std::uint64_t>(end, 32), get<std::uint64_t>(end, 40), get<std::uint64_t>(end, 48)};
  }
  if (d.entries > kMaxEntries || d.bytes > kMaxDirectory)
    return bad(path, "its directory is too large");
  if (d.offset > size || d.bytes > size - d.offset)
    return bad(path, "its directory lies outside the file");
  return d;
}

// Sizes and offset beyond 32 bits stand in extra field 1, in this order, each only where the short
// field is full.
Status read_zip64(const std::string& path, const std::string& extra, ZipEntry& e) {
  for (std::size_t at = 0; at + 4 <= extra.size();) {
    const std::size_t length = get<std::uint16_t>(extra, at + 2);
    if (length > extra.size() - at - 4) return bad(path, "an extra field is damaged");
    if (get<std::uint16_t>(extra, at) == 1) {
      std::size_t from = at + 4;
      for (std::uint64_t* field : {&e.size, &e.packed, &e.header}) {
        if (*field != 0xffffffff) continue;
        if (from + 8 > at + 4 + length) return bad(path, "an extra field is damaged");
        *field = get<std::uint64_t>(extra, from);
        from += 8;
      }
    }
    at += 4 + length;
  }
  return ok_status();
}

class InflateStream final : public ByteStream {
 public:
  InflateStream(std::unique_ptr<ByteStream> packed, std::uint64_t size)
      : packed_(std::move(packed)), left_(packed_->size()), size_(size), out_left_(size) {}
  ~InflateStream() override {
    if (started_) inflateEnd(&z_);
  }

  Status start() {
    if (inflateInit2(&z_, -MAX_WBITS) != Z_OK) return internal_error("zlib could not start");
    started_ = true;
    return ok_status();
  }
  Status read(void* to, std::size_t n) override {
    if (n > out_left_) return invalid_model("a zip entry ends early");
    out_left_ -= n;
    auto* out = static_cast<Bytef*>(to);
    while (n > 0) {
      if (z_.avail_in == 0 && left_ > 0) FOLD8_CHECK_OK(refill());
      const auto step = static_cast<uInt>(std::min<std::size_t>(n, 1u << 30));
      z_.next_out = out;
      z_.avail_out = step;
      const int code = inflate(&z_, Z_NO_FLUSH);
      const uInt made = step - z_.avail_out;
      out += made;
      n -= made;
      if (code != Z_OK && !(code == Z_STREAM_END && n == 0))
        return invalid_model("a zip entry is damaged or ends early");
    }
    return ok_status();
  }
  std::uint64_t size() const override { return size_; }

 private:
  Status refill() {
    const auto step = static_cast<std::size_t>(std::min<std::uint64_t>(left_, sizeof buffer_));
    FOLD8_CHECK_OK(packed_->read(buffer_, step));
    left_ -= step;
    z_.next_in = buffer_;
    z_.avail_in = static_cast<uInt>(step);
    return ok_status();
  }

  std::unique_ptr<ByteStream> packed_;
  std::uint64_t left_, size_, out_left_;
  z_stream z_{};
  bool started_ = false;
  Bytef buffer_[1 << 15];
};

}  // namespace

Result<std::vector<ZipEntry>> list_zip(const std::string& path) {
  FOLD8_TRY(const Directory where, find_directory(path));
  FOLD8_TRY(const std::string d, read_at(path, where.offset, where.bytes));
  std::vector<ZipEntry> entries;
  std::size_t at = 0;
  for (std::uint64_t i = 0; i < where.entries; ++i) {
    if (d.size() - at < 46 || get<std::uint32_t>(d, at) != kCentral)
      return bad(path, "its directory is damaged");
    const std::size_t name = get<std::uint16_t>(d, at + 28), extra = get<std::uint16_t>(d, at + 30),
                      comment = get<std::uint16_t>(d, at + 32);
    if (name + extra + comment > d.size() - at - 46) return bad(path, "its directory is damaged");
    const int flags = get<std::uint16_t>(d, at + 8), method = get<std::uint16_t>(d, at + 10);
    ZipEntry e;
    e.name = d.substr(at + 46, name);
    e.packed = get<std::uint32_t>(d, at + 20);
    e.size = get<std::uint32_t>(d, at + 24);
    e.header = get<std::uint32_t>(d, at + 42);
    if (flags & 1) return bad(path, "'" + e.name + "' is encrypted");
    if (method != 0 && method != 8)
      return bad(path, "'" + e.name + "' is packed with method " + std::to_string(method) +
                           "; only stored and deflated can be read");
    e.deflated = method == 8;
    FOLD8_CHECK_OK(read_zip64(path, d.substr(at + 46 + name, extra), e));
    if (!e.deflated && e.packed != e.size)
      return bad(path, "the sizes of '" + e.name + "' contradict each other");
    if (e.deflated && e.size / kMaxDeflateRatio > e.packed + 64)
      return bad(path, "'" + e.name + "' claims an impossible size");
    entries.push_back(std::move(e));
    at += 46 + name + extra + comment;
  }
  return entries;
}

Result<std::unique_ptr<ByteStream>> open_entry(const std::string& path, const ZipEntry& entry) {
  FOLD8_TRY(const std::string local, read_at(path, entry.header, 30));
  if (get<std::uint32_t>(local, 0) != kLocal)
    return bad(path, "'" + entry.name + "' is not where the directory says");
  const std::uint64_t data =
      entry.header + 30 + get<std::uint16_t>(local, 26) + get<std::uint16_t>(local, 28);
  if (entry.packed > INT64_MAX) return bad(path, "'" + entry.name + "' claims an impossible size");
  FOLD8_TRY(auto packed, open_file(path, data, static_cast<std::int64_t>(entry.packed)));
  if (!entry.deflated) return packed;
  auto stream = std::make_unique<InflateStream>(std::move(packed), entry.size);
  FOLD8_CHECK_OK(stream->start());
  return std::unique_ptr<ByteStream>(std::move(stream));
}

Status ZipWriter::add(const std::string& name, const std::string& bytes) {
  if (bytes.size() >= 0xffffffffu || body_.size() + bytes.size() >= 0xffffffffu - (1u << 20) ||
      count_ == 0xffff || name.size() > 0xffff)
    return unsupported("an .npz of more than 4 GiB or 65,535 arrays; write .npy files instead");
  const auto size = static_cast<std::uint32_t>(bytes.size()),
             at = static_cast<std::uint32_t>(body_.size());
  const auto crc = static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  std::string
      common;  // from "version needed" to "extra length"; the date is fixed: same data, same bytes
  put<std::uint16_t>(common, 20);
  put<std::uint16_t>(common, 0x800);  // the name is UTF-8
  put<std::uint16_t>(common, 0);
  put<std::uint16_t>(common, 0);
  put<std::uint16_t>(common, (1 << 5) | 1);
  put(common, crc);
  put(common, size);
  put(common, size);
  put(common, static_cast<std::uint16_t>(name.size()));
  put<std::uint16_t>(common, 0);
  put(body_, kLocal);
  body_ += common + name + bytes;
  put(directory_, kCentral);
  put<std::uint16_t>(directory_, 20);
  directory_ += common;
  directory_.append(10, '\0');  // comment, disk, attributes
  put(directory_, at);
  directory_ += name;
  ++count_;
  return ok_status();
}

Result<std::string> ZipWriter::finish() {
  const auto at = static_cast<std::uint32_t>(body_.size());
  std::string all = body_ + directory_;
  put(all, kEnd);
  put<std::uint32_t>(all, 0);
  put(all, count_);
  put(all, count_);
  put(all, static_cast<std::uint32_t>(directory_.size()));
  put(all, at);
  put<std::uint16_t>(all, 0);
  return all;
}

}  // namespace fold8::data
