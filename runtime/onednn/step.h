// One oneDNN primitive as a step of a plan.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "runtime/core/tensor.h"
#include "runtime/onednn/api.h"
#include "runtime/ops/op_impl.h"

namespace fold8::onednn {

// What the makers of steps share. One per process.
struct Library {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  bool exact_int8 = false;  // VNNI: products do not saturate
};

// Sets the calling thread's OpenMP team to one for its life. oneDNN partitions at creation and at
// execution.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

class PrimitiveStep final : public ops::Step {
 public:
  PrimitiveStep(const Library& library, dnnl::primitive primitive, const MemoryDesc& scratchpad,
                double macs);

  // Which operand of the operator an argument of the primitive reads or writes.
  void bind_input(int argument, const MemoryDesc& desc, std::size_t operand);
  void bind_output(int argument, const MemoryDesc& desc);
  // An argument that does not change: weights, biases.
  void bind_constant(int argument, dnnl::memory memory);

  Status run(const ops::RunContext& ctx) const override;
  std::size_t scratch_bytes() const override { return scratchpad_bytes_; }
  double macs() const override { return macs_; }

 private:
  struct Bound {
    dnnl::memory memory;
    std::size_t operand = 0;
    bool output = false;
  };
  void bind(int argument, const MemoryDesc& desc, std::size_t operand, bool output);

  dnnl::engine engine_;
  dnnl::primitive primitive_;
  mutable dnnl::stream stream_;
  std::size_t scratchpad_bytes_ = 0;
  double macs_ = 0;
  mutable dnnl::memory scratchpad_;
  mutable std::vector<Bound>
      bound_;  // handles are set each run: a step runs on one thread at a time
  std::unordered_map<int, dnnl::memory> arguments_;
};

// Copies `from` (its bytes in the order of `desc`) into what the primitive wants; executed once,
// while planning.
dnnl::memory reordered(const Library& library, const MemoryDesc& desc, const void* from,
                       const MemoryDesc& wanted);

}  // namespace fold8::onednn
