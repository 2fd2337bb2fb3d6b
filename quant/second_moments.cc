#include "quant/second_moments.h"

#include <algorithm>

#include "quant/run_samples.h"
#include "runtime/exec/session.h"

namespace fold8::quant {
namespace {

constexpr std::size_t kBlock = 256;  // rows whose products are summed by one run

constexpr std::size_t kPanel = 128;  // columns whose products are summed by one run

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

  // Of columns [first, first + m) with [first, first + n) of x [kBlock, width].
  Result<std::span<const float>> run(std::span<const float> x, std::size_t width,
                                     std::size_t first) {
    take(x, width, first, a_);
    take(x, width, first, b_);
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

// Collects rows of one tensor until a block is full.
class Collector {
 public:
  Collector(std::size_t width, Products& products)
      : products_(products),
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
    const std::size_t n = moments_.width;
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < i; ++j) moments_.xx[i * n + j] = moments_.xx[j * n + i];
    return std::move(moments_);
  }

 private:
  Status flush() {
    auto rows = block_.as<float>();
    std::fill(rows.begin() + static_cast<std::ptrdiff_t>(filled_ * moments_.width), rows.end(),
              0.0f);
    // x^T x is symmetric: the upper triangle, a panel of rows after the other.
    const std::size_t width = moments_.width;
    for (std::size_t first = 0; first < width; first += kPanel) {
      const std::size_t m = std::min(kPanel, width - first), n = width - first;
      FOLD8_TRY(Product* const product, products_.of(m, n));
      FOLD8_TRY(const std::span<const float> xx, product->run(block_.as<float>(), width, first));
      for (std::size_t i = 0; i < m; ++i) {
        float* row = moments_.xx.data() + (first + i) * width + first;
        for (std::size_t j = 0; j < n; ++j) row[j] += xx[i * n + j];
      }
    }
    filled_ = 0;
    return ok_status();
  }

  Products& products_;
  Tensor block_;
  std::size_t filled_ = 0;
  Moments moments_;
};

class Gatherer {
 public:
  Gatherer(std::shared_ptr<const exec::Model> model, SampleSource& samples,
           const MomentOptions& options)
      : model_(std::move(model)),
        samples_(samples),
        options_(options),
        products_(options.threads) {}

  Status gather(const std::map<std::string, std::size_t>& widths,
                const std::function<Status(const std::string&, Moments)>& take) {
    std::map<std::string, Collector> collectors;
    for (const auto& [name, width] : widths) collectors.try_emplace(name, width, products_);
    FOLD8_CHECK_OK(run(collectors));
    for (auto& [name, collector] : collectors) {
      FOLD8_TRY(Moments moments, collector.finish());
      FOLD8_CHECK_OK(take(name, std::move(moments)));
    }
    return ok_status();
  }

 private:
  Status run(std::map<std::string, Collector>& collectors) {
    const graph::Graph& g = model_->graph();
    const std::size_t used = std::min(samples_.count(), options_.most_rows),
                      each = used == 0 ? 0 : (options_.most_rows + used - 1) / used;
    RunOptions run;
    run.most_samples = used;
    run.threads = options_.threads;
    RunCallbacks callbacks;
    callbacks.see = [&](graph::ValueId v, const TensorView& t) {
      const auto it = collectors.find(g.value(v).name);
      return it == collectors.end() ? ok_status() : it->second.add(t, each);
    };
    return run_samples(model_, samples_, run, callbacks);
  }

  std::shared_ptr<const exec::Model> model_;
  SampleSource& samples_;
  const MomentOptions& options_;
  Products products_;
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
