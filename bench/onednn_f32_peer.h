// oneDNN f32 primitives as the yardstick of f32_kernels_bench: weights prepacked, one thread,
// channels-last.
#pragma once

#include <dnnl.hpp>
#include <vector>

#include "runtime/kernels/conv_shape.h"

namespace fold8::bench {

class OnednnPeer {
 public:
  // y [m, n] = x [m, k] * w [k, n]
  void matmul(std::int64_t m, std::int64_t n, std::int64_t k) {
    using namespace dnnl;
    const auto f32 = memory::data_type::f32;
    const memory::desc x({m, k}, f32, memory::format_tag::ab),
        w({k, n}, f32, memory::format_tag::any);
    const memory::desc y({m, n}, f32, memory::format_tag::ab);
#if DNNL_VERSION_MAJOR >= 3
    const matmul::primitive_desc pd(engine_, x, w, y);
#else
    const dnnl::matmul::primitive_desc pd({x, w, y}, engine_);
#endif
    set(dnnl::matmul(pd), x, pd.weights_desc(), y);
  }

  void convolution(const kernels::ConvShape& s) {
    using namespace dnnl;
    const auto f32 = memory::data_type::f32;
    const auto any = memory::format_tag::any, nhwc = memory::format_tag::nhwc;
    const memory::desc x({s.batch, s.in_channels, s.in[1], s.in[2]}, f32, nhwc);
    const memory::desc y({s.batch, s.out_channels, s.out[1], s.out[2]}, f32, nhwc);
    const std::int64_t n = s.out_channels / s.groups, c = s.in_channels / s.groups;
    const memory::desc w = s.groups > 1
                               ? memory::desc({s.groups, n, c, s.kernel[1], s.kernel[2]}, f32, any)
                               : memory::desc({n, c, s.kernel[1], s.kernel[2]}, f32, any);
    const memory::dims strides = {s.stride[1], s.stride[2]},
                       begin = {s.pad_begin[1], s.pad_begin[2]};
    memory::dims end;
    for (int a : {1, 2})
      end.push_back((s.out[a] - 1) * s.stride[a] + s.kernel[a] - s.in[a] - s.pad_begin[a]);
    const auto prop = prop_kind::forward_inference;
    const auto algorithm = algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
    const convolution_forward::primitive_desc pd(engine_, prop, algorithm, x, w, y, strides, begin,
                                                 end);
#else
    const convolution_forward::primitive_desc pd({prop, algorithm, x, w, y, strides, begin, end},
                                                 engine_);
#endif
    set(convolution_forward(pd), x, pd.weights_desc(), y);
  }

  void run() {
    primitive_.execute(stream_, {{DNNL_ARG_SRC, x_}, {DNNL_ARG_WEIGHTS, w_}, {DNNL_ARG_DST, y_}});
    stream_.wait();
  }

 private:
  void set(const dnnl::primitive& p, const dnnl::memory::desc& x, const dnnl::memory::desc& w,
           const dnnl::memory::desc& y) {
    primitive_ = p;
    x_ = filled(x, 0.5f);
    w_ = filled(w, 0.01f);
    y_ = filled(y, 0);
  }
  dnnl::memory filled(const dnnl::memory::desc& d, float value) {
    dnnl::memory m(d, engine_);
    float* data = static_cast<float*>(m.get_data_handle());
    for (std::size_t i = 0; i < d.get_size() / sizeof(float); ++i) data[i] = value;
    return m;
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::primitive primitive_;
  dnnl::memory x_, w_, y_;
};

}  // namespace fold8::bench
