#include "tests/api/allocation_models.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "fusion/convert.h"
#include "runtime/format/f8.h"
#include "tools/data/samples.h"
#include "tools/onnx/onnx.h"

namespace fold8::testing {

std::vector<AllocationCase> allocation_cases() {
  return {
      {"Cnn", "digits_cnn.onnx", false, {1, 1, 28, 28}, true},
      {"CnnQat", "digits_cnn_qat.onnx", false, {1, 1, 28, 28}, true},
      {"LayerNormTransformer", "digits_ln.onnx", false, {1, 1, 28, 28}, true},
      {"LayerNormTransformerDynamic", "digits_ln.onnx", true, {1, 1, 28, 28}, true},
      {"RmsNormTransformer", "digits_rms.onnx", false, {1, 1, 28, 28}, true},
      {"CnnDynamic", "digits_cnn.onnx", true, {1, 1, 28, 28}, true},
  };
}

std::string convert_to_file(const AllocationCase& c) {
  const std::string folder = std::string(FOLD8_SOURCE_DIR) + "/tests/data/",
                    path = ::testing::TempDir() + "fold8_allocation_" + std::to_string(::getpid()) +
                           "_" + c.name + ".f8";
  auto imported = onnx_io::import_file(folder + c.onnx);
  if (!imported.ok()) return ADD_FAILURE() << imported.error().message, path;
  data::DataOptions options;
  options.paths = {folder + "digits_calib.npz"};
  options.stacked = true;
  auto samples = data::open_samples(options, imported->graph);
  if (!samples.ok()) return ADD_FAILURE() << samples.error().message, path;
  fusion::ConvertOptions convert;
  convert.search = false;
  if (c.dynamic) convert.quantize.activations = fusion::Activations::dynamic;
  auto converted = fusion::convert(std::move(imported->graph), samples->get(), convert);
  if (!converted.ok()) return ADD_FAILURE() << converted.error().message, path;
  const auto written = format::write_file(converted->graph, path);
  if (!written.ok()) ADD_FAILURE() << written.error().message;
  return path;
}

}  // namespace fold8::testing
