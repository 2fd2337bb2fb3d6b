#include "bench/int8_onednn.h"

#ifdef FOLD8_BENCH_ONEDNN
#include <dnnl.hpp>
#include <memory>
#include <vector>
#endif

namespace fold8::bench {

#ifdef FOLD8_BENCH_ONEDNN

namespace {

using dnnl::memory;
using Type = memory::data_type;
using Tag = memory::format_tag;

dnnl::engine& engine() {
  static dnnl::engine e(dnnl::engine::kind::cpu, 0);
  return e;
}

dnnl::primitive_attr relu_attributes(Numbers numbers) {
  dnnl::post_ops ops;
#if DNNL_VERSION_MAJOR >= 3
  ops.append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
#else
  ops.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0, 0);
#endif
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(ops);
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR < 3
  if (numbers == Numbers::int8) attributes.set_output_scales(0, {0.01f});
#endif
  (void)numbers;
  return attributes;
}

template <class Descriptor>
std::function<void()> runner(const Descriptor& d) {
  std::unordered_map<int, memory> arguments = {
      {DNNL_ARG_SRC, memory(d.src_desc(), engine())},
      {DNNL_ARG_WEIGHTS, memory(d.weights_desc(), engine())},
      {DNNL_ARG_BIAS, memory(d.bias_desc(), engine())},
      {DNNL_ARG_DST, memory(d.dst_desc(), engine())},
      {DNNL_ARG_SCRATCHPAD, memory(d.scratchpad_desc(), engine())}};
  for (auto& [kind, m] : arguments) {
    auto* bytes = static_cast<std::uint8_t*>(m.get_data_handle());
    const bool zero = kind == DNNL_ARG_BIAS || m.get_desc().data_type() == Type::f32;
    for (std::size_t i = 0; i < m.get_desc().get_size(); ++i)
      bytes[i] = zero ? 0 : static_cast<std::uint8_t>(i * 37);
  }
  dnnl::stream stream(engine());
  return [primitive = dnnl::primitive(d), arguments, stream]() mutable {
    primitive.execute(stream, arguments);
    stream.wait();
  };
}

}  // namespace

std::function<void()> onednn_matmul(std::int64_t m, std::int64_t n, std::int64_t k,
                                    Numbers numbers) {
  const bool f32 = numbers == Numbers::f32;
  const Type values = f32 ? Type::f32 : Type::u8, weights = f32 ? Type::f32 : Type::s8;
  const memory::desc x({m, k}, values, Tag::ab), w({k, n}, weights, Tag::any),
      bias({1, n}, Type::f32, Tag::ab), y({m, n}, values, Tag::ab);
#if DNNL_VERSION_MAJOR >= 3
  return runner(dnnl::matmul::primitive_desc(engine(), x, w, bias, y, relu_attributes(numbers)));
#else
  return runner(dnnl::matmul::primitive_desc(dnnl::matmul::desc(x, w, bias, y),
                                             relu_attributes(numbers), engine()));
#endif
}

std::function<void()> onednn_conv(const kernels::ConvShape& s, Numbers numbers) {
  if (s.transposed) return {};
  const bool f32 = numbers == Numbers::f32;
  const Type values = f32 ? Type::f32 : Type::u8, weights = f32 ? Type::f32 : Type::s8;
  const std::int64_t g = s.groups;
  const memory::desc x({s.batch, s.in_channels, s.in[1], s.in[2]}, values, Tag::nhwc);
  const memory::desc y({s.batch, s.out_channels, s.out[1], s.out[2]}, values, Tag::nhwc);
  const memory::desc w =
      g == 1 ? memory::desc({s.out_channels, s.in_channels, s.kernel[1], s.kernel[2]}, weights,
                            Tag::any)
             : memory::desc({g, s.out_channels / g, s.in_channels / g, s.kernel[1], s.kernel[2]},
                            weights, Tag::any);
  const memory::desc bias({s.out_channels}, Type::f32, Tag::a);
  const auto behind = [&](int a) {
    return (s.out[a] - 1) * s.stride[a] + (s.kernel[a] - 1) * s.dilation[a] + 1 - s.in[a] -
           s.pad_begin[a];
  };
  const memory::dims strides = {s.stride[1], s.stride[2]}, front = {s.pad_begin[1], s.pad_begin[2]},
                     back = {behind(1), behind(2)};
  const auto inference = dnnl::prop_kind::forward_inference;
  const auto direct = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  return runner(dnnl::convolution_forward::primitive_desc(
      engine(), inference, direct, x, w, bias, y, strides, front, back, relu_attributes(numbers)));
#else
  return runner(dnnl::convolution_forward::primitive_desc(
      {inference, direct, x, w, bias, y, strides, front, back}, relu_attributes(numbers),
      engine()));
#endif
}

#else

std::function<void()> onednn_matmul(std::int64_t, std::int64_t, std::int64_t, Numbers) {
  return {};
}
std::function<void()> onednn_conv(const kernels::ConvShape&, Numbers) { return {}; }

#endif

}  // namespace fold8::bench
