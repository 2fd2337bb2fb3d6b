#include "runtime/onednn/step.h"

#include <omp.h>

namespace fold8::onednn {

OneThread::OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
OneThread::~OneThread() { omp_set_num_threads(before_); }

PrimitiveStep::PrimitiveStep(const Library& library, dnnl::primitive primitive,
                             const MemoryDesc& scratchpad, double macs)
    : engine_(library.engine),
      primitive_(std::move(primitive)),
      stream_(library.engine),
      scratchpad_bytes_(scratchpad.get_size()),
      macs_(macs),
      scratchpad_(scratchpad, library.engine, DNNL_MEMORY_NONE) {
  arguments_.emplace(DNNL_ARG_SCRATCHPAD, scratchpad_);
}

void PrimitiveStep::bind(int argument, const MemoryDesc& desc, std::size_t operand, bool output) {
  dnnl::memory memory(desc, engine_, DNNL_MEMORY_NONE);
  arguments_.emplace(argument, memory);
  bound_.push_back({std::move(memory), operand, output});
}

void PrimitiveStep::bind_input(int argument, const MemoryDesc& desc, std::size_t operand) {
  bind(argument, desc, operand, false);
}
void PrimitiveStep::bind_output(int argument, const MemoryDesc& desc) {
  bind(argument, desc, 0, true);
}
void PrimitiveStep::bind_constant(int argument, dnnl::memory memory) {
  arguments_.emplace(argument, std::move(memory));
}

Status PrimitiveStep::run(const ops::RunContext& ctx) const {
  const OneThread one_thread;
  try {
    for (Bound& b : bound_)
      b.memory.set_data_handle(b.output ? ctx.outputs[b.operand] : ctx.inputs[b.operand]);
    scratchpad_.set_data_handle(ctx.scratch);
    primitive_.execute(stream_, arguments_);
    stream_.wait();
  } catch (const dnnl::error& e) {
    return internal_error(std::string("oneDNN: ") + e.what());
  }
  return ok_status();
}

dnnl::memory reordered(const Library& library, const MemoryDesc& desc, const void* from,
                       const MemoryDesc& wanted) {
  const OneThread one_thread;
  dnnl::memory source(desc, library.engine, const_cast<void*>(from));
  dnnl::memory target(wanted, library.engine);
  dnnl::stream stream(library.engine);
  dnnl::reorder(source, target).execute(stream, source, target);
  stream.wait();
  return target;
}

}  // namespace fold8::onednn
