// Damaged and hostile files: an Error, never a crash, an outside read or a large allocation.
#include <gmock/gmock.h>

#include <cstring>

#include "runtime/format/f8.h"
#include "runtime/format/layout.h"
#include "runtime/format/model_generated.h"
#include "tests/format/sample_graph.h"
#include "tests/support/guarded_buffer.h"

namespace fold8 {
namespace {

using ::testing::HasSubstr;

std::string sample_bytes() { return format::to_bytes(testing::sample_graph()).value(); }

// Reads bytes that end at an unmapped page and start on a cache line, as a mapping would.
Result<format::Loaded> read(std::string bytes, bool verify_data = true) {
  testing::GuardedBuffer<char> guarded(bytes.size());
  if (!bytes.empty()) std::memcpy(guarded.data(), bytes.data(), bytes.size());
  const auto owner = std::make_shared<int>();  // so that it is read where it lies
  auto loaded = format::read_bytes(guarded.data(), bytes.size(), verify_data, owner);
  if (loaded.ok()) {
    // Constants borrow from the guarded memory, which is about to go.
    for (graph::ValueId v = 0; v < loaded->graph.value_count(); ++v)
      loaded->graph.value(v).constant = nullptr;
  }
  return loaded;
}

// Puts right what a hostile writer would put right: checksums and sizes.
void seal(std::string& bytes) {
  format::FileHeader h;
  std::memcpy(&h, bytes.data(), sizeof h);
  if (h.graph_offset <= bytes.size() && h.graph_bytes <= bytes.size() - h.graph_offset)
    h.graph_checksum = format::checksum(bytes.data() + h.graph_offset, h.graph_bytes);
  h.header_checksum = format::checksum(&h, format::kHeaderChecked);
  std::memcpy(bytes.data(), &h, sizeof h);
}

template <class F>
std::string with_header(F change) {
  std::string bytes = sample_bytes();
  format::FileHeader h;
  std::memcpy(&h, bytes.data(), sizeof h);
  change(h);
  std::memcpy(bytes.data(), &h, sizeof h);
  seal(bytes);
  return bytes;
}

TEST(Hostile, TruncatedAtEveryLength) {
  const std::string bytes = sample_bytes();
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    const auto r = read(bytes.substr(0, n));
    ASSERT_FALSE(r.ok()) << n;
    EXPECT_FALSE(r.error().message.empty());
  }
}

TEST(Hostile, LongerThanItsHeaderSays) {
  EXPECT_FALSE(read(sample_bytes() + std::string(64, '\0')).ok());
}

TEST(Hostile, EveryByteFlipped) {
  const std::string bytes = sample_bytes();
  format::FileHeader h;
  std::memcpy(&h, bytes.data(), sizeof h);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string flipped = bytes;
    flipped[i] = static_cast<char>(~flipped[i]);
    const bool covered = i < h.graph_offset + h.graph_bytes;
    EXPECT_EQ(read(flipped, /*verify_data=*/false).ok(), !covered) << i;
  }
}

TEST(Hostile, EveryByteOfTheGraphFlippedAndResealed) {
  const std::string bytes = sample_bytes();
  format::FileHeader h;
  std::memcpy(&h, bytes.data(), sizeof h);
  for (std::size_t i = 0; i < h.graph_bytes; ++i)
    for (const char mask : {'\x01', '\x80', '\xff'}) {
      std::string flipped = bytes;
      flipped[h.graph_offset + i] = static_cast<char>(flipped[h.graph_offset + i] ^ mask);
      seal(flipped);
      (void)read(flipped);  // loads or says why not; must only stay inside its memory
    }
}

TEST(Hostile, EveryByteOfTheHeaderFlippedAndResealed) {
  const std::string bytes = sample_bytes();
  for (std::size_t i = 0; i < format::kHeaderChecked; ++i)
    for (const char mask : {'\x01', '\x40', '\x80', '\xff'}) {
      std::string flipped = bytes;
      flipped[i] = static_cast<char>(flipped[i] ^ mask);
      seal(flipped);
      (void)read(flipped);
    }
}

TEST(Hostile, WordsOfTheGraphReplacedAndResealed) {
  const std::string bytes = sample_bytes();
  format::FileHeader h;
  std::memcpy(&h, bytes.data(), sizeof h);
  for (std::size_t i = 0; i + 4 <= h.graph_bytes; i += 4)
    for (const std::uint32_t word : {0u, 1u, 0x7fffffffu, 0x80000000u, 0xffffffffu, 0x40000000u}) {
      std::string changed = bytes;
      std::memcpy(changed.data() + h.graph_offset + i, &word, 4);
      seal(changed);
      (void)read(changed);
    }
}

TEST(Hostile, DataChecksumIsCheckedOnDemand) {
  std::string bytes = sample_bytes();
  format::FileHeader h;
  std::memcpy(&h, bytes.data(), sizeof h);
  bytes[h.data_offset] = static_cast<char>(bytes[h.data_offset] ^ 1);
  EXPECT_TRUE(read(bytes, false).ok());
  const auto checked = read(bytes, true);
  ASSERT_FALSE(checked.ok());
  EXPECT_THAT(checked.error().message, HasSubstr("damaged"));
}

TEST(Hostile, VersionsAreNamed) {
  const auto newer =
      read(with_header([](format::FileHeader& h) { h.major = format::kFormatMajor + 1; }));
  ASSERT_FALSE(newer.ok());
  EXPECT_EQ(newer.error().code, Code::unsupported);
  EXPECT_THAT(newer.error().message, HasSubstr("newer fold8"));
  EXPECT_FALSE(read(with_header([](format::FileHeader& h) { h.major = 0; })).ok());
  EXPECT_TRUE(
      read(with_header([](format::FileHeader& h) { h.minor = 7; })).ok());  // nothing unknown in it
}

TEST(Hostile, OffsetsThatOverflow) {
  constexpr std::uint64_t kHuge = ~std::uint64_t{0};
  for (const std::uint64_t v : {kHuge, kHuge - 63, kHuge / 2 + 1, std::uint64_t{1} << 40}) {
    EXPECT_FALSE(read(with_header([&](format::FileHeader& h) { h.graph_offset = v; })).ok());
    EXPECT_FALSE(read(with_header([&](format::FileHeader& h) { h.graph_bytes = v; })).ok());
    EXPECT_FALSE(
        read(with_header([&](format::FileHeader& h) { h.data_offset = v / 64 * 64; })).ok());
    EXPECT_FALSE(read(with_header([&](format::FileHeader& h) { h.data_bytes = v; })).ok());
    EXPECT_FALSE(read(with_header([&](format::FileHeader& h) { h.file_bytes = v; })).ok());
  }
}

// A file around a FlatBuffers graph of the test's own making.
std::string file_of(const format::fb::ModelT& model) {
  flatbuffers::FlatBufferBuilder b;
  b.Finish(format::fb::CreateModel(b, &model));
  format::FileHeader h;
  h.major = format::kFormatMajor;
  h.graph_offset = sizeof h;
  h.graph_bytes = b.GetSize();
  h.data_offset = round_up(h.graph_offset + h.graph_bytes, 64);
  h.data_bytes = 128;
  h.file_bytes = h.data_offset + h.data_bytes;
  std::string bytes(h.file_bytes, '\0');
  std::memcpy(bytes.data(), &h, sizeof h);
  std::memcpy(bytes.data() + h.graph_offset, b.GetBufferPointer(), b.GetSize());
  seal(bytes);
  return bytes;
}

// One input, one identity node.
format::fb::ModelT small_model() {
  format::fb::ModelT m;
  m.graph = std::make_unique<format::fb::GraphT>();
  for (const char* name : {"x", "y"}) {
    auto v = std::make_unique<format::fb::ValueT>();
    v->name = name;
    v->dims = {2};
    m.graph->values.push_back(std::move(v));
  }
  auto n = std::make_unique<format::fb::NodeT>();
  n->op = "identity";
  n->inputs = {0};
  n->outputs = {1};
  m.graph->nodes.push_back(std::move(n));
  m.graph->inputs = {0};
  m.graph->outputs = {1};
  return m;
}

template <class F>
std::string refusal(F change) {
  format::fb::ModelT m = small_model();
  change(m);
  const auto r = read(file_of(m));
  return r.ok() ? "" : r.error().message;
}

TEST(Hostile, SmallModelLoads) { EXPECT_TRUE(read(file_of(small_model())).ok()); }

TEST(Hostile, UnknownPartsAreFromANewerFold8) {
  const auto node = [](format::fb::ModelT& m) -> format::fb::NodeT& { return *m.graph->nodes[0]; };
  EXPECT_THAT(refusal([&](auto& m) { node(m).op = "hologram"; }),
              HasSubstr("newer fold8: operator 'hologram'"));
  EXPECT_THAT(refusal([&](auto& m) {
                node(m).attributes.push_back(std::make_unique<format::fb::AttributeT>());
                node(m).attributes[0]->name = "tint";
              }),
              HasSubstr("newer fold8: attribute 'tint'"));
  EXPECT_THAT(refusal([&](auto& m) {
                node(m).op = "cast";
                node(m).attributes.push_back(std::make_unique<format::fb::AttributeT>());
                node(m).attributes[0]->name = "to";
                node(m).attributes[0]->kind = format::fb::AttributeKind::enumerator;
                node(m).attributes[0]->text = "f2";
              }),
              HasSubstr("newer fold8: 'f2' as attribute 'to'"));
  EXPECT_THAT(refusal([](auto& m) { m.graph->values[0]->dtype = 99; }),
              HasSubstr("newer fold8: element type 99"));
  EXPECT_THAT(refusal([](auto& m) { m.graph->values[0]->layout = 99; }),
              HasSubstr("newer fold8: memory layout 99"));
  EXPECT_THAT(refusal([](auto& m) { m.features = {"zstd"}; }),
              HasSubstr("newer fold8: needs 'zstd'"));
  EXPECT_THAT(refusal([](auto& m) {
                m.graph->values[0]->quant = std::make_unique<format::fb::QuantT>();
                m.graph->values[0]->quant->granularity = 9;
              }),
              HasSubstr("granularity 9"));
}

TEST(Hostile, IdsAndRangesAreChecked) {
  for (const std::int32_t id : {-2, 2, 1000, INT32_MIN, INT32_MAX}) {
    EXPECT_NE(refusal([&](auto& m) { m.graph->nodes[0]->inputs = {id}; }), "") << id;
    EXPECT_NE(refusal([&](auto& m) { m.graph->nodes[0]->outputs = {id}; }), "") << id;
    EXPECT_NE(refusal([&](auto& m) { m.graph->inputs = {id}; }), "") << id;
    EXPECT_NE(refusal([&](auto& m) { m.graph->outputs = {id}; }), "") << id;
    EXPECT_NE(refusal([&](auto& m) { m.graph->values[0]->tensor = id; }), "") << id;
  }
  EXPECT_THAT(refusal([](auto& m) { m.graph->values[0]->dims = {-2}; }), HasSubstr("symbolic"));
  EXPECT_THAT(refusal([](auto& m) { m.graph->values[0]->dims = {INT64_MIN}; }),
              HasSubstr("symbolic"));
  EXPECT_THAT(refusal([](auto& m) { m.graph->values[0]->dims.assign(9, 1); }), HasSubstr("rank 9"));
  EXPECT_THAT(refusal([](auto& m) {
                m.graph->values[0]->rescale = {1};
                m.graph->values[0]->rescale_axis = 1;
              }),
              HasSubstr("rescale axis"));
  EXPECT_THAT(refusal([](auto& m) {
                m.graph->nodes[0]->op = "flatten";
                m.graph->nodes[0]->attributes.push_back(std::make_unique<format::fb::AttributeT>());
                m.graph->nodes[0]->attributes[0]->name = "axis";
              }),
              HasSubstr("wrong kind"));
}

TEST(Hostile, TensorsStayInsideTheDataSection) {
  const auto with_tensor = [](std::uint64_t offset, std::uint64_t size) {
    return refusal([&](auto& m) {
      m.tensors.push_back(std::make_unique<format::fb::TensorT>());
      m.tensors[0]->offset = offset;
      m.tensors[0]->size = size;
    });
  };
  EXPECT_THAT(with_tensor(0, 65), HasSubstr("outside"));  // would leave no padding behind it
  EXPECT_THAT(with_tensor(64, 1), HasSubstr("outside"));
  EXPECT_THAT(with_tensor(32, 1), HasSubstr("outside"));  // not aligned
  EXPECT_THAT(with_tensor(~std::uint64_t{63}, 64), HasSubstr("outside"));
  EXPECT_THAT(with_tensor(0, ~std::uint64_t{0}), HasSubstr("outside"));
}

TEST(Hostile, ConstantWithoutItsBytes) {
  EXPECT_THAT(refusal([](auto& m) {
                m.tensors.push_back(std::make_unique<format::fb::TensorT>());
                m.tensors[0]->checksum = format::checksum(nullptr, 0);
                auto v = std::make_unique<format::fb::ValueT>();
                v->name = "w";
                v->dims = {1 << 20, 1 << 20};
                v->tensor = 0;
                m.graph->values.push_back(std::move(v));
              }),
              HasSubstr("'w'"));
}

TEST(Hostile, SharedPartsCannotMultiply) {
  // One string of 64 KiB that 20,000 symbols point to: 1.3 GB if it were believed.
  flatbuffers::FlatBufferBuilder b;
  const auto big = b.CreateString(std::string(64 << 10, 'a'));
  const auto symbols =
      b.CreateVector(std::vector<flatbuffers::Offset<flatbuffers::String>>(20000, big));
  const auto g = format::fb::CreateGraph(b, 0, 0, 0, 0, symbols);
  b.Finish(format::fb::CreateModel(b, g));
  format::FileHeader h;
  h.major = format::kFormatMajor;
  h.graph_offset = sizeof h;
  h.graph_bytes = b.GetSize();
  h.data_offset = round_up(h.graph_offset + h.graph_bytes, 64);
  h.data_bytes = 64;
  h.file_bytes = h.data_offset + h.data_bytes;
  std::string bytes(h.file_bytes, '\0');
  std::memcpy(bytes.data(), &h, sizeof h);
  std::memcpy(bytes.data() + h.graph_offset, b.GetBufferPointer(), b.GetSize());
  seal(bytes);
  const auto r = read(bytes);
  ASSERT_FALSE(r.ok());
  EXPECT_THAT(r.error().message, HasSubstr("repeats its parts"));
}

}  // namespace
}  // namespace fold8
