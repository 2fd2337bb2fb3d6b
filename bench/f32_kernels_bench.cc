// The f32 matrix and data-movement kernels of every target on layers of real networks, with oneDNN
// beside them where it has the same operation. One thread: run with OMP_NUM_THREADS=1. items/s are
// multiply-adds, bytes/s memory moved.
#include <benchmark/benchmark.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/core/aligned.h"
#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/resize_table.h"
#ifdef FOLD8_BENCH_ONEDNN
#include "bench/onednn_f32_peer.h"
#endif

namespace fold8::kernels {
namespace {

class Floats {
 public:
  explicit Floats(std::size_t n) : bytes_(allocate_aligned(n * sizeof(float))) {
    for (std::size_t i = 0; i < n; ++i)
      data()[i] = static_cast<float>((i * 7919) % 1000) / 1000 - 0.5f;
  }
  float* data() { return reinterpret_cast<float*>(bytes_.get()); }

 private:
  AlignedBytes bytes_;
};

void add(const std::string& name, double items, double bytes,
         std::function<std::function<void()>()> make) {
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    const auto run = make();
    run();
    for (auto _ : state) run();
    if (items > 0)
      state.counters["MAC/s"] =
          benchmark::Counter(items, benchmark::Counter::kIsIterationInvariantRate);
    if (bytes > 0)
      state.counters["B/s"] =
          benchmark::Counter(bytes, benchmark::Counter::kIsIterationInvariantRate);
  })->Unit(benchmark::kMicrosecond);
}

template <class Body>  // body(target) makes the closure to time
void add_targets(const std::string& name, double items, double bytes, Body body) {
  for (const Target& t : targets())
    if (t.cpu_can_run() && t.name != "reference")
      add(name + "/" + std::string(t.name), items, bytes, [=] { return body(*t.kernels); });
}

void add_gemm(const char* name, std::size_t m, std::size_t n, std::size_t k) {
  const std::string title = std::string("gemm/") + name;
  const double items = static_cast<double>(m * n * k);
  add_targets(title, items, 0, [=](const KernelTable& table) -> std::function<void()> {
    auto x = std::make_shared<Floats>(m * k), y = std::make_shared<Floats>(m * n);
    auto w = std::make_shared<Floats>(packed_f32_size(n, k));
    GemmF32Args args{m, n, k, x->data(), k, w->data(), {}, 0, m, 0, (n + 15) / 16};
    args.epilogue.y = y->data();
    args.epilogue.y_stride = n;
    return [=] { table.gemm_f32(args), x.get(), y.get(), w.get(); };
  });
#ifdef FOLD8_BENCH_ONEDNN
  add(title + "/onednn", items, 0, [=]() -> std::function<void()> {
    auto peer = std::make_shared<bench::OnednnPeer>();
    peer->matmul(static_cast<std::int64_t>(m), static_cast<std::int64_t>(n),
                 static_cast<std::int64_t>(k));
    return [=] { peer->run(); };
  });
#endif
}

// Attention: q * k^T and p * v of one head.
void add_matmul(const char* name, std::size_t m, std::size_t n, std::size_t k, bool b_transposed) {
  add_targets(std::string("matmul/") + name, static_cast<double>(m * n * k), 0,
              [=](const KernelTable& table) -> std::function<void()> {
                auto a = std::make_shared<Floats>(m * k), b = std::make_shared<Floats>(n * k),
                     y = std::make_shared<Floats>(m * n);
                MatmulF32Args args{m,
                                   n,
                                   k,
                                   a->data(),
                                   k,
                                   1,
                                   b->data(),
                                   b_transposed ? 1 : n,
                                   b_transposed ? k : 1,
                                   0.125f,
                                   {},
                                   0,
                                   m,
                                   nullptr};
                auto scratch =
                    std::make_shared<Floats>(matmul_f32_scratch_bytes(args) / sizeof(float));
                args.epilogue.y = y->data();
                args.epilogue.y_stride = n;
                args.scratch = scratch->data();
                return [=] { table.matmul_f32(args), a.get(), b.get(), y.get(), scratch.get(); };
              });
}

void add_conv(const char* name, std::int64_t c, std::int64_t n, std::int64_t in,
              std::int64_t kernel, std::int64_t stride, std::int64_t groups = 1) {
  ConvShape s;
  s.in_channels = c;
  s.out_channels = n;
  s.groups = groups;
  for (int a : {1, 2}) {
    s.in[a] = in;
    s.kernel[a] = kernel;
    s.stride[a] = stride;
    s.pad_begin[a] = (kernel - 1) / 2;
    s.out[a] = (in + 2 * s.pad_begin[a] - kernel) / stride + 1;
  }
  const std::size_t rows = static_cast<std::size_t>(conv_rows(s)),
                    taps = static_cast<std::size_t>(conv_taps(s));
  const double items = static_cast<double>(rows * taps) * static_cast<double>(c / groups * n);
  const std::string title = std::string("conv/") + name;
  add_targets(title, items, 0, [=](const KernelTable& table) -> std::function<void()> {
    auto x = std::make_shared<Floats>(static_cast<std::size_t>(in * in * c));
    auto y = std::make_shared<Floats>(rows * static_cast<std::size_t>(n));
    const std::size_t channels = static_cast<std::size_t>(c);
    Epilogue e;
    e.y = y->data();
    e.y_stride = static_cast<std::size_t>(n);
    if (groups == c && n == c) {
      auto w = std::make_shared<Floats>(packed_depthwise_f32_size(channels, taps));
      DepthwiseF32Args args{s, x->data(), channels, w->data(), e, 0, rows};
      return [=] { table.depthwise_f32(args), x.get(), y.get(), w.get(); };
    }
    auto w = std::make_shared<Floats>(packed_f32_size(static_cast<std::size_t>(n / groups),
                                                      static_cast<std::size_t>(c / groups) * taps,
                                                      static_cast<std::size_t>(groups)));
    auto scratch = std::make_shared<Floats>(conv_f32_scratch_bytes(s) / sizeof(float));
    ConvF32Args args{s, x->data(), channels, w->data(),          e,
                     0, rows,      0,        conv_f32_panels(s), scratch->data()};
    return [=] { table.conv_f32(args), x.get(), y.get(), w.get(), scratch.get(); };
  });
#ifdef FOLD8_BENCH_ONEDNN
  add(title + "/onednn", items, 0, [=]() -> std::function<void()> {
    auto peer = std::make_shared<bench::OnednnPeer>();
    peer->convolution(s);
    return [=] { peer->run(); };
  });
#endif
}

void add_pools(std::size_t channels, std::int64_t in, std::int64_t kernel, std::int64_t stride,
               bool plain) {
  PoolWindow window;
  for (int a : {1, 2}) window.axis[a] = {in, (in - kernel) / stride + 1, kernel, stride, 1, 0, 0};
  const std::size_t outer = plain ? channels : 1, inner = plain ? 1 : channels;
  const std::size_t out = static_cast<std::size_t>(window.axis[1].out),
                    elements = channels * static_cast<std::size_t>(in * in);
  const std::string suffix =
      std::to_string(channels) + "x" + std::to_string(in) + (plain ? "/plain" : "/channels_last");
  add_targets("max_pool_f32/" + suffix, 0, 4.0 * static_cast<double>(elements),
              [=](const KernelTable& table) -> std::function<void()> {
                auto x = std::make_shared<Floats>(elements),
                     y = std::make_shared<Floats>(channels * out * out);
                MaxPoolArgs<float> args{outer, inner, window, x->data(), y->data(), 0, outer * out};
                return [=] { table.max_pool_f32(args), x.get(), y.get(); };
              });
  add_targets("average_pool_f32/" + suffix, 0, 4.0 * static_cast<double>(elements),
              [=](const KernelTable& table) -> std::function<void()> {
                auto x = std::make_shared<Floats>(elements),
                     y = std::make_shared<Floats>(channels * out * out);
                AveragePoolF32Args args{outer,     inner,     window, false,
                                        x->data(), y->data(), 0,      outer * out};
                return [=] { table.average_pool_f32(args), x.get(), y.get(); };
              });
  add_targets("max_pool_u8/" + suffix, 0, static_cast<double>(elements),
              [=](const KernelTable& table) -> std::function<void()> {
                auto x = std::make_shared<Floats>(elements),
                     y = std::make_shared<Floats>(channels * out * out);
                MaxPoolArgs<std::uint8_t> args{outer,
                                               inner,
                                               window,
                                               reinterpret_cast<std::uint8_t*>(x->data()),
                                               reinterpret_cast<std::uint8_t*>(y->data()),
                                               0,
                                               outer * out};
                return [=] { table.max_pool_u8(args), x.get(), y.get(); };
              });
}

void add_resize(std::size_t channels, std::size_t in, std::size_t out, bool plain) {
  ResizeAxisSpec spec;
  spec.in = in;
  spec.out = out;
  spec.scale = static_cast<double>(out) / static_cast<double>(in);
  spec.mode = ResizeMode::linear;
  auto table = std::make_shared<ResizeTable>(std::move(make_resize_table(spec)).value());
  add_targets(
      std::string("resize_linear/") + (plain ? "plain" : "channels_last"), 0,
      4.0 * static_cast<double>(out * out * channels),
      [=](const KernelTable& kernels) -> std::function<void()> {
        auto x = std::make_shared<Floats>(in * in * channels),
             y = std::make_shared<Floats>(out * out * channels);
        ResizeF32Args args{plain ? channels : 1,
                           plain ? 1 : channels,
                           {},
                           0,
                           x->data(),
                           y->data(),
                           0,
                           (plain ? channels : 1) * out,
                           nullptr};
        args.axis[1] =
            args.axis[2] = {in, out, table->taps, table->index.data(), table->weight.data()};
        auto scratch = std::make_shared<Floats>(resize_f32_scratch_bytes(args) / sizeof(float));
        args.scratch = scratch->data();
        return [=] { kernels.resize_f32(args), table.get(), x.get(), y.get(), scratch.get(); };
      });
}

void add_transpose(const char* name, std::vector<std::int64_t> extents, std::vector<int> perm,
                   std::size_t size) {
  const TransposePlan plan = make_transpose_plan(extents, perm, size);
  std::size_t bytes = size;
  for (std::int64_t e : extents) bytes *= static_cast<std::size_t>(e);
  add_targets(std::string("transpose/") + name, 0, 2.0 * static_cast<double>(bytes),
              [=](const KernelTable& table) -> std::function<void()> {
                auto x = std::make_shared<Floats>(bytes / 4 + 1),
                     y = std::make_shared<Floats>(bytes / 4 + 1);
                TransposeArgs args{plan, x->data(), y->data(), 0, plan.extent[0]};
                return [=] { table.transpose(args), x.get(), y.get(); };
              });
}

void add_all() {
  add_gemm("bert_base_ffn1_m128", 128, 3072, 768);
  add_gemm("bert_base_ffn2_m128", 128, 768, 3072);
  add_gemm("bert_base_qkv_m16", 16, 768, 768);
  add_gemm("decode_m1", 1, 3072, 768);
  add_gemm("resnet50_1x1_56", 3136, 256, 64);
  add_gemm("mobilenet_1x1_112", 12544, 96, 16);
  add_matmul("qk_t128", 128, 128, 64, true);
  add_matmul("pv_t128", 128, 64, 128, false);
  add_matmul("qk_decode_t512", 1, 512, 64, true);
  add_matmul("pv_decode_t512", 1, 64, 512, false);
  add_conv("resnet_stem_7x7", 3, 64, 224, 7, 2);
  add_conv("mobile_stem_3x3", 3, 16, 224, 3, 2);
  add_conv("ocr_det_3x3_n24_120", 96, 24, 120, 3, 1);
  add_conv("resnet_3x3_56", 64, 64, 56, 3, 1);
  add_conv("resnet_3x3_14", 256, 256, 14, 3, 1);
  add_conv("resnet_3x3_7", 512, 512, 7, 3, 1);
  add_conv("resnet_down_1x1", 256, 512, 56, 1, 2);
  add_conv("resnext_3x3_28_g32", 256, 256, 28, 3, 1, 32);
  add_conv("depthwise_3x3_112", 32, 32, 112, 3, 1, 32);
  add_conv("depthwise_3x3_s2_56", 144, 144, 56, 3, 2, 144);
  add_conv("depthwise_5x5_14", 480, 480, 14, 5, 1, 480);
  add_conv("depthwise_3x3_s2_112", 96, 96, 112, 3, 2, 96);
  add_conv("depthwise_3x3_14", 384, 384, 14, 3, 1, 384);
  add_conv("depthwise_3x3_7", 960, 960, 7, 3, 1, 960);
  add_conv("depthwise_5x5_s2_28", 72, 72, 28, 5, 2, 72);
  add_conv("depthwise_3x3_40", 24, 24, 40, 3, 1, 24);
  add_conv("depthwise_7x7_14", 384, 384, 14, 7, 1, 384);
  for (bool plain : {false, true}) add_pools(64, 112, 3, 2, plain);
  for (bool plain : {false, true}) add_resize(64, 28, 56, plain);
  add_transpose("nchw_to_nhwc_f32_64x56", {1, 64, 3136}, {0, 2, 1}, 4);
  add_transpose("nhwc_to_nchw_f32_64x56", {1, 3136, 64}, {0, 2, 1}, 4);
  add_transpose("nchw_to_nhwc_f32_3x224", {1, 3, 50176}, {0, 2, 1}, 4);
  add_transpose("nchw_to_nhwc_u8_64x56", {1, 64, 3136}, {0, 2, 1}, 1);
  add_transpose("heads_f32", {1, 128, 12, 64}, {0, 2, 1, 3}, 4);
}

}  // namespace
}  // namespace fold8::kernels

int main(int argc, char** argv) {
  fold8::kernels::add_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
