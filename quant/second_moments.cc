#include "quant/second_moments.h"

#include <algorithm>

#include "runtime/exec/session.h"

namespace fold8::quant {
namespace {

constexpr std::size_t kBlock = 256;  // rows whose products are summed by one run

// x [kBlock, width] -> x^T x, in fold8's own kernels: the same bits everywhere.
Result<std::unique_ptr<exec::Session>> product_of_width(std::size_t width, int threads) {
  graph::Graph g;
  const auto n = static_cast<std::int64_t>(width);
  const graph::ValueId x = g.add_value(
      "x", TensorType{DType::f32, Shape{static_cast<std::int64_t>(kBlock), n}, {}, Layout::plain});
  const graph::ValueId y = g.add_value("y", TensorType{DType::f32, Shape{n, n}, {}, Layout::plain});
  g.add_node(graph::MatMul{1.0f, true, false}, "xx", {x, x}, {y});
  g.inputs = {x};
  g.outputs = {y};
  FOLD8_TRY(auto model, exec::Model::from_graph(std::move(g)));
  exec::SessionOptions options;
  options.threads = threads;
  return exec::Session::create(std::move(model), options);
}

// Collects rows of one tensor until a block is full.
class Collector {
 public:
  Collector(std::size_t width, exec::Session& product)
      : product_(product),
        block_(DType::f32,
               Shape{static_cast<std::int64_t>(kBlock), static_cast<std::int64_t>(width)}) {
    moments_.width = width;
    moments_.xx.assign(width * width, 0.0f);
  }

  // At most `wanted` rows of t, evenly spaced.
  Status add(const TensorView& t, std::size_t wanted) {
    const std::size_t width = moments_.width;
    if (t.dtype != DType::f32 || t.layout != Layout::plain || t.shape.rank() < 1 ||
        static_cast<std::size_t>(t.shape.extent(t.shape.rank() - 1)) != width)
      return ok_status();
    const auto values = t.as<const float>();
    const std::size_t rows = values.size() / width, count = std::min(rows, wanted);
    for (std::size_t i = 0; i < count; ++i) {
      const auto row = values.subspan(i * rows / count * width, width);
      std::copy(row.begin(), row.end(),
                block_.as<float>().begin() + static_cast<std::ptrdiff_t>(filled_ * width));
      ++moments_.rows;
      if (++filled_ == kBlock) FOLD8_CHECK_OK(flush());
    }
    return ok_status();
  }

  Result<Moments> finish() {
    if (filled_ > 0) FOLD8_CHECK_OK(flush());
    return std::move(moments_);
  }

 private:
  Status flush() {
    auto rows = block_.as<float>();
    std::fill(rows.begin() + static_cast<std::ptrdiff_t>(filled_ * moments_.width), rows.end(),
              0.0f);
    FOLD8_CHECK_OK(product_.run({block_.view()}));
    const auto xx = product_.outputs()[0].as<const float>();
    for (std::size_t i = 0; i < xx.size(); ++i) moments_.xx[i] += xx[i];
    filled_ = 0;
    return ok_status();
  }

  exec::Session& product_;
  Tensor block_;
  std::size_t filled_ = 0;
  Moments moments_;
};

class Gatherer {
 public:
  Gatherer(std::shared_ptr<const exec::Model> model, SampleSource& samples,
           const MomentOptions& options)
      : model_(std::move(model)), samples_(samples), options_(options) {}

  Status gather(const std::map<std::string, std::size_t>& widths,
                const std::function<Status(const std::string&, Moments)>& take) {
    std::map<std::string, Collector> collectors;
    for (const auto& [name, width] : widths) {
      auto& product = products_[width];
      if (product == nullptr) {
        FOLD8_TRY(product, product_of_width(width, options_.threads));
      }
      collectors.try_emplace(name, width, *product);
    }
    FOLD8_CHECK_OK(run(collectors));
    for (auto& [name, collector] : collectors) {
      FOLD8_TRY(Moments moments, collector.finish());
      FOLD8_CHECK_OK(take(name, std::move(moments)));
    }
    return ok_status();
  }

 private:
  Status run(std::map<std::string, Collector>& collectors) {
    exec::SessionOptions options;
    options.threads = options_.threads;
    options.plan_cache = 2;
    FOLD8_TRY(auto session, exec::Session::create(model_, options));
    const graph::Graph& g = model_->graph();
    const std::size_t used = std::min(samples_.count(), options_.most_rows),
                      each = used == 0 ? 0 : (options_.most_rows + used - 1) / used;
    const auto see = [&](graph::ValueId v, const TensorView& t) {
      const auto it = collectors.find(g.value(v).name);
      return it == collectors.end() ? ok_status() : it->second.add(t, each);
    };
    session->set_tap(see);
    for (std::size_t i = 0; i < used; ++i) {
      FOLD8_TRY(const std::vector<Tensor> inputs, samples_.sample(i * samples_.count() / used));
      std::vector<TensorView> views;
      for (std::size_t k = 0; k < inputs.size(); ++k) {
        views.push_back(inputs[k].view());
        FOLD8_CHECK_OK(see(g.inputs[k], views.back()));
      }
      FOLD8_CHECK_OK(session->run(views));
    }
    return ok_status();
  }

  std::shared_ptr<const exec::Model> model_;
  SampleSource& samples_;
  const MomentOptions& options_;
  std::map<std::size_t, std::unique_ptr<exec::Session>> products_;
};

}  // namespace

Status second_moments(std::shared_ptr<const exec::Model> model, SampleSource& samples,
                      const std::map<std::string, std::size_t>& widths,
                      const MomentOptions& options,
                      const std::function<Status(const std::string&, Moments)>& take) {
  Gatherer gatherer(std::move(model), samples, options);
  std::map<std::string, std::size_t> some;
  std::size_t bytes = 0;
  for (const auto& [name, width] : widths) {
    if (width == 0 || width > options.most_width) continue;
    const std::size_t own = width * width * sizeof(float);
    if (!some.empty() && bytes + own > options.most_bytes) {
      FOLD8_CHECK_OK(gatherer.gather(some, take));
      some.clear();
      bytes = 0;
    }
    some.emplace(name, width);
    bytes += own;
  }
  return some.empty() ? ok_status() : gatherer.gather(some, take);
}

}  // namespace fold8::quant
