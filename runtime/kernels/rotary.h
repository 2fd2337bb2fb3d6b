// Rotary position embedding of tokens (Su et al. 2021; ONNX RotaryEmbedding-23). A head has `depth`
// elements; of its first `dims`, pairs turn by the angle whose cosine and sine are given, the rest
// is copied:
//   y[u] = x[u] * cos[u'] + (-x[w]) * sin[u'],   y[w] = x[w] * cos[w'] + x[u] * sin[w']
// each product and each sum rounded, where (u, w) = (i, i + dims / 2), or (2i, 2i + 1) if
// `interleaved`, i < dims / 2; tables of dims entries (full_tables): u' = u, w' = w; of dims / 2:
// u' = w' = i. x and y must not overlap.
#pragma once

#include <cstddef>

namespace fold8::kernels {

struct RotaryArgs {
  std::size_t tokens = 0, heads = 1, depth = 0, dims = 0;
  bool interleaved = false, full_tables = false;
  // Strides in floats; elements of a head are neighbours, y lies as x does.
  const float* x = nullptr;
  std::size_t stride = 0, head_stride = 0;
  const float* cos = nullptr;  // [tokens][table_stride]
  const float* sin = nullptr;
  std::size_t table_stride = 0;
  float* y = nullptr;
};
using rotary_fn = void(const RotaryArgs&);

namespace reference {
rotary_fn rotary;
}

}  // namespace fold8::kernels
