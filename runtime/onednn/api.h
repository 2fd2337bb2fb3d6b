// oneDNN 2.6 and 3.x under one spelling.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <optional>

namespace fold8::onednn {

using Dims = dnnl::memory::dims;
using MemoryDesc = dnnl::memory::desc;

// A primitive descriptor, nullopt if oneDNN has no implementation for it or only its slow
// reference.
template <class Primitive, class... Args>
std::optional<typename Primitive::primitive_desc> describe(const dnnl::engine& engine,
                                                           dnnl::primitive_attr attr,
                                                           const Args&... args) {
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);  // a shared primitive with the library's
                                                          // own gives wrong results
  try {
#if DNNL_VERSION_MAJOR >= 3
    typename Primitive::primitive_desc pd(engine, args..., attr);
#else
    typename Primitive::primitive_desc pd(typename Primitive::desc(args...), attr, engine);
#endif
    if (std::string(pd.impl_info_str()).find("ref") != std::string::npos) return std::nullopt;
    return pd;
  } catch (const dnnl::error&) {
    return std::nullopt;
  }
}

inline void append_eltwise(dnnl::post_ops& ops, dnnl::algorithm algorithm, float alpha,
                           float beta) {
#if DNNL_VERSION_MAJOR >= 3
  ops.append_eltwise(algorithm, alpha, beta);
#else
  ops.append_eltwise(1.0f, algorithm, alpha, beta);
#endif
}

#if DNNL_VERSION_MAJOR >= 3
using Pooling = dnnl::pooling_forward;
inline constexpr auto kEveryIsa = dnnl::cpu_isa::isa_default;
#else
using Pooling = dnnl::pooling_v2_forward;
inline constexpr auto kEveryIsa = dnnl::cpu_isa::all;
#endif

}  // namespace fold8::onednn
