// Where graph meets kernels. Every alternative of graph::Op has infer() and prepare() in
// runtime/ops/<op>.cc.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/core/parallel.h"
#include "runtime/core/result.h"
#include "runtime/core/tensor.h"
#include "runtime/graph/ops.h"
#include "runtime/kernels/kernel_table.h"

namespace fold8::ops {

// Small blocks that a thread keeps when they are given back: what planning makes comes and goes
// with every plan, and where a state grows with every run.
void* take_block(std::size_t bytes);  // throws std::bad_alloc
void give_block(void* block, std::size_t bytes) noexcept;

template <class T>
struct KeptAllocator {
  using value_type = T;
  KeptAllocator() = default;
  template <class U>
  KeptAllocator(const KeptAllocator<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(take_block(n * sizeof(T))); }
  void deallocate(T* p, std::size_t n) noexcept { give_block(p, n * sizeof(T)); }
  friend bool operator==(KeptAllocator, KeptAllocator) { return true; }
};
template <class T>
using KeptVector = std::vector<T, KeptAllocator<T>>;
using Dims = KeptVector<Dim>;

// The elements of a small integer tensor (rank 0 or 1, at most kMaxInts elements), known without
// running: shape arithmetic propagates them, so it costs nothing at run time. Elements may be
// symbols or unknown.
struct KnownInts {
  static constexpr int kMaxInts = 32;
  bool scalar = false;  // rank 0: exactly one element
  Dims values;
  // Small float tensors on the way to a Resize scale or back to integers: `reals` instead of
  // `values`.
  bool real = false;
  std::vector<double> reals;

  bool all_known() const;  // integers (or bool), every one a number
  std::size_t size() const { return real ? reals.size() : values.size(); }
};

// What infer() sees. The same code serves convert time (symbolic extents) and plan time (known
// extents).
class InferContext {
 public:
  struct Operand {
    const TensorType* type = nullptr;  // null: absent
    const KnownInts* ints = nullptr;   // null: not known
    const void* constant = nullptr;    // the bytes, of a constant in plain layout
  };
  struct Output {
    TensorType type;  // preset for outputs whose type is already decided (quantized, layout): infer
                      // fills dtype if `typed` is false, and the shape always
    bool wanted = true;  // false: absent
    bool typed = false;
    std::optional<KnownInts> ints;
    // The shape depends on the data (NonZero): `type.shape` has unknown extents, `bound` says how
    // many at most.
    std::optional<Shape> bound;
  };

  std::vector<Operand> inputs;
  std::vector<Output> outputs;

  bool has(std::size_t i) const { return i < inputs.size() && inputs[i].type != nullptr; }
  const TensorType& type(std::size_t i) const { return *inputs[i].type; }
  const Shape& shape(std::size_t i) const { return inputs[i].type->shape; }
  // Elements of integer operand i: from propagation or from a constant; nullopt if not known.
  std::optional<KnownInts> ints(std::size_t i) const;
  // Elements of a constant f32 operand; empty if it is not a constant.
  std::span<const float> floats(std::size_t i) const;
  // Elements of a small f32 or f64 operand: from propagation or from a constant; nullopt if not
  // known.
  std::optional<std::vector<double>> reals(std::size_t i) const;
  void set(std::size_t o, DType dtype, const Shape& shape);  // respects a decided dtype
};

// Shapes, dtypes and known integers of the outputs. Errors say what is wrong and name operands by
// position
// ("input 1 is [768,3072], expected inner size 512"); callers add the node's name.
Status infer(const graph::Op& op, InferContext& ctx);

// Which integer operands must be known before the output's shape is (Reshape: 1, Slice: 1,2,3,4,
// ...): a plan is cut in front of an operator one of whose needed operands is computed from data.
bool needs_known_ints(const graph::Op& op, std::size_t operand);

// One prepared operator: shapes, strides and kernels are chosen; run() allocates nothing and may
// run on any thread, one at a time.
class Step;

// An operator whose output `output` is operand `input` with more behind it along `axis`. Both may
// lie in one block of memory: then what is there stays where it is. `spread`: also where something
// comes in front of the axis (heads), each of it `capacity` rows from the next.
struct Append {
  std::size_t input = 0, output = 0;
  int axis = 0;
  bool spread = false;
};
// Empty: the operator does nothing of the kind. Concat and Attention do.
KeptVector<Append> appends(const graph::Op& op, int rank);

// Bytes that the operator wants to keep beside an output of appends(op)[i], whose axis has room for
// capacity rows: what it makes of them once, when they come.
std::size_t append_bytes(const graph::Op& op, std::size_t i, const Shape& output,
                         std::int64_t capacity);

// One of appends() in place.
struct AppendPlace {
  std::byte* rows = nullptr;  // operand and output; null: the output lies elsewhere
  std::size_t capacity = 0;   // rows from one head to the next
  std::byte* made = nullptr;  // append_bytes()
  std::size_t ready = 0;      // rows that `made` holds, of a run before
};

struct RunContext {
  std::span<void* const> inputs;   // null: absent
  std::span<void* const> outputs;  // null: absent
  std::byte* scratch = nullptr;    // scratch_bytes(), 64-byte aligned
  ThreadPool* pool = nullptr;
  std::span<const AppendPlace> appended;  // of each of appends(); empty: none is in place
  // Data-dependent outputs report their shape here: shapes[o] (size = outputs.size()); untouched by
  // other operators.
  std::span<std::optional<Shape>> shapes;
};

class Step {
 public:
  virtual ~Step() = default;
  static void* operator new(std::size_t bytes) { return take_block(bytes); }
  static void operator delete(void* block, std::size_t bytes) { give_block(block, bytes); }
  virtual Status run(
      const RunContext& ctx) const = 0;  // errors only for bad data (an index out of range)
  virtual std::size_t scratch_bytes() const { return 0; }
  // Multiply-adds of one run, for profiles (0 where the word makes no sense).
  virtual double macs() const { return 0; }
};

// What prepare() made of a node's constants alone: kept by the caller for the node's next plans, so
// that a new shape costs no pass over weights. Whoever fills a field checks that it still fits.
struct NodeMemo {
  std::shared_ptr<const void> columns, weight;
};

struct PrepareContext {
  struct Operand {
    const TensorType* type = nullptr;  // known shape; null: absent
    const void* constant = nullptr;    // bytes of a constant, in its layout; null: computed
    const KnownInts* ints = nullptr;   // elements found by infer(), where needs_known_ints() asks
                                       // for them and the operand is no constant
  };
  const kernels::KernelTable* kernels = nullptr;
  int threads = 1;
  std::vector<Operand> inputs, outputs;
  NodeMemo* memo = nullptr;  // null: nothing is kept

  bool has(std::size_t i) const { return i < inputs.size() && inputs[i].type != nullptr; }
  const TensorType& type(std::size_t i) const { return *inputs[i].type; }
  const TensorType& out(std::size_t o) const { return *outputs[o].type; }
  bool wants(std::size_t o) const { return o < outputs.size() && outputs[o].type != nullptr; }
  // Elements of integer (reals: f32, f64) operand i, from a constant or from infer(); nullopt if
  // neither is given.
  std::optional<std::vector<std::int64_t>> ints(std::size_t i) const;
  std::optional<std::vector<double>> reals(std::size_t i) const;
};

Result<std::unique_ptr<Step>> prepare(const graph::Op& op, const PrepareContext& ctx);

// For the layout pass: the operator runs with its activations (input 0, residuals, and the other
// non-constant operands of the output's rank) in channels_last and yields channels_last, without
// converting inside. Every operator *accepts* channels_last operands, but others convert to plain
// in scratch. Absent operands are null.
bool accepts_channels_last(const graph::Op& op, std::span<const TensorType* const> inputs,
                           std::span<const TensorType* const> outputs);

// The output is the input's bytes with another shape (Reshape, Squeeze, ... in plain layout): the
// plan aliases them.
bool is_view(const graph::Op& op, const TensorType& in, const TensorType& out);
// Output 0 may be written over input i (elementwise, same size and layout).
bool may_run_in_place(const graph::Op& op, std::size_t input, const TensorType& in,
                      const TensorType& out);

}  // namespace fold8::ops
