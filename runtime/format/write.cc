#include <cstring>

#include "runtime/format/f8.h"
#include "runtime/format/files.h"
#include "runtime/format/layout.h"
#include "runtime/format/write_graph.h"

namespace fold8::format {
namespace {

// FlatBuffers offsets are signed 32 bit: a larger graph section cannot exist.
constexpr std::size_t kMaxGraphBytes = std::size_t{1} << 31;

// A file as pieces in order; constants are not copied.
struct Image {
  std::string head;  // header, graph, padding
  std::vector<std::shared_ptr<const Buffer>> owners;
  std::vector<Piece> pieces;
};

constexpr char kZeros[kTailPadding] = {};

// Describes the tensors and appends their pieces; the result is the size of the data section.
std::size_t place(flatbuffers::FlatBufferBuilder& b, const TensorPool& pool,
                  std::vector<flatbuffers::Offset<fb::Tensor>>& tensors, Image& image) {
  std::size_t at = 0;
  for (const auto& t : pool.entries()) {
    tensors.push_back(fb::CreateTensor(b, at, t.data->size(), t.checksum));
    const std::size_t padded = round_up(t.data->size(), kAlignment);
    image.owners.push_back(t.data);
    image.pieces.push_back({t.data->data(), t.data->size()});
    image.pieces.push_back({kZeros, padded - t.data->size()});
    at += padded;
  }
  image.pieces.push_back({kZeros, kTailPadding});
  return at + kTailPadding;
}

Result<Image> make_image(const graph::Graph& g) {
  TensorPool pool;
  flatbuffers::FlatBufferBuilder builder(1 << 16);
  FOLD8_TRY(const auto graph, write_graph(builder, g, pool));
  Image image;
  image.pieces.push_back({});  // the head
  std::vector<flatbuffers::Offset<fb::Tensor>> tensors;
  const std::size_t data_bytes = place(builder, pool, tensors, image);
  const auto fb_tensors = builder.CreateVector(tensors);
  const auto features = builder.CreateVectorOfStrings(std::vector<std::string>{});
  builder.Finish(fb::CreateModel(builder, graph, fb_tensors, features));
  if (builder.GetSize() >= kMaxGraphBytes)
    return unsupported("the graph is too large for a .f8 file (2 GB without weights)");

  FileHeader h;
  h.major = kFormatMajor;
  h.minor = kFormatMinor;
  h.graph_offset = sizeof(FileHeader);
  h.graph_bytes = builder.GetSize();
  h.data_offset = round_up(h.graph_offset + h.graph_bytes, kAlignment);
  h.data_bytes = data_bytes;
  h.file_bytes = h.data_offset + h.data_bytes;
  h.graph_checksum = checksum(builder.GetBufferPointer(), builder.GetSize());
  h.header_checksum = checksum(&h, kHeaderChecked);

  image.head.assign(h.data_offset, '\0');
  std::memcpy(image.head.data(), &h, sizeof h);
  std::memcpy(image.head.data() + h.graph_offset, builder.GetBufferPointer(), builder.GetSize());
  return image;
}

}  // namespace

Result<std::string> to_bytes(const graph::Graph& g) {
  FOLD8_TRY(Image image, make_image(g));
  image.pieces[0] = {image.head.data(), image.head.size()};
  std::string bytes;
  for (const Piece& p : image.pieces) bytes.append(static_cast<const char*>(p.data), p.bytes);
  return bytes;
}

Status write_file(const graph::Graph& g, const std::string& path) {
  FOLD8_TRY(Image image, make_image(g));
  image.pieces[0] = {image.head.data(), image.head.size()};
  return write_pieces(path, image.pieces);
}

}  // namespace fold8::format
