#include "quant/second_moments.h"

#include <algorithm>
#include <map>
#include <string>

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

// Collects rows of one layer until a block is full.
class Collector {
 public:
  Collector(const LayerRows& layer, exec::Session& product) : layer_(layer), product_(product) {
    const Shape shape{static_cast<std::int64_t>(kBlock), static_cast<std::int64_t>(layer.width)};
    for (std::size_t g = 0; g < layer.groups; ++g) {
      blocks_.emplace_back(DType::f32, shape);
      moments_.push_back({layer.width, 0, std::vector<float>(layer.width * layer.width)});
    }
  }

  // At most `wanted` rows of t, evenly spaced.
  Status add(const TensorView& t, std::size_t wanted) {
    const auto reader = reader_of(layer_, t);
    if (reader == nullptr) return ok_status();
    const std::size_t rows = reader->count(), count = std::min(rows, wanted);
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t g = 0; g < layer_.groups; ++g)
        reader->copy(i * rows / count, g,
                     blocks_[g].as<float>().subspan(filled_ * layer_.width, layer_.width));
      if (++filled_ == kBlock) FOLD8_CHECK_OK(flush());
    }
    return ok_status();
  }

  Result<std::vector<Moments>> finish() {
    if (filled_ > 0) FOLD8_CHECK_OK(flush());
    blocks_.clear();
    return std::move(moments_);
  }

 private:
  Status flush() {
    for (std::size_t g = 0; g < layer_.groups; ++g) {
      auto rows = blocks_[g].as<float>();
      std::fill(rows.begin() + static_cast<std::ptrdiff_t>(filled_ * layer_.width), rows.end(),
                0.0f);
      FOLD8_CHECK_OK(product_.run({blocks_[g].view()}));
      const auto xx = product_.outputs()[0].as<const float>();
      for (std::size_t i = 0; i < xx.size(); ++i) moments_[g].xx[i] += xx[i];
      moments_[g].rows += filled_;
    }
    filled_ = 0;
    return ok_status();
  }

  const LayerRows& layer_;
  exec::Session& product_;
  std::vector<Tensor> blocks_;  // one for each group
  std::size_t filled_ = 0;
  std::vector<Moments> moments_;
};

class Gatherer {
 public:
  Gatherer(std::shared_ptr<const exec::Model> model, SampleSource& samples,
           std::span<const LayerRows> layers, const MomentOptions& options)
      : model_(std::move(model)), samples_(samples), layers_(layers), options_(options) {}

  Status gather(const std::vector<std::size_t>& some,
                const std::function<Status(std::size_t, std::vector<Moments>)>& take) {
    std::vector<std::unique_ptr<Collector>> collectors;
    std::map<std::string, std::vector<Collector*>> of_tensor;
    for (const std::size_t i : some) {
      auto& product = products_[layers_[i].width];
      if (product == nullptr) {
        FOLD8_TRY(product, product_of_width(layers_[i].width, options_.threads));
      }
      collectors.push_back(std::make_unique<Collector>(layers_[i], *product));
      of_tensor[layers_[i].tensor].push_back(collectors.back().get());
    }
    FOLD8_CHECK_OK(run(of_tensor));
    for (std::size_t k = 0; k < some.size(); ++k) {
      FOLD8_TRY(std::vector<Moments> moments, collectors[k]->finish());
      if (moments[0].rows > 0) FOLD8_CHECK_OK(take(some[k], std::move(moments)));
    }
    return ok_status();
  }

 private:
  Status run(std::map<std::string, std::vector<Collector*>>& of_tensor) {
    exec::SessionOptions options;
    options.threads = options_.threads;
    options.plan_cache = 2;
    FOLD8_TRY(auto session, exec::Session::create(model_, options));
    const graph::Graph& g = model_->graph();
    const std::size_t used = std::min(samples_.count(), options_.most_rows),
                      each = used == 0 ? 0 : (options_.most_rows + used - 1) / used;
    const auto see = [&](graph::ValueId v, const TensorView& t) -> Status {
      const auto it = of_tensor.find(g.value(v).name);
      if (it == of_tensor.end()) return ok_status();
      for (Collector* c : it->second) FOLD8_CHECK_OK(c->add(t, each));
      return ok_status();
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
  std::span<const LayerRows> layers_;
  const MomentOptions& options_;
  std::map<std::size_t, std::unique_ptr<exec::Session>> products_;
};

}  // namespace

Status second_moments(std::shared_ptr<const exec::Model> model, SampleSource& samples,
                      std::span<const LayerRows> layers, const MomentOptions& options,
                      const std::function<Status(std::size_t, std::vector<Moments>)>& take) {
  Gatherer gatherer(std::move(model), samples, layers, options);
  std::vector<std::size_t> some;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::size_t width = layers[i].width;
    if (width == 0 || width > options.most_width) continue;
    const std::size_t own = layers[i].groups * width * (width + kBlock) * sizeof(float);
    if (!some.empty() && bytes + own > options.most_bytes) {
      FOLD8_CHECK_OK(gatherer.gather(some, take));
      some.clear();
      bytes = 0;
    }
    some.push_back(i);
    bytes += own;
  }
  return some.empty() ? ok_status() : gatherer.gather(some, take);
}

}  // namespace fold8::quant
