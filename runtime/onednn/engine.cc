#include "runtime/exec/engine.h"

#include "runtime/kernels/kernel_table.h"
#include "runtime/onednn/parts.h"

namespace fold8::onednn {
namespace {

class OnednnEngine final : public exec::Engine {
 public:
  explicit OnednnEngine(bool exact_int8) { library_.exact_int8 = exact_int8; }
  std::string_view name() const override { return "onednn"; }

  Result<StepPtr> prepare(const graph::Op& op, const ops::PrepareContext& c) const override {
    const OneThread one_thread;
    try {
      if (const auto* conv = std::get_if<graph::Conv>(&op))
        return make_convolution(library_, *conv, c);
      if (const auto* linear = std::get_if<graph::Linear>(&op))
        return make_linear(library_, *linear, c);
      if (const auto* matmul = std::get_if<graph::MatMul>(&op))
        return make_matmul(library_, *matmul, c);
      if (const auto* pool = std::get_if<graph::Pool>(&op)) return make_pooling(library_, *pool, c);
    } catch (const dnnl::error&) {
      return StepPtr();  // what oneDNN refuses runs on our own kernels
    }
    return StepPtr();
  }

 private:
  Library library_;
};

// FOLD8_TARGET caps oneDNN too. It must be told before its first use; later calls change nothing.
dnnl::cpu_isa cap_for(std::string_view target) {
  if (target == "avx512_vnni") return kEveryIsa;
  if (target == "avx512") return dnnl::cpu_isa::avx512_core;
  if (target == "avx_vnni") return dnnl::cpu_isa::avx2_vnni;
  return dnnl::cpu_isa::avx2;
}

Result<const exec::Engine*> create(const kernels::Target& target) {
  try {
    (void)dnnl::set_max_cpu_isa(cap_for(target.name));
    const bool vnni = target.name.find("vnni") != std::string_view::npos;
    static const OnednnEngine engine(vnni);
    return static_cast<const exec::Engine*>(&engine);
  } catch (const dnnl::error& e) {
    return unsupported(std::string("oneDNN does not start: ") + e.what());
  }
}

}  // namespace
}  // namespace fold8::onednn

extern "C" __attribute__((visibility("default")))
const fold8::exec::EngineEntry fold8_engine_entry = {fold8::exec::kEngineAbi,
                                                     fold8::onednn::create};
