// Vector bodies of resize.h. Include only from targets/*.cc.
#pragma once

#include <cstring>

#include "runtime/kernels/lanes_simd.h"
#include "runtime/kernels/resize.h"
#include "runtime/kernels/vector_io_simd.h"

namespace fold8::kernels::simd {

template <class Arch>
class ResizeF32 {
 public:
  explicit ResizeF32(const ResizeF32Args& args)
      : args_(args),
        a0_(args.axis[0]),
        a1_(args.axis[1]),
        a2_(args.axis[2]),
        width_(a2_.out * args.inner),
        slots_(at_least_1(a0_.taps) * at_least_1(a1_.taps)),
        slot_floats_((width_ + 15) / 16 * 16) {
    for (std::size_t s = 0; s < slots_; ++s) tag_[s] = kEmpty;
  }

  void line(std::size_t line) {
    const std::size_t o1 = line % a1_.out, o0 = line / a1_.out % a0_.out,
                      outer = line / (a1_.out * a0_.out);
    float* const y = args_.y + line * width_;
    if (outside(a0_, o0) || outside(a1_, o1)) {
      for (std::size_t i = 0; i < width_; ++i) y[i] = args_.extrapolation;
      return;
    }
    const float* source[kMaxResizeTaps * kMaxResizeTaps];
    gather_lines(outer, o0, o1, source);
    combine(o0, o1, source, y);
    for (std::size_t o2 = 0; o2 < a2_.out; ++o2)
      if (outside(a2_, o2))
        for (std::size_t c = 0; c < args_.inner; ++c) y[o2 * args_.inner + c] = args_.extrapolation;
  }

 private:
  using batch = typename Arch::f32;
  using Io = VectorIo<batch>;
  using L = Lanes<batch>;
  static constexpr std::size_t kMaxSlots = kMaxResizeTaps * kMaxResizeTaps;
  static constexpr std::size_t kEmpty = ~std::size_t{0};

  static std::size_t at_least_1(std::size_t n) { return n > 0 ? n : 1; }
  static bool outside(const ResizeAxisF32& a, std::size_t o) {
    return a.taps > 0 && a.index[o * a.taps] < 0;
  }
  static std::size_t tap(const ResizeAxisF32& a, std::size_t o, std::size_t t) {
    return a.taps > 0 ? static_cast<std::size_t>(a.index[o * a.taps + t]) : o;
  }

  // The input lines this output line mixes, already resized along the last axis; neighbours share
  // most of them, so they are kept in as many slots as one line needs.
  void gather_lines(std::size_t outer, std::size_t o0, std::size_t o1, const float** source) {
    std::size_t wanted[kMaxSlots];
    bool keep[kMaxSlots] = {};
    const std::size_t t1 = at_least_1(a1_.taps);
    for (std::size_t s = 0; s < slots_; ++s) {
      wanted[s] = (outer * a0_.in + tap(a0_, o0, s / t1)) * a1_.in + tap(a1_, o1, s % t1);
      for (std::size_t k = 0; k < slots_; ++k) keep[k] = keep[k] || tag_[k] == wanted[s];
    }
    for (std::size_t s = 0; s < slots_; ++s) {
      const float* x = args_.x + wanted[s] * a2_.in * args_.inner;
      source[s] = a2_.taps == 0 ? x : resized(wanted[s], x, keep);
    }
  }

  const float* resized(std::size_t wanted, const float* x, bool* keep) {
    std::size_t slot = 0;
    while (slot < slots_ && tag_[slot] != wanted) ++slot;
    if (slot == slots_) {
      slot = 0;
      while (keep[slot])
        ++slot;  // there is one: slots_ lines are wanted, and this one has no slot yet
      tag_[slot] = wanted;
      keep[slot] = true;
      resize_line(x, static_cast<float*>(args_.scratch) + slot * slot_floats_);
    }
    return static_cast<const float*>(args_.scratch) + slot * slot_floats_;
  }

  void resize_line(const float* x, float* t) const {
    const std::int32_t* index = a2_.index;
    const float* weight = a2_.weight;
    for (std::size_t o = 0; o < a2_.out;
         ++o, index += a2_.taps, weight += a2_.taps, t += args_.inner) {
      if (index[0] < 0) {
        for (std::size_t c = 0; c < args_.inner; ++c) t[c] = 0.0f;  // never seen
      } else if (args_.inner == 1) {
        float sum = 0.0f;
        for (std::size_t k = 0; k < a2_.taps; ++k)
          sum = __builtin_fmaf(weight[k], x[index[k]], sum);
        t[0] = sum;
      } else {
        for (std::size_t c = 0; c < args_.inner; c += batch::size) {
          batch sum(0.0f);
          for (std::size_t k = 0; k < a2_.taps; ++k)
            sum = L::fma(
                batch(weight[k]),
                Io::load(x + static_cast<std::size_t>(index[k]) * args_.inner + c, args_.inner - c),
                sum);
          Io::store(t + c, sum, args_.inner - c);
        }
      }
    }
  }

  // The chains of the outer axes, element by element of the line.
  void combine(std::size_t o0, std::size_t o1, const float** source, float* y) const {
    const std::size_t t1 = at_least_1(a1_.taps);
    const float* const w0 = a0_.weight + o0 * a0_.taps;
    const float* const w1 = a1_.weight + o1 * a1_.taps;
    for (std::size_t i = 0; i < width_; i += batch::size) {
      const auto inner_chain = [&](const float** lines) __attribute__((always_inline)) {
        if (a1_.taps == 0) return Io::load(lines[0] + i, width_ - i);
        batch sum(0.0f);
        for (std::size_t k = 0; k < a1_.taps; ++k)
          sum = L::fma(batch(w1[k]), Io::load(lines[k] + i, width_ - i), sum);
        return sum;
      };
      batch r(0.0f);
      if (a0_.taps == 0) r = inner_chain(source);
      for (std::size_t k = 0; k < a0_.taps; ++k)
        r = L::fma(batch(w0[k]), inner_chain(source + k * t1), r);
      Io::store(y + i, r, width_ - i);
    }
  }

  const ResizeF32Args& args_;
  const ResizeAxisF32 &a0_, &a1_, &a2_;
  const std::size_t width_, slots_, slot_floats_;
  std::size_t tag_[kMaxSlots];
};

template <class Arch>
void resize_f32(const ResizeF32Args& args) {
  ResizeF32<Arch> resize(args);
  for (std::size_t line = args.line_begin; line < args.line_end; ++line) resize.line(line);
}

template <class Arch, std::size_t kBytes>
void nearest_line(const std::byte* x, const std::int32_t* index, std::size_t out, std::byte* y) {
  for (std::size_t o = 0; o < out; ++o)
    std::memcpy(y + o * kBytes, x + static_cast<std::size_t>(index[o]) * kBytes, kBytes);
}

// One output line from one input line; index has no -1.
template <class Arch>
void nearest_line_any(const std::byte* x, const std::int32_t* index, std::size_t out,
                      std::size_t bytes, std::byte* y) {
  switch (bytes) {
    case 1:
      return nearest_line<Arch, 1>(x, index, out, y);
    case 2:
      return nearest_line<Arch, 2>(x, index, out, y);
    case 4:
      return nearest_line<Arch, 4>(x, index, out, y);
    case 8:
      return nearest_line<Arch, 8>(x, index, out, y);
    case 16:
      return nearest_line<Arch, 16>(x, index, out, y);
    case 64:
      return nearest_line<Arch, 64>(x, index, out, y);
    default:
      for (std::size_t o = 0; o < out; ++o)
        std::memcpy(y + o * bytes, x + static_cast<std::size_t>(index[o]) * bytes, bytes);
  }
}

template <class Arch>
void resize_nearest(const ResizeNearestArgs& args) {
  const ResizeAxisNearest &a0 = args.axis[0], &a1 = args.axis[1], &a2 = args.axis[2];
  const std::size_t line_bytes = a2.out * args.inner_bytes;
  const auto fill = [&args](std::byte* y, std::size_t bytes) {
    for (std::size_t b = 0; b < bytes; b += args.element_size)
      std::memcpy(y + b, args.extrapolation, args.element_size);
  };
  bool holes = false;  // anywhere along the last axis
  for (std::size_t o = 0; a2.index != nullptr && o < a2.out; ++o) holes = holes || a2.index[o] < 0;
  std::byte* y = static_cast<std::byte*>(args.y) + args.line_begin * line_bytes;
  const std::byte* before = nullptr;  // the input line of the previous output line
  for (std::size_t line = args.line_begin; line < args.line_end; ++line, y += line_bytes) {
    const std::size_t o1 = line % a1.out, o0 = line / a1.out % a0.out,
                      outer = line / (a1.out * a0.out);
    const std::int64_t i0 = a0.index ? a0.index[o0] : static_cast<std::int64_t>(o0);
    const std::int64_t i1 = a1.index ? a1.index[o1] : static_cast<std::int64_t>(o1);
    if (i0 < 0 || i1 < 0) {
      fill(y, line_bytes);
      before = nullptr;
      continue;
    }
    const std::size_t from =
        ((outer * a0.in + static_cast<std::size_t>(i0)) * a1.in + static_cast<std::size_t>(i1)) *
        a2.in;
    const std::byte* x = static_cast<const std::byte*>(args.x) + from * args.inner_bytes;
    if (x == before) {
      std::memcpy(y, y - line_bytes, line_bytes);
    } else if (a2.index == nullptr) {
      std::memcpy(y, x, line_bytes);
    } else if (!holes) {
      nearest_line_any<Arch>(x, a2.index, a2.out, args.inner_bytes, y);
    } else {
      for (std::size_t o = 0; o < a2.out; ++o) {
        std::byte* to = y + o * args.inner_bytes;
        if (a2.index[o] < 0)
          fill(to, args.inner_bytes);
        else
          std::memcpy(to, x + static_cast<std::size_t>(a2.index[o]) * args.inner_bytes,
                      args.inner_bytes);
      }
    }
    before = x;
  }
}

}  // namespace fold8::kernels::simd
