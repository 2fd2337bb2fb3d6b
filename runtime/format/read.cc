#include <cstring>

#include "runtime/format/f8.h"
#include "runtime/format/files.h"
#include "runtime/format/layout.h"
#include "runtime/format/read_graph.h"
#include "runtime/graph/verify.h"

namespace fold8::format {
namespace {

struct Bytes {
  const std::byte* data = nullptr;
  std::size_t size = 0;
};

// [offset, offset + bytes) lies in a file of `size` bytes; no overflow.
bool inside(std::uint64_t offset, std::uint64_t bytes, std::uint64_t size) {
  return offset <= size && bytes <= size - offset;
}

Result<FileHeader> read_header(Bytes file) {
  if (file.size < sizeof(FileHeader))
    return invalid_model("too short for a .f8 file (" + std::to_string(file.size) + " bytes)");
  FileHeader h;
  std::memcpy(&h, file.data, sizeof h);
  if (h.magic != kMagic) return invalid_model("not a .f8 file (no FOLD8 at its start)");
  if (checksum(&h, kHeaderChecked) != h.header_checksum)
    return invalid_model("the header is damaged (checksum)");
  if (h.major != kFormatMajor)
    return unsupported("format version " + std::to_string(h.major) + "." + std::to_string(h.minor) +
                       "; this fold8 reads " + std::to_string(kFormatMajor) + ".x: " +
                       (h.major > kFormatMajor ? "written by a newer fold8, update it"
                                               : "convert the model again"));
  if (h.file_bytes != file.size)
    return invalid_model("the file has " + std::to_string(file.size) + " bytes, its header says " +
                         std::to_string(h.file_bytes) + ": an incomplete copy?");
  if (h.graph_offset % sizeof(std::uint64_t) != 0 || h.graph_offset < sizeof(FileHeader) ||
      !inside(h.graph_offset, h.graph_bytes, file.size) || h.data_offset % kAlignment != 0 ||
      !inside(h.data_offset, h.data_bytes, file.size) || h.data_bytes < kTailPadding)
    return invalid_model("the header points outside the file");
  return h;
}

Result<const fb::Model*> verify_graph_section(Bytes section) {
  if (section.size >= FLATBUFFERS_MAX_BUFFER_SIZE)
    return invalid_model("the graph section is too large");
  const std::size_t max_tables = section.size / 8 + 1;  // a table takes at least 8 bytes
  flatbuffers::Verifier verifier(reinterpret_cast<const std::uint8_t*>(section.data), section.size,
                                 /*max_depth=*/4 * kMaxGraphDepth + 8,
                                 static_cast<flatbuffers::uoffset_t>(max_tables));
  if (!fb::VerifyModelBuffer(verifier))
    return invalid_model("the graph section is damaged (FlatBuffers verifier)");
  const fb::Model* model = fb::GetModel(section.data);
  if (model->graph() == nullptr) return invalid_model("the file has no graph");
  if (model->features() != nullptr && model->features()->size() > 0)
    return unsupported("written by a newer fold8: needs '" + model->features()->Get(0)->str() +
                       "'; update fold8");
  return model;
}

Result<std::vector<std::shared_ptr<const Buffer>>> read_tensors(
    const fb::Model& model, Bytes data, bool verify_data,
    const std::shared_ptr<const void>& owner) {
  std::vector<std::shared_ptr<const Buffer>> tensors;
  if (model.tensors() == nullptr) return tensors;
  const std::uint64_t usable = data.size - kTailPadding;
  for (const fb::Tensor* t : *model.tensors()) {
    if (t->offset() % kAlignment != 0 || !inside(t->offset(), t->size(), usable))
      return invalid_model("tensor data " + std::to_string(tensors.size()) +
                           " lies outside the data section");
    const std::byte* bytes = data.data + t->offset();
    if (verify_data && checksum(bytes, t->size()) != t->checksum())
      return invalid_model("tensor data " + std::to_string(tensors.size()) +
                           " is damaged (checksum)");
    tensors.push_back(Buffer::borrow(bytes, t->size(), owner));
  }
  return tensors;
}

Result<Loaded> read_aligned(Bytes file, bool verify_data,
                            const std::shared_ptr<const void>& owner) {
  FOLD8_TRY(const FileHeader h, read_header(file));
  const Bytes section{file.data + h.graph_offset, h.graph_bytes};
  if (checksum(section.data, section.size) != h.graph_checksum)
    return invalid_model("the graph section is damaged (checksum)");
  FOLD8_TRY(const fb::Model* model, verify_graph_section(section));
  const Bytes data{file.data + h.data_offset, h.data_bytes};
  FOLD8_TRY(const auto tensors, read_tensors(*model, data, verify_data, owner));
  Budget budget(section.size);
  FOLD8_TRY(graph::Graph g, read_graph(*model->graph(), ReadContext{tensors, budget}));
  FOLD8_CHECK_OK(graph::verify(g));
  return Loaded{std::move(g), file.size};
}

}  // namespace

Result<Loaded> read_bytes(const void* data, std::size_t bytes, bool verify_data,
                          std::shared_ptr<const void> owner) {
  if (owner != nullptr && reinterpret_cast<std::uintptr_t>(data) % kAlignment == 0)
    return read_aligned({static_cast<const std::byte*>(data), bytes}, verify_data, owner);
  // Kernels need weights aligned, and constants must outlive the caller's bytes.
  const auto copy = Buffer::allocate(bytes);
  if (bytes > 0) std::memcpy(copy->mutable_data(), data, bytes);
  return read_aligned({copy->data(), bytes}, verify_data, copy);
}

Result<Loaded> read_file(const std::string& path, bool verify_data) {
  FOLD8_TRY(const auto mapping, map_file(path));
  auto loaded = read_bytes(mapping->data, mapping->bytes, verify_data, mapping);
  if (!loaded.ok()) return in_context("'" + path + "'", loaded.error());
  return loaded;
}

}  // namespace fold8::format
