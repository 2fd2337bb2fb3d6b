#include "runtime/exec/model.h"

#include "runtime/exec/nested.h"
#include "runtime/exec/packed.h"
#include "runtime/format/f8.h"
#include "runtime/graph/verify.h"

namespace fold8::exec {
namespace {

// std::bad_alloc ends here: a model too large for this machine is an error like any other.
template <class F>
auto with_memory_errors(F f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return io_error("out of memory while loading the model");
  }
}

// With the bodies of If, Loop and Scan.
Status verify_all(const graph::Graph& g) {
  FOLD8_CHECK_OK(graph::verify(g));
  return for_each_body(g, verify_all);
}

}  // namespace

Result<std::shared_ptr<const Model>> Model::make(graph::Graph g, std::size_t file_bytes) {
  FOLD8_CHECK_OK(for_each_body(g, verify_all));
  for (graph::ValueId v : g.inputs)
    if (!g.value(v).has_type)
      return invalid_model("graph input '" + g.value(v).name + "' has no type");
  FOLD8_CHECK_OK(check_packed(g));
  FOLD8_CHECK_OK(infer_types(g));
  std::shared_ptr<Model> model(new Model());
  FOLD8_TRY(model->target_, kernels::select_target());
  FOLD8_TRY(model->order_, g.topological_order());
  model->graph_ = std::move(g);
  model->file_bytes_ = file_bytes;
  return std::shared_ptr<const Model>(std::move(model));
}

Result<std::shared_ptr<const Model>> Model::from_graph(graph::Graph g) {
  return with_memory_errors([&]() -> Result<std::shared_ptr<const Model>> {
    FOLD8_CHECK_OK(graph::verify(g));
    return make(std::move(g), 0);
  });
}

Result<std::shared_ptr<const Model>> Model::load(const std::string& path, Verify verify) {
  return with_memory_errors([&]() -> Result<std::shared_ptr<const Model>> {
    FOLD8_TRY(format::Loaded loaded, format::read_file(path, verify == Verify::full));
    auto model = make(std::move(loaded.graph), loaded.file_bytes);
    if (!model.ok()) return in_context("'" + path + "'", std::move(model).error());
    return model;
  });
}

}  // namespace fold8::exec
