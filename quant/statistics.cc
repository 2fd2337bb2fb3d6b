#include "quant/statistics.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <type_traits>

#include "quant/statistics_generated.h"
#include "runtime/format/layout.h"
#include "runtime/graph/text.h"

namespace fold8::quant {
namespace {

struct Header {
  std::array<char, 8> magic = {'F', 'O', 'L', 'D', '8', 'S', '\x1a', '\n'};
  std::uint32_t major = kStatisticsMajor, minor = kStatisticsMinor;
  std::uint64_t file_bytes = 0;
  std::uint64_t checksum = 0;  // XXH3_64bits of the body
};
static_assert(sizeof(Header) == 32 && std::is_trivially_copyable_v<Header>);

// What no model reaches, but a file could announce.
constexpr std::size_t kMostTensors = 16384;  // a histogram takes 32 KiB of memory, stored or not
constexpr std::size_t kMostInputs = 1024;
constexpr std::uint64_t kMostCount = std::uint64_t{1} << 60;
constexpr std::int64_t kMostElements = std::int64_t{1} << 48;

using Builder = flatbuffers::FlatBufferBuilder;

flatbuffers::Offset<fb::Tensor> write_tensor(Builder& b, const std::string& name,
                                             const Observer& o) {
  const auto all = o.histogram().bins();
  const auto used = [](std::uint64_t n) { return n != 0; };
  const auto first = std::find_if(all.begin(), all.end(), used);
  const auto last = std::find_if(all.rbegin(), all.rend(), used).base();
  const auto first_bin = static_cast<std::uint32_t>(first == all.end() ? 0 : first - all.begin());
  const std::size_t count = first < last ? static_cast<std::size_t>(last - first) : 0;
  const auto name_at = b.CreateString(name);
  const auto bins = b.CreateVector(all.data() + first_bin, count);
  const auto lo = b.CreateVector(o.channel_min().data(), o.channel_min().size());
  const auto hi = b.CreateVector(o.channel_max().data(), o.channel_max().size());
  std::vector<flatbuffers::Offset<fb::Peak>> peaks;
  for (const Peak& p : o.peaks())
    if (p.size > 0) peaks.push_back(fb::CreatePeak(b, p.size, p.sample));
  const auto peaks_at = b.CreateVector(peaks);
  const auto halves = b.CreateVector(o.halves().data(), o.halves().size());
  return fb::CreateTensor(b, name_at, o.min(), o.max(), count == 0 ? 0 : o.histogram().exponent(),
                          first_bin, bins, lo, hi, o.channels_vary(), peaks_at, halves);
}

// Copies what a file holds; all of it together no more bytes than the file has, since parts of a
// FlatBuffer may be named many times.
class Reader {
 public:
  explicit Reader(std::size_t file_bytes) : left_(file_bytes) {}

  Result<CalibrationTable> table(const fb::Statistics& s) {
    CalibrationTable t;
    t.samples = s.samples();
    t.rows = s.rows();
    t.blank = s.blank();
    if (t.samples > kMostCount || t.rows > kMostCount || t.blank > t.samples)
      return damaged("impossible numbers of samples");
    FOLD8_CHECK_OK(seen(s, t));
    FOLD8_CHECK_OK(largest(s, t));
    const std::size_t count = s.tensors() == nullptr ? 0 : s.tensors()->size();
    if (count > kMostTensors) return damaged("more than 16384 tensors");
    for (std::size_t i = 0; i < count; ++i)
      FOLD8_CHECK_OK(tensor(*s.tensors()->Get(static_cast<flatbuffers::uoffset_t>(i)), t));
    return t;
  }

 private:
  static Error damaged(const std::string& what) {
    return invalid_model("the statistics are damaged: " + what);
  }

  template <class T>
  Result<std::vector<T>> copy(const flatbuffers::Vector<T>* v) {
    if (v == nullptr) return std::vector<T>();
    const std::size_t bytes = v->size() * sizeof(T);
    if (bytes > left_) return damaged("parts are repeated");
    left_ -= bytes;
    return std::vector<T>(v->begin(), v->end());
  }

  Status seen(const fb::Statistics& s, CalibrationTable& t) {
    if (s.seen() == nullptr) return ok_status();
    if (s.seen()->size() > SampleSet::kMost) return damaged("too many hashes of samples");
    std::uint64_t total = 0, before = 0;
    for (const fb::Seen* one : *s.seen()) {
      if ((total > 0 && one->hash() <= before) || one->times() == 0 ||
          one->times() > t.samples - total)
        return damaged("impossible hashes of samples");
      t.seen.add(one->hash(), one->times());
      total += one->times();
      before = one->hash();
    }
    return ok_status();
  }

  Status largest(const fb::Statistics& s, CalibrationTable& t) {
    if (s.largest() == nullptr) return ok_status();
    if (s.largest()->size() > kMostInputs) return damaged("too many inputs");
    for (const fb::Extents* e : *s.largest()) {
      FOLD8_TRY(const std::vector<std::int64_t> dims, copy(e->dims()));
      if (dims.size() > static_cast<std::size_t>(Shape::kMaxRank)) return damaged("rank above 8");
      std::int64_t elements = 1;
      for (const std::int64_t d : dims) {
        if (d < 0 || d > kMostElements || (d > 0 && elements > kMostElements / d))
          return damaged("an impossible shape");
        elements *= d;
      }
      t.largest.emplace_back(std::span<const std::int64_t>(dims));
    }
    return ok_status();
  }

  Status tensor(const fb::Tensor& stored, CalibrationTable& t) {
    if (stored.name() == nullptr) return damaged("a tensor without a name");
    if (stored.name()->size() > left_) return damaged("parts are repeated");
    left_ -= stored.name()->size();
    std::string name = stored.name()->str();
    if (!t.tensors.empty() && name <= t.tensors.rbegin()->first)
      return damaged("tensors are not in order");
    Observer::Stored o;
    o.min = stored.min();
    o.max = stored.max();
    o.channels_vary = stored.channels_vary();
    FOLD8_TRY(o.channel_min, copy(stored.channel_min()));
    FOLD8_TRY(o.channel_max, copy(stored.channel_max()));
    FOLD8_TRY(const std::vector<std::uint64_t> bins, copy(stored.bins()));
    auto histogram = Histogram::of(stored.exponent(), stored.first_bin(), bins);
    if (!histogram) return damaged("tensor '" + name + "' has an impossible histogram");
    o.histogram = *std::move(histogram);
    FOLD8_CHECK_OK(peaks(stored, o));
    auto observer = Observer::of(std::move(o));
    if (!observer) return damaged("tensor '" + name + "' has an impossible range");
    t.tensors.emplace_hint(t.tensors.end(), std::move(name), *std::move(observer));
    return ok_status();
  }

  Status peaks(const fb::Tensor& stored, Observer::Stored& o) {
    if (stored.peaks() != nullptr) {
      if (stored.peaks()->size() > o.peaks.size()) return damaged("too many peaks");
      for (flatbuffers::uoffset_t i = 0; i < stored.peaks()->size(); ++i)
        o.peaks[i] = {stored.peaks()->Get(i)->size(), stored.peaks()->Get(i)->sample()};
    }
    FOLD8_TRY(const std::vector<float> halves, copy(stored.halves()));
    if (halves.size() != o.halves.size()) return damaged("a tensor has no two halves");
    std::copy(halves.begin(), halves.end(), o.halves.begin());
    return ok_status();
  }

  std::size_t left_;
};

Status check_header(const void* data, std::size_t bytes) {
  Header h, ours;
  if (bytes < sizeof h)
    return invalid_model("too short for a file of statistics (" + std::to_string(bytes) +
                         " bytes)");
  std::memcpy(&h, data, sizeof h);
  if (h.magic != ours.magic)
    return invalid_model("not a file of statistics (`fold8 calibrate` writes them)");
  if (h.major != ours.major)
    return unsupported("statistics of version " + std::to_string(h.major) + "." +
                       std::to_string(h.minor) + "; this fold8 reads " +
                       std::to_string(ours.major) + ".x: calibrate again");
  if (h.file_bytes != bytes)
    return invalid_model("the file has " + std::to_string(bytes) + " bytes, its header says " +
                         std::to_string(h.file_bytes) + ": an incomplete copy?");
  if (h.checksum != format::checksum(static_cast<const char*>(data) + sizeof h, bytes - sizeof h))
    return invalid_model("the file is damaged (checksum)");
  return ok_status();
}

}  // namespace

std::uint64_t graph_id(const graph::Graph& g) {
  std::string text = graph::to_text(g);
  for (graph::ValueId v = 0; v < g.value_count(); ++v)
    if (g.is_constant(v)) {
      const Buffer& data = *g.value(v).constant;
      text += id_text(format::checksum(data.data(), data.size())) + "\n";
    }
  return format::checksum(text.data(), text.size());
}

std::string id_text(std::uint64_t id) {
  std::array<char, 16> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), id, 16).ptr;
  const std::string text(digits.data(), end);
  return std::string(digits.size() - text.size(), '0') + text;
}

Status Statistics::merge(const Statistics& other) {
  if (model != other.model)
    return invalid_argument("statistics of different models (" + id_text(model) + " and " +
                            id_text(other.model) + ") do not merge");
  return table.merge(other.table);
}

Result<std::string> to_bytes(const Statistics& s) {
  if (s.table.tensors.size() > kMostTensors)
    return unsupported("statistics of more than 16384 tensors");
  Builder b;
  std::vector<flatbuffers::Offset<fb::Tensor>> tensors;
  for (const auto& [name, observer] : s.table.tensors)
    tensors.push_back(write_tensor(b, name, observer));
  std::vector<flatbuffers::Offset<fb::Seen>> seen;
  for (const auto& [hash, times] : s.table.seen.times())
    seen.push_back(fb::CreateSeen(b, hash, times));
  std::vector<flatbuffers::Offset<fb::Extents>> largest;
  for (const Shape& shape : s.table.largest) {
    std::vector<std::int64_t> dims;
    for (int i = 0; i < shape.rank(); ++i) dims.push_back(shape.extent(i));
    largest.push_back(fb::CreateExtents(b, b.CreateVector(dims)));
  }
  const auto seen_at = b.CreateVector(seen);
  const auto largest_at = b.CreateVector(largest);
  const auto tensors_at = b.CreateVector(tensors);
  b.Finish(fb::CreateStatistics(b, s.model, s.table.samples, s.table.rows, s.table.blank, seen_at,
                                largest_at, tensors_at));
  Header h;
  h.file_bytes = sizeof h + b.GetSize();
  h.checksum = format::checksum(b.GetBufferPointer(), b.GetSize());
  std::string bytes(reinterpret_cast<const char*>(&h), sizeof h);
  bytes.append(reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize());
  return bytes;
}

Result<Statistics> statistics_from_bytes(const void* data, std::size_t bytes) {
  FOLD8_CHECK_OK(check_header(data, bytes));
  if (bytes >= FLATBUFFERS_MAX_BUFFER_SIZE) return invalid_model("the file is too large");
  // Where FlatBuffers wants its numbers aligned, whatever the caller's memory is.
  std::vector<std::uint64_t> body((bytes - sizeof(Header) + 7) / 8);
  const std::size_t size = bytes - sizeof(Header);
  if (size > 0) std::memcpy(body.data(), static_cast<const char*>(data) + sizeof(Header), size);
  const auto* start = reinterpret_cast<const std::uint8_t*>(body.data());
  flatbuffers::Verifier verifier(start, size, /*max_depth=*/8,
                                 static_cast<flatbuffers::uoffset_t>(size / 8 + 1));
  if (!fb::VerifyStatisticsBuffer(verifier))
    return invalid_model("the file is damaged (FlatBuffers verifier)");
  const fb::Statistics* stored = fb::GetStatistics(start);
  Statistics s;
  s.model = stored->model();
  FOLD8_TRY(s.table, Reader(bytes).table(*stored));
  return s;
}

bool are_statistics(const void* data, std::size_t bytes) {
  const Header ours;
  return bytes >= ours.magic.size() && std::memcmp(data, ours.magic.data(), ours.magic.size()) == 0;
}

}  // namespace fold8::quant
