#include "runtime/exec/control_flow.h"

#include <cstring>

#include "runtime/exec/executor.h"
#include "runtime/exec/nested.h"

namespace fold8::exec {
namespace {

// A loop without a trip count that never clears its condition is an error, not a hang.
constexpr std::int64_t kMaxIterations = 10'000'000;
constexpr int kBodyPlans = 16;

Result<std::unique_ptr<Executor>> make_body(const graph::Graph& body, const PlanOptions& options) {
  PlanOptions nested = options;
  nested.states = nullptr;
  nested.controls = nullptr;  // each executor has its own
  FOLD8_TRY(std::vector<graph::NodeId> order, body.topological_order());
  return std::make_unique<Executor>(body, std::move(order), nested, kBodyPlans);
}

// The inputs of a body: dtypes as the body expects them.
Status check_inputs(const graph::Graph& body, std::span<const TensorView> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const graph::Value& v = body.value(body.inputs[i]);
    if (inputs[i].data == nullptr)
      return invalid_model("input '" + v.name + "' of its body is absent");
    if (inputs[i].dtype != v.type.dtype || inputs[i].shape.rank() != v.type.shape.rank())
      return invalid_model("input '" + v.name + "' of its body is " +
                           std::string(name(inputs[i].dtype)) + to_string(inputs[i].shape) +
                           ", expected " + std::string(name(v.type.dtype)) +
                           to_string(v.type.shape));
  }
  return ok_status();
}

Result<bool> condition(const TensorView& t) {
  if (t.dtype != DType::boolean || t.shape.count() != 1)
    return invalid_model("its condition is not one bool");
  return *static_cast<const std::uint8_t*>(t.data) != 0;
}

// A scalar with room for vector loads behind it.
template <class T>
struct alignas(kAlignment) Scalar {
  T value{};
  std::array<std::byte, 2 * kAlignment> padding{};
  TensorView view() { return {dtype_of<T>::value, Shape{}, &value, Layout::plain}; }
};

// A value carried from one iteration to the next, in memory of its own.
class Carried {
 public:
  void set(const TensorView& from) {
    view_ = from;
    view_.data = memory_.reserve(from.bytes());
    if (from.bytes() > 0) std::memcpy(view_.data, from.data, from.bytes());
  }
  const TensorView& view() const { return view_; }

 private:
  Arena memory_;
  TensorView view_;
};

// Outputs of all iterations stacked along `axis`.
class Stacked {
 public:
  void begin(const TensorType& item, int axis, bool reversed) {
    item_ = item;
    axis_ = axis;
    reversed_ = reversed;
    count_ = 0;
    bytes_.clear();
  }
  Status add(const TensorView& t, std::size_t limit) {
    if (count_ == 0) shape_ = t.shape;
    if (!(t.shape == shape_))
      return invalid_model("a stacked output is " + to_string(t.shape) + ", before it was " +
                           to_string(shape_));
    if (t.bytes() > limit || bytes_.size() > limit - t.bytes())
      return invalid_argument("a stacked output outgrows the memory limit");
    const auto* p = static_cast<const std::byte*>(t.data);
    bytes_.insert(bytes_.end(), p, p + t.bytes());
    ++count_;
    return ok_status();
  }
  TensorView finish() {
    Shape shape = count_ > 0 ? shape_ : item_.shape;
    for (int a = 0; a < shape.rank(); ++a)
      if (!shape[a].known()) shape[a] = Dim(0);
    const auto outer = static_cast<std::size_t>(shape.count(0, axis_));
    const std::size_t inner =
        static_cast<std::size_t>(shape.count(axis_, shape.rank())) * size_of(item_.dtype);
    const auto n = static_cast<std::size_t>(count_);
    shape.insert(axis_, Dim(count_));
    TensorView out{item_.dtype, shape, memory_.reserve(bytes_.size()), Layout::plain};
    auto* to = static_cast<std::byte*>(out.data);
    for (std::size_t i = 0; i < n && inner > 0; ++i)
      for (std::size_t o = 0; o < outer; ++o)
        std::memcpy(to + (o * n + (reversed_ ? n - 1 - i : i)) * inner,
                    bytes_.data() + (i * outer + o) * inner, inner);
    return out;
  }

 private:
  TensorType item_;
  Shape shape_;
  int axis_ = 0;
  bool reversed_ = false;
  std::int64_t count_ = 0;
  std::vector<std::byte> bytes_;
  Arena memory_;
};

class IfStep final : public ControlStep {
 public:
  static Result<std::unique_ptr<ControlStep>> make(const graph::If& op,
                                                   const PlanOptions& options) {
    auto step = std::make_unique<IfStep>();
    FOLD8_TRY(step->then_, make_body(*op.then_branch, options));
    FOLD8_TRY(step->else_, make_body(*op.else_branch, options));
    step->op_ = op;
    return std::unique_ptr<ControlStep>(std::move(step));
  }
  Status run(std::span<const TensorView> inputs, std::span<TensorView> outputs) override {
    FOLD8_TRY(const bool yes, condition(inputs[0]));
    Executor& body = yes ? *then_ : *else_;
    FOLD8_CHECK_OK(check_inputs(yes ? *op_.then_branch : *op_.else_branch, inputs.subspan(1)));
    FOLD8_CHECK_OK(body.run(inputs.subspan(1)));
    std::copy(body.outputs().begin(), body.outputs().end(), outputs.begin());
    return ok_status();
  }

 private:
  graph::If op_;
  std::unique_ptr<Executor> then_, else_;
};

class LoopStep final : public ControlStep {
 public:
  static Result<std::unique_ptr<ControlStep>> make(const graph::Node& n, const graph::Loop& op,
                                                   const PlanOptions& options) {
    auto step = std::make_unique<LoopStep>();
    FOLD8_TRY(step->body_, make_body(*op.body, options));
    step->op_ = op;
    step->limit_ = options.memory_limit;
    step->carried_.resize(static_cast<std::size_t>(op.carried));
    step->stacked_.resize(n.outputs.size() - step->carried_.size());
    return std::unique_ptr<ControlStep>(std::move(step));
  }

  Status run(std::span<const TensorView> inputs, std::span<TensorView> outputs) override {
    FOLD8_TRY(const std::int64_t trips, trip_count(inputs[0]));
    bool go = true;
    if (inputs[1].data != nullptr) {
      FOLD8_TRY(go, condition(inputs[1]));
    }
    const std::size_t n = carried_.size();
    for (std::size_t i = 0; i < n; ++i) {
      if (inputs[2 + i].data == nullptr)
        return invalid_model("carried value " + std::to_string(i) + " is absent");
      carried_[i].set(inputs[2 + i]);
    }
    for (std::size_t o = 0; o < stacked_.size(); ++o)
      stacked_[o].begin(op_.body->type(op_.body->outputs[1 + n + o]), 0, false);
    arguments_.assign(inputs.begin(), inputs.end());
    for (std::int64_t i = 0; go && i < trips; ++i) {
      if (i >= kMaxIterations && inputs[0].data == nullptr)
        return invalid_model("does not end: " + std::to_string(kMaxIterations) +
                             " iterations without a trip count");
      FOLD8_TRY(go, iterate(i));
    }
    for (std::size_t i = 0; i < n; ++i) outputs[i] = carried_[i].view();
    for (std::size_t o = 0; o < stacked_.size(); ++o) outputs[n + o] = stacked_[o].finish();
    return ok_status();
  }

 private:
  static Result<std::int64_t> trip_count(const TensorView& t) {
    if (t.data == nullptr) return INT64_MAX;
    if (t.shape.count() != 1) return invalid_model("its trip count is not one number");
    if (t.dtype == DType::s64) return *static_cast<const std::int64_t*>(t.data);
    if (t.dtype == DType::s32) return *static_cast<const std::int32_t*>(t.data);
    return invalid_model("its trip count is " + std::string(name(t.dtype)));
  }

  Result<bool> iterate(std::int64_t i) {
    const std::size_t n = carried_.size();
    iteration_.value = i;
    arguments_[0] = iteration_.view();
    arguments_[1] = go_.view();
    for (std::size_t c = 0; c < n; ++c) arguments_[2 + c] = carried_[c].view();
    FOLD8_CHECK_OK(check_inputs(*op_.body, arguments_));
    FOLD8_CHECK_OK(body_->run(arguments_));
    const std::vector<TensorView>& y = body_->outputs();
    FOLD8_TRY(const bool go, condition(y[0]));
    for (std::size_t c = 0; c < n; ++c) carried_[c].set(y[1 + c]);
    for (std::size_t o = 0; o < stacked_.size(); ++o)
      FOLD8_CHECK_OK(stacked_[o].add(y[1 + n + o], limit_));
    return go;
  }

  graph::Loop op_;
  std::size_t limit_ = 0;
  std::unique_ptr<Executor> body_;
  std::vector<Carried> carried_;
  std::vector<Stacked> stacked_;
  std::vector<TensorView> arguments_;
  Scalar<std::int64_t> iteration_;
  Scalar<bool> go_{true, {}};
};

class ScanStep final : public ControlStep {
 public:
  static Result<std::unique_ptr<ControlStep>> make(const graph::Node& n, const graph::Scan& op,
                                                   const PlanOptions& options) {
    auto step = std::make_unique<ScanStep>();
    FOLD8_TRY(step->body_, make_body(*op.body, options));
    step->op_ = op;
    step->shape_ = scan_shape(n, step->op_);
    step->limit_ = options.memory_limit;
    step->states_.resize(step->shape_.states);
    step->slices_.resize(step->shape_.scanned);
    step->stacked_.resize(step->shape_.stacked);
    return std::unique_ptr<ControlStep>(std::move(step));
  }

  Status run(std::span<const TensorView> inputs, std::span<TensorView> outputs) override {
    const std::size_t n = states_.size();
    for (const TensorView& t : inputs)
      if (t.data == nullptr) return invalid_model("an input is absent");
    FOLD8_TRY(const std::int64_t length, find_length(inputs));
    for (std::size_t i = 0; i < n; ++i) states_[i].set(inputs[i]);
    for (std::size_t o = 0; o < stacked_.size(); ++o) {
      const TensorType& item = op_.body->type(op_.body->outputs[n + o]);
      const auto axis = normalize_axis(shape_.output_axis(o), item.shape.rank() + 1);
      if (!axis) return invalid_model("output axis out of range");
      stacked_[o].begin(item, *axis, shape_.output_reversed(o));
    }
    arguments_.assign(inputs.begin(), inputs.end());
    for (std::int64_t i = 0; i < length; ++i) FOLD8_CHECK_OK(iterate(inputs, i, length));
    for (std::size_t i = 0; i < n; ++i) outputs[i] = states_[i].view();
    for (std::size_t o = 0; o < stacked_.size(); ++o) outputs[n + o] = stacked_[o].finish();
    return ok_status();
  }

 private:
  Result<std::int64_t> find_length(std::span<const TensorView> inputs) {
    std::int64_t length = -1;
    axes_.clear();
    for (std::size_t i = 0; i < shape_.scanned; ++i) {
      const Shape& s = inputs[states_.size() + i].shape;
      const auto axis = normalize_axis(shape_.input_axis(i), s.rank());
      if (!axis)
        return invalid_model("input axis " + std::to_string(shape_.input_axis(i)) +
                             " is out of range");
      if (length >= 0 && s.extent(*axis) != length)
        return invalid_model("its scan inputs have lengths " + std::to_string(length) + " and " +
                             std::to_string(s.extent(*axis)));
      length = s.extent(*axis);
      axes_.push_back(*axis);
    }
    return length;
  }

  // Index `index` of `axis`, contiguous in memory of the slice.
  static void take(const TensorView& from, int axis, std::int64_t index, Carried& slice) {
    const auto outer = static_cast<std::size_t>(from.shape.count(0, axis));
    const auto extent = static_cast<std::size_t>(from.shape.extent(axis));
    const std::size_t inner =
        static_cast<std::size_t>(from.shape.count(axis + 1, from.shape.rank())) *
        size_of(from.dtype);
    TensorView item = from;
    item.shape.erase(axis);
    slice.set(TensorView{from.dtype, item.shape, from.data,
                         from.layout});  // sizes the memory; the bytes follow
    auto* to = static_cast<std::byte*>(slice.view().data);
    const auto* x = static_cast<const std::byte*>(from.data);
    for (std::size_t o = 0; o < outer && inner > 0; ++o)
      std::memcpy(to + o * inner, x + (o * extent + static_cast<std::size_t>(index)) * inner,
                  inner);
  }

  Status iterate(std::span<const TensorView> inputs, std::int64_t i, std::int64_t length) {
    const std::size_t n = states_.size();
    for (std::size_t s = 0; s < n; ++s) arguments_[s] = states_[s].view();
    for (std::size_t s = 0; s < slices_.size(); ++s) {
      take(inputs[n + s], axes_[s], shape_.input_reversed(s) ? length - 1 - i : i, slices_[s]);
      arguments_[n + s] = slices_[s].view();
    }
    FOLD8_CHECK_OK(check_inputs(*op_.body, arguments_));
    FOLD8_CHECK_OK(body_->run(arguments_));
    for (std::size_t s = 0; s < n; ++s) states_[s].set(body_->outputs()[s]);
    for (std::size_t o = 0; o < stacked_.size(); ++o)
      FOLD8_CHECK_OK(stacked_[o].add(body_->outputs()[n + o], limit_));
    return ok_status();
  }

  graph::Scan op_;
  ScanShape shape_;
  std::size_t limit_ = 0;
  std::unique_ptr<Executor> body_;
  std::vector<Carried> states_, slices_;
  std::vector<Stacked> stacked_;
  std::vector<TensorView> arguments_;
  std::vector<int> axes_;
};

}  // namespace

Result<std::unique_ptr<ControlStep>> make_control_step(const graph::Node& n,
                                                       const PlanOptions& options) {
  if (auto s = check_control_flow(n); !s.ok())
    return in_context("node '" + n.name + "'", std::move(s).error());
  if (const auto* op = std::get_if<graph::If>(&n.op)) return IfStep::make(*op, options);
  if (const auto* op = std::get_if<graph::Loop>(&n.op)) return LoopStep::make(n, *op, options);
  return ScanStep::make(n, std::get<graph::Scan>(n.op), options);
}

}  // namespace fold8::exec
