// Factors of tensors that smoothing rescaled (graph::Value::rescale), kept in the metadata of a
// plain ONNX file: key "fold8.rescale.TENSOR", value "AXIS FACTOR FACTOR ...", original = stored *
// factor. Other runtimes ignore them; a report of the file against the original network multiplies
// them back.
#pragma once

#include <onnx/onnx_pb.h>

#include "runtime/core/result.h"
#include "runtime/graph/graph.h"

namespace fold8::onnx_io {

void write_rescale(const graph::Graph& g, onnx::ModelProto& model);

// Takes them out of g.metadata (keys as import leaves them, "onnx." in front). Types must be known.
// Factors of tensors that are gone or have another shape since are dropped; text that is not of
// that form is an error.
Status read_rescale(graph::Graph& g);

}  // namespace fold8::onnx_io
