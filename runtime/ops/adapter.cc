#include "runtime/ops/adapter.h"

#include "runtime/kernels/quantize.h"
#include "runtime/ops/relayout.h"

namespace fold8::ops {
namespace {

// One operand's way from one type to another: a pass over the elements (if any), then a change of
// order (if any).
struct Conversion {
  enum class Elements { same, flip, dequantize, quantize };
  std::size_t operand = 0;
  Elements elements = Elements::same;
  std::size_t count = 0;
  kernels::QType code = kernels::QType::u8;
  float scale = 1;
  std::int32_t zero_point = 0;
  RelayoutPlan order;
  std::size_t middle = 0,
              result = 0;  // scratch: between the two passes; where the inner step reads or writes
  kernels::quantize_fn* quantize = nullptr;
  kernels::dequantize_fn* dequantize = nullptr;

  void run_elements(const RunContext& run, const void* x, void* y) const;
  // x to y by way of run.scratch + middle.
  void apply(const RunContext& run, const void* x, void* y) const;
};

void Conversion::run_elements(const RunContext& run, const void* x, void* y) const {
  parallel(run, count, grain_for(2), [&](std::size_t b, std::size_t e, std::size_t) {
    const auto* bytes = static_cast<const std::uint8_t*>(x);
    switch (elements) {
      case Elements::same:
        break;
      case Elements::flip:
        for (std::size_t i = b; i < e; ++i) static_cast<std::uint8_t*>(y)[i] = bytes[i] ^ 0x80;
        break;
      case Elements::dequantize:
        dequantize({.type = code,
                    .inner = e - b,
                    .q = bytes + b,
                    .y = static_cast<float*>(y) + b,
                    .scales = &scale,
                    .zero_points = &zero_point});
        break;
      case Elements::quantize:
        quantize({.type = code,
                  .inner = e - b,
                  .x = static_cast<const float*>(x) + b,
                  .q = static_cast<std::uint8_t*>(y) + b,
                  .scales = &scale,
                  .zero_points = &zero_point});
        break;
    }
  });
}

void Conversion::apply(const RunContext& run, const void* x, void* y) const {
  if (elements == Elements::same) return order.run(run, x, y);
  if (order.copy) return run_elements(run, x, y);
  run_elements(run, x, run.scratch + middle);
  order.run(run, run.scratch + middle, y);
}

bool same_numbers(const TensorType& a, const TensorType& b) {
  return a.dtype == b.dtype && a.quant == b.quant;
}

struct Scratch {
  std::size_t total = 0;
  std::size_t take(std::size_t n) {
    const std::size_t at = total;
    total += round_up(n + kTailPadding, kAlignment);
    return at;
  }
};

Conversion make_conversion(const PrepareContext& c, std::size_t operand, const TensorType& from,
                           const TensorType& to) {
  Conversion v;
  v.operand = operand;
  v.count = count(from);
  v.quantize = c.kernels->quantize;
  v.dequantize = c.kernels->dequantize;
  if (!same_numbers(from, to)) {
    const TensorType& q = to.dtype == DType::f32 ? from : to;
    v.code = q.dtype == DType::u8 ? kernels::QType::u8 : kernels::QType::s8;
    v.scale = q.quant->scale();
    v.zero_point = q.quant->zero_point();
    v.elements = to.dtype == DType::f32     ? Conversion::Elements::dequantize
                 : from.dtype == DType::f32 ? Conversion::Elements::quantize
                                            : Conversion::Elements::flip;
  }
  v.order =
      make_relayout(from.shape, from.layout, to.layout, size_of(to.dtype), c.kernels->transpose);
  return v;
}

struct Adapted {
  StepPtr inner;
  std::vector<Conversion> before, behind;
  std::size_t inner_scratch = 0, scratch = 0;
};

class AdapterStep final : public Step {
 public:
  explicit AdapterStep(Adapted a) : a_(std::move(a)) {}
  std::size_t scratch_bytes() const override { return a_.scratch; }
  double macs() const override { return a_.inner->macs(); }

  Status run(const RunContext& run) const override {
    void* operands[kMost];
    void* results[kMost];
    std::copy(run.inputs.begin(), run.inputs.end(), operands);
    std::copy(run.outputs.begin(), run.outputs.end(), results);
    for (const Conversion& v : a_.before) {
      operands[v.operand] = run.scratch + v.result;
      v.apply(run, run.inputs[v.operand], operands[v.operand]);
    }
    for (const Conversion& v : a_.behind) results[v.operand] = run.scratch + v.result;
    RunContext inner = run;
    inner.inputs = {operands, run.inputs.size()};
    inner.outputs = {results, run.outputs.size()};
    inner.scratch = run.scratch + a_.inner_scratch;
    FOLD8_CHECK_OK(a_.inner->run(inner));
    for (const Conversion& v : a_.behind) v.apply(run, results[v.operand], run.outputs[v.operand]);
    return ok_status();
  }

  static constexpr std::size_t kMost = 64;

 private:
  Adapted a_;
};

bool needs_conversion(const TensorType& from, const TensorType& to) {
  return !same_numbers(from, to) || !same_order(from.shape, from.layout, to.layout);
}

}  // namespace

Result<StepPtr> prepare_adapted(const graph::Op& op, const PrepareContext& c,
                                const NativeTypes& native, PrepareFn prepare) {
  if (native.inputs.empty() && native.outputs.empty()) return prepare(op, c);
  PrepareContext inner = c;
  Adapted a;
  Scratch scratch;
  const auto add = [&](std::vector<Conversion>& list, std::size_t i, const TensorType& from,
                       const TensorType& to, bool output) {
    Conversion v = make_conversion(c, i, from, to);
    // Elements first: the middle holds the elements of `to` in the order of `from`.
    v.middle = v.elements != Conversion::Elements::same && !v.order.copy
                   ? scratch.take(v.count * size_of(to.dtype))
                   : 0;
    v.result = scratch.take(v.count * size_of(output ? from.dtype : to.dtype));
    list.push_back(v);
  };
  for (const auto& [i, type] : native.inputs) {
    inner.inputs[i].type = &type;
    if (!needs_conversion(c.type(i), type)) continue;
    inner.inputs[i].constant = nullptr;
    add(a.before, i, c.type(i), type, false);
  }
  for (const auto& [o, type] : native.outputs) {
    inner.outputs[o].type = &type;
    if (needs_conversion(c.out(o), type)) add(a.behind, o, type, c.out(o), true);
  }
  FOLD8_TRY(a.inner, prepare(op, inner));
  if (a.before.empty() && a.behind.empty()) return std::move(a.inner);
  if (c.inputs.size() > AdapterStep::kMost || c.outputs.size() > AdapterStep::kMost)
    return unsupported("an operator with more than 64 operands that need converting");
  a.inner_scratch = scratch.take(a.inner->scratch_bytes());
  a.scratch = scratch.total;
  return StepPtr(std::make_unique<AdapterStep>(std::move(a)));
}

}  // namespace fold8::ops
