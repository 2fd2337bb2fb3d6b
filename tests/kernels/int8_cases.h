// Random epilogues with the arrays behind them, for the tests of the INT8 matrix kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>
#include <vector>

#include "runtime/kernels/kernel_table.h"
#include "tests/support/guarded_buffer.h"
#include "tests/support/random.h"

namespace fold8::kernels {

// What an epilogue is made of; every combination must give the reference's bits.
struct EpilogueKind {
  OutputKind output = OutputKind::s32;
  ResidualKind residual = ResidualKind::none;
  Activation activation = Activation::none;
  bool row_scale = false, offset = true, table = false, divisor = false;
};

inline std::ostream& operator<<(std::ostream& out, const EpilogueKind& k) {
  return out << "output " << int(k.output) << " residual " << int(k.residual) << " activation "
             << int(k.activation) << (k.row_scale ? " row_scale" : "")
             << (k.offset ? " offset" : "") << (k.table ? " table" : "")
             << (k.divisor ? " divisor" : "");
}

inline EpilogueKind random_kind(testing::SeededRng& rng) {
  EpilogueKind k;
  k.output = static_cast<OutputKind>(rng.integer(0, 2));
  k.residual = static_cast<ResidualKind>(rng.integer(0, 2));
  k.activation =
      static_cast<Activation>(rng.integer(0, 3) == 0 ? rng.integer(2, 10) : rng.integer(0, 1));
  k.row_scale = rng.integer(0, 3) == 0;
  k.offset = rng.integer(0, 3) != 0;
  k.table = rng.integer(0, 3) == 0;
  k.divisor = k.activation > Activation::clip || rng.integer(0, 3) == 0;
  return k;
}

// The inputs of one epilogue over [rows, cols]; row_scale has `scales` entries. Made for sums of
// about `magnitude`.
class EpilogueInputs {
 public:
  EpilogueInputs(testing::SeededRng& rng, const EpilogueKind& kind, std::size_t rows,
                 std::size_t cols, std::size_t scales, double magnitude)
      : kind_(kind),
        rows_(rows),
        cols_(cols),
        multiplier_(cols),
        offset_(cols),
        row_scale_(scales),
        residual_stride_(cols + static_cast<std::size_t>(rng.integer(0, 3))),
        residual_f32_(
            kind.residual == ResidualKind::f32 && rows ? (rows - 1) * residual_stride_ + cols : 0),
        residual_u8_(
            kind.residual == ResidualKind::u8 && rows ? (rows - 1) * residual_stride_ + cols : 0) {
    const float unit = static_cast<float>(
        (kind.output == OutputKind::u8 && !kind.divisor ? 100.0 : 3.0) / (magnitude + 1));
    for (float& v : multiplier_.span()) v = unit * rng.uniform(0.3f, 1.5f);
    for (float& v : offset_.span()) v = rng.normal(0, unit * static_cast<float>(magnitude) * 0.3f);
    for (float& v : row_scale_.span()) v = rng.uniform(0.3f, 2.0f);
    for (float& v : residual_f32_.span()) v = rng.normal(0, 2);
    rng.fill_integers(residual_u8_.span(), 0, 255);
    for (int i = 0; i < 256; ++i) table_[i] = static_cast<std::uint8_t>(rng.integer(0, 255));
    e_.multiplier = multiplier_.data();
    e_.offset = kind.offset ? offset_.data() : nullptr;
    e_.row_scale = kind.row_scale ? row_scale_.data() : nullptr;
    e_.residual_kind = kind.residual;
    e_.residual =
        kind.residual == ResidualKind::f32  ? static_cast<const void*>(residual_f32_.data())
        : kind.residual == ResidualKind::u8 ? static_cast<const void*>(residual_u8_.data())
                                            : nullptr;
    e_.residual_stride = residual_stride_;
    e_.residual_scale = rng.uniform(0.1f, 1.0f);
    e_.residual_zero_point = static_cast<std::int32_t>(rng.integer(0, 255));
    e_.activation = kind.activation;
    choose_parameters(rng);
    e_.output_kind = kind.output;
    e_.y_stride = cols + static_cast<std::size_t>(rng.integer(0, 3));
    e_.y_zero_point = static_cast<std::int32_t>(rng.integer(0, 3) == 0 ? 0 : rng.integer(0, 255));
    e_.y_divisor = kind.divisor ? 0.03f * rng.uniform(0.3f, 3.0f) : 0.0f;
    e_.table = kind.table ? table_ : nullptr;
  }

  std::size_t y_bytes() const {
    const std::size_t element = kind_.output == OutputKind::u8 ? 1 : 4;
    return rows_ == 0 ? 0 : ((rows_ - 1) * e_.y_stride + cols_) * element;
  }
  Epilogue with_output(void* y) const {
    Epilogue e = e_;
    e.y = y;
    return e;
  }
  std::span<float> multiplier() { return multiplier_.span(); }
  std::span<float> offset() { return offset_.span(); }
  void set_divisor(float d) { e_.y_divisor = d; }

 private:
  void choose_parameters(testing::SeededRng& rng) {
    switch (kind_.activation) {
      case Activation::clip:
        e_.a = rng.integer(0, 1) ? 0.0f : rng.uniform(-80, 20);
        e_.b = rng.integer(0, 1) ? std::numeric_limits<float>::infinity() : rng.uniform(-10, 90);
        break;
      case Activation::leaky_relu:
        e_.a = 0.1f;
        break;
      case Activation::hard_sigmoid:
      case Activation::hard_swish:
        e_.a = 1.0f / 6;
        e_.b = 0.5f;
        break;
      case Activation::silu:
        e_.a = rng.integer(0, 1) ? 1.0f : 1.702f;
        break;
      case Activation::elu:
        e_.a = 1.0f;
        break;
      default:
        break;
    }
  }

  EpilogueKind kind_;
  std::size_t rows_, cols_;
  testing::GuardedBuffer<float> multiplier_, offset_, row_scale_;
  std::size_t residual_stride_;
  testing::GuardedBuffer<float> residual_f32_;
  testing::GuardedBuffer<std::uint8_t> residual_u8_;
  std::uint8_t table_[256];
  Epilogue e_;
};

// Packed bytes at a guarded, 64-byte aligned place.
inline std::size_t guarded_size(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// v or one of its next neighbours.
inline float next_to(testing::SeededRng& rng, float v) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (auto steps = rng.integer(-4, 4); steps != 0; steps += steps > 0 ? -1 : 1)
    v = std::nextafter(v, steps > 0 ? kInfinity : -kInfinity);
  return v;
}
// Values whose quotients by d lie on a half or next to one.
inline void fill_next_to_halves(testing::SeededRng& rng, float d, std::span<float> values) {
  for (float& v : values) v = next_to(rng, (static_cast<float>(rng.integer(-256, 256)) + 0.5f) * d);
}
// The same for v * (v / 6 + 1 / 2), v in [-1.5, 3]: hard_swish behind a gate that is half open.
inline void fill_gated_next_to_halves(testing::SeededRng& rng, float d, std::span<float> values) {
  const auto lowest = static_cast<std::int64_t>(std::ceil(-0.375f / d)),
             highest = static_cast<std::int64_t>(std::min(256.0f, 3 / d));
  for (float& v : values) {
    const double t = (static_cast<double>(rng.integer(lowest, highest)) + 0.5) * double{d};
    v = next_to(rng, static_cast<float>(std::sqrt(std::max(0.0, 2.25 + 6 * t)) - 1.5));
  }
}

// Full-range u8 and s8, with the extremes well represented.
inline void fill_activations(testing::SeededRng& rng, std::span<std::uint8_t> x) {
  for (std::uint8_t& v : x)
    v = static_cast<std::uint8_t>(rng.integer(0, 7) == 0 ? 255 : rng.integer(0, 255));
}
inline void fill_weights(testing::SeededRng& rng, std::span<std::int8_t> w) {
  for (std::int8_t& v : w) {
    const auto kind = rng.integer(0, 15);
    v = static_cast<std::int8_t>(kind == 0 ? 127 : kind == 1 ? -128 : rng.integer(-128, 127));
  }
}
inline std::int32_t random_zero_point(testing::SeededRng& rng) {
  constexpr std::int32_t kOften[] = {0, 113, 128, 255};
  return kOften[rng.integer(0, 3)];
}

// A short-hand for "all vector targets this CPU can run".
inline std::vector<Target> runnable_targets() {
  std::vector<Target> out;
  for (const Target& t : targets())
    if (t.cpu_can_run()) out.push_back(t);
  return out;
}

}  // namespace fold8::kernels
