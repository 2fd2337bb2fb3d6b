// The widest vectors the CPU has for loops that are written once, in plain C++.
#pragma once

#include "quant/wide_loops.h"

namespace fold8::quant {

namespace wide_detail {

// Flattened: everything f calls is compiled here, for these instructions. None contracts a product
// and a sum (-ffp-contract=off), so all widths give the same bits.
template <class F>
__attribute__((target("avx512f"), flatten)) void in_avx512(const F& f) {
  f();
}
template <class F>
__attribute__((target("avx2"), flatten)) void in_avx2(const F& f) {
  f();
}

}  // namespace wide_detail

// f(): loops over arrays whose iterations do not depend on each other, or sum integers. Small
// enough to be inlined whole.
template <class F>
void wide(const F& f, LoopWidth width = best_width()) {
  switch (width) {
    case LoopWidth::avx512:
      return wide_detail::in_avx512(f);
    case LoopWidth::avx2:
      return wide_detail::in_avx2(f);
    case LoopWidth::plain:
      return f();
  }
}

}  // namespace fold8::quant
