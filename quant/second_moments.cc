#include "quant/second_moments.h"

#include <algorithm>
#include <map>
#include <string>

#include "quant/run_samples.h"
#include "runtime/exec/session.h"

namespace fold8::quant {
namespace {

constexpr std::size_t kBlock = 256;  // rows whose products are summed by one run

// Columns whose products with each other are summed by one run: a panel with a part of those behind
// it. Few extents, and so few sessions, whatever the widths.
constexpr std::size_t kPanel = 128, kPart = 1024;

// a [kBlock, m], b [kBlock, n] -> a^T b, in fold8's own kernels: the same bits everywhere, whatever
// the extents.
class Product {
 public:
  static Result<std::unique_ptr<Product>> of(std::size_t m, std::size_t n, int threads) {
    graph::Graph g;
    const auto shape = [](std::size_t rows, std::size_t cols) {
      return Shape{static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols)};
    };
    const auto value = [&](const char* name, std::size_t rows, std::size_t cols) {
      return g.add_value(name, TensorType{DType::f32, shape(rows, cols), {}, Layout::plain});
    };
    const graph::ValueId a = value("a", kBlock, m), b = value("b", kBlock, n), y = value("y", m, n);
    g.add_node(graph::MatMul{1.0f, true, false}, "y", {a, b}, {y});
    g.inputs = {a, b};
    g.outputs = {y};
    FOLD8_TRY(auto model, exec::Model::from_graph(std::move(g)));
    exec::SessionOptions options;
    options.threads = threads;
    auto product = std::unique_ptr<Product>(new Product);
    FOLD8_TRY(product->session_, exec::Session::create(std::move(model), options));
    product->a_ = Tensor(DType::f32, shape(kBlock, m));
    product->b_ = Tensor(DType::f32, shape(kBlock, n));
    return product;
  }

  // Of columns [first, first + m) with [second, second + n) of x [kBlock, width].
  Result<std::span<const float>> run(std::span<const float> x, std::size_t width, std::size_t first,
                                     std::size_t second) {
    take(x, width, first, a_);
    take(x, width, second, b_);
    FOLD8_CHECK_OK(session_->run({a_.view(), b_.view()}));
    return session_->outputs()[0].as<const float>();
  }

 private:
  static void take(std::span<const float> x, std::size_t width, std::size_t first, Tensor& into) {
    const auto columns = static_cast<std::size_t>(into.shape().extent(1));
    for (std::size_t r = 0; r < kBlock; ++r)
      std::copy_n(x.data() + r * width + first, columns, into.as<float>().data() + r * columns);
  }

  Tensor a_, b_;
  std::unique_ptr<exec::Session> session_;
};

// Products by the extents of their operands; tensors of one width share them.
class Products {
 public:
  explicit Products(int threads) : threads_(threads) {}
  Result<Product*> of(std::size_t m, std::size_t n) {
    auto& product = all_[{m, n}];
    if (product == nullptr) {
      FOLD8_TRY(product, Product::of(m, n, threads_));
    }
    return product.get();
  }

 private:
  int threads_;
  std::map<std::pair<std::size_t, std::size_t>, std::unique_ptr<Product>> all_;
};

// Collects rows of one layer until a block is full.
class Collector {
 public:
  Collector(const LayerRows& layer, Products& products) : layer_(layer), products_(products) {
    const Shape shape{static_cast<std::int64_t>(kBlock), static_cast<std::int64_t>(layer.width)};
    for (std::size_t g = 0; g < layer.groups; ++g) {
      blocks_.emplace_back(DType::f32, shape);
      sums_.emplace_back(triangle_floats(layer.width));
    }
  }

  // Of the upper triangle as it is kept: panels of rows, each from its first row's column on.
  static std::size_t triangle_floats(std::size_t width) {
    std::size_t floats = 0;
    for (std::size_t first = 0; first < width; first += kPanel)
      floats += std::min(kPanel, width - first) * (width - first);
    return floats;
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

  // No more rows.
  Status close() {
    if (filled_ > 0) FOLD8_CHECK_OK(flush());
    blocks_.clear();
    return ok_status();
  }

  std::vector<Moments> take() {
    std::vector<Moments> moments;
    for (std::vector<float>& sums : sums_) {
      moments.push_back({layer_.width, rows_, whole(sums)});
      sums = std::vector<float>();
    }
    return moments;
  }

 private:
  Status flush() {
    for (std::size_t g = 0; g < layer_.groups; ++g) {
      auto rows = blocks_[g].as<float>();
      std::fill(rows.begin() + static_cast<std::ptrdiff_t>(filled_ * layer_.width), rows.end(),
                0.0f);
      FOLD8_CHECK_OK(add_products(rows, sums_[g]));
    }
    rows_ += filled_;
    filled_ = 0;
    return ok_status();
  }

  // x^T x is symmetric: the upper triangle, a panel of rows after the other.
  Status add_products(std::span<const float> x, std::vector<float>& sums) {
    const std::size_t width = layer_.width;
    float* row = sums.data();
    for (std::size_t first = 0; first < width; first += kPanel) {
      const std::size_t m = std::min(kPanel, width - first), stride = width - first;
      for (std::size_t second = first; second < width; second += kPart) {
        const std::size_t n = std::min(kPart, width - second);
        FOLD8_TRY(Product* const product, products_.of(m, n));
        FOLD8_TRY(const std::span<const float> xx, product->run(x, width, first, second));
        float* to = row + (second - first);
        for (std::size_t i = 0; i < m; ++i, to += stride)
          for (std::size_t j = 0; j < n; ++j) to[j] += xx[i * n + j];
      }
      row += m * stride;
    }
    return ok_status();
  }

  std::vector<float> whole(const std::vector<float>& sums) const {
    const std::size_t width = layer_.width;
    std::vector<float> xx(width * width);
    const float* row = sums.data();
    for (std::size_t first = 0; first < width; first += kPanel)
      for (std::size_t i = first; i < std::min(first + kPanel, width); ++i, row += width - first)
        std::copy_n(row + (i - first), width - i, xx.data() + i * width + i);
    for (std::size_t i = 0; i < width; ++i)
      for (std::size_t j = 0; j < i; ++j) xx[i * width + j] = xx[j * width + i];
    return xx;
  }

  const LayerRows& layer_;
  Products& products_;
  std::vector<Tensor> blocks_;  // one for each group
  std::size_t filled_ = 0;
  std::vector<std::vector<float>> sums_;  // of each group, a triangle
  std::uint64_t rows_ = 0;
};

class Gatherer {
 public:
  Gatherer(std::shared_ptr<const exec::Model> model, SampleSource& samples,
           std::span<const LayerRows> layers, const MomentOptions& options)
      : model_(std::move(model)),
        samples_(samples),
        layers_(layers),
        options_(options),
        products_(options.threads) {}

  Status gather(const std::vector<std::size_t>& some, bool last,
                const std::function<Status(std::size_t, std::vector<Moments>)>& take) {
    std::vector<std::unique_ptr<Collector>> collectors;
    std::map<std::string, std::vector<Collector*>> of_tensor;
    for (const std::size_t i : some) {
      collectors.push_back(std::make_unique<Collector>(layers_[i], products_));
      of_tensor[layers_[i].tensor].push_back(collectors.back().get());
    }
    FOLD8_CHECK_OK(run(of_tensor));
    for (const auto& c : collectors) FOLD8_CHECK_OK(c->close());
    if (last) model_.reset();  // as large as the weights
    for (std::size_t k = 0; k < some.size(); ++k) {
      std::vector<Moments> moments = collectors[k]->take();
      collectors[k].reset();
      if (moments[0].rows > 0) FOLD8_CHECK_OK(take(some[k], std::move(moments)));
    }
    return ok_status();
  }

 private:
  Status run(std::map<std::string, std::vector<Collector*>>& of_tensor) {
    const graph::Graph& g = model_->graph();
    const std::size_t used = std::min(samples_.count(), options_.most_rows),
                      each = used == 0 ? 0 : (options_.most_rows + used - 1) / used;
    RunOptions run;
    run.most_samples = used;
    run.threads = options_.threads;
    RunCallbacks callbacks;
    callbacks.see = [&](graph::ValueId v, const TensorView& t) -> Status {
      const auto it = of_tensor.find(g.value(v).name);
      if (it == of_tensor.end()) return ok_status();
      for (Collector* c : it->second) FOLD8_CHECK_OK(c->add(t, each));
      return ok_status();
    };
    return run_samples(model_, samples_, run, callbacks);
  }

  std::shared_ptr<const exec::Model> model_;
  SampleSource& samples_;
  std::span<const LayerRows> layers_;
  const MomentOptions& options_;
  Products products_;
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
    const std::size_t own =
        layers[i].groups * (Collector::triangle_floats(width) + width * kBlock) * sizeof(float);
    if (!some.empty() && bytes + own > options.most_bytes) {
      FOLD8_CHECK_OK(gatherer.gather(some, false, take));
      some.clear();
      bytes = 0;
    }
    some.push_back(i);
    bytes += own;
  }
  return some.empty() ? ok_status() : gatherer.gather(some, true, take);
}

}  // namespace fold8::quant
