// ONNX files to graphs and back. The only place that sees protobuf. Opset and exporter differences
// end here.
#pragma once

#include <string>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/graph/graph.h"

namespace fold8::onnx_io {

struct ImportNote {  // something a person should know: a training flag ignored, an unused domain
                     // ...
  std::string node, message;
};

struct Imported {
  graph::Graph graph;  // verified; types inferred where possible
  std::vector<ImportNote> notes;
};

// One unsupported operator, domain or opset: node name, operator (with domain), reason.
struct Unsupported {
  std::string node, op, reason;
};

// Reads a .onnx file; external data only inside the model's own folder. Unsupported operators: one
// error (Code::unsupported) that lists all of them with node names.
Result<Imported> import_file(const std::string& path);
// As import_file, from bytes; `folder` is where external data may lie ("" : none allowed).
Result<Imported> import_bytes(const std::string& bytes, const std::string& folder);
// For `fold8 check`: everything that is unsupported, as data (empty: all of it runs).
Result<std::vector<Unsupported>> find_unsupported(const std::string& path);

// Writes a float graph (or one with Quantize/Dequantize) as plain ONNX, for any runtime. Operators
// without an ONNX counterpart at the chosen opset are an error naming the node.
Status export_file(const graph::Graph& g, const std::string& path);

}  // namespace fold8::onnx_io
