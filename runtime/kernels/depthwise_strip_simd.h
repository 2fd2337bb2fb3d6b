// Depthwise layers in strips (depthwise_strip.h) for the vector targets. Include only from
// depthwise_u8s8_simd.h.
#pragma once

#include "runtime/kernels/depthwise_strip_avx2.h"
#include "runtime/kernels/depthwise_strip_avx_vnni.h"
#include "runtime/kernels/depthwise_strip_vnni.h"
#include "runtime/kernels/epilogue_shift.h"
#include "runtime/kernels/epilogue_simd.h"
#include "runtime/kernels/window_simd.h"

namespace fold8::kernels::simd {

template <class Arch>
struct StripEngineOf {
  using type = StripAvx2<Arch>;
};
#ifdef __AVXVNNI__
template <>
struct StripEngineOf<AvxVnni> {
  using type = StripAvxVnni<AvxVnni>;
};
#endif
#ifdef __AVX512VNNI__
template <>
struct StripEngineOf<Avx512Vnni> {
  using type = StripVnni<Avx512Vnni>;
};
#endif

namespace strip_detail {

// Every other epilogue: the sums by way of memory. row_scale: the sample's.
template <class Arch>
struct Sums {
  using Engine = typename StripEngineOf<Arch>::type;
  const Epilogue& e;
  std::size_t channel, width;
  float row_scale[4];

  Sums(const StripEpilogue& s, const StripGroup& g)
      : e(*s.all), channel(g.channel), width(g.width) {
    for (float& v : row_scale) v = e.row_scale ? e.row_scale[g.sample] : 0.0f;
  }
  using Cursor = std::size_t;  // an output row
  Cursor cursor(std::size_t m) const { return m; }
  Cursor next(Cursor m, std::size_t pixels) const { return m + pixels; }
  std::size_t step() const { return 1; }
  static constexpr bool kTwice = false;  // a residual may lie where the result goes
  template <bool, class Outputs>
  void finish(Cursor m, const typename Engine::Vector (&acc)[Outputs::kPixels],
              const Outputs& outputs) const {
    alignas(64) std::int32_t sums[Outputs::kPixels][Engine::kLanes];
    for (int i = 0; i < Outputs::kPixels; ++i) Engine::store(sums[i], acc[i]);
    Epilogue at = epilogue_at(e, m, 0);
    if (e.row_scale) at.row_scale = row_scale;
    epilogue_rows<Arch, std::int32_t>(at, 0, channel,
                                      {sums[0], Engine::kLanes, outputs.count(), width});
  }
};

// The weights of a group where registers hold them all, else where they lie.
template <class Engine, int kTaps, int kPieces, int kLines>
struct StripWeights {
  using Vector = typename Engine::Vector;
  static constexpr int kCount = kTaps * kPieces * kLines;
  static constexpr bool kKept = kCount > 0 && kCount <= Engine::kKeptWeights;
  static constexpr std::size_t kBytes = Engine::kLanes * 4;
  Vector kept[kKept ? kCount : 1];
  const std::uint8_t* from;
  std::size_t step;

  // A group of two lines may be asked for the first alone.
  explicit StripWeights(const StripGroup& g)
      : step(static_cast<std::size_t>(kLines == 2 ? 2 : g.lines) * kBytes) {
    from = g.weights + static_cast<std::size_t>(g.first_piece * g.taps) * step;
    if constexpr (kKept) {
#pragma GCC unroll 16
      for (int i = 0; i < kCount; ++i)
        kept[i] = Engine::load(from + static_cast<std::size_t>(i / kLines) * step +
                               static_cast<std::size_t>(i % kLines) * kBytes);
    }
  }
  [[gnu::always_inline]] Vector get(int at, int line) const {
    if constexpr (kKept) return kept[at * kLines + line];
    return Engine::load(from + static_cast<std::size_t>(at) * step +
                        static_cast<std::size_t>(line) * kBytes);
  }
};

// Neighbouring outputs of kLines lines. kTaps, kPieces: of the group, or 0.
template <class Engine, int kTaps, int kPieces, int kLines, bool kSwish, class Finish,
          class Outputs>
[[gnu::always_inline]] inline void turn(const StripGroup& g,
                                        const StripWeights<Engine, kTaps, kPieces, kLines>& w,
                                        const typename Engine::Vector (&init)[kLines],
                                        const Finish& finish, const std::uint8_t* from,
                                        const typename Finish::Cursor (&to)[kLines],
                                        const Outputs& outputs) {
  constexpr int kPixels = Outputs::kPixels;
  typename Engine::Vector acc[kLines][kPixels];
  const std::uint8_t* column[kPixels];
#pragma GCC unroll 4
  for (int i = 0; i < kPixels; ++i) {
    // Hidden from the compiler: it would work all addresses out beforehand, and spill them.
    column[i] = from + outputs.input(i);
    asm("" : "+r"(column[i]));
#pragma GCC unroll 2
    for (int l = 0; l < kLines; ++l) acc[l][i] = init[l];
  }
  const int taps = kTaps ? kTaps : g.taps, pieces = kPieces ? kPieces : g.pieces;
  std::size_t piece = 0;
#pragma GCC unroll 2
  for (int p = 0; p < pieces; ++p, piece += g.piece)
#pragma GCC unroll 5
    for (int t = 0; t < taps; ++t) {
      typename Engine::Vector weights[kLines];
#pragma GCC unroll 2
      for (int l = 0; l < kLines; ++l) weights[l] = w.get(p * taps + t, l);
#pragma GCC unroll 4
      for (int i = 0; i < kPixels; ++i) {
        const auto x = Engine::load(column[i] + piece + static_cast<std::size_t>(t) * g.tap);
#pragma GCC unroll 2
        for (int l = 0; l < kLines; ++l) acc[l][i] = Engine::dot(acc[l][i], x, weights[l]);
      }
    }
#pragma GCC unroll 2
  for (int l = 0; l < kLines; ++l) finish.template finish<kSwish>(to[l], acc[l], outputs);
}

// Kernels that are known have a body without questions, for three outputs or more.
template <int kTaps, class Finish>
inline constexpr std::size_t kLeastOutputs = kTaps > 0 && Finish::kTwice ? 3 : 1;

template <class Engine, int kTaps, int kPieces, int kLines, bool kSwish, class Finish>
[[gnu::noinline]] void one_group(const StripGroup& group, const StripEpilogue& epilogue) {
  const StripGroup g = group;  // a copy that stores to y cannot touch
  const Finish finish(epilogue, g);
  const StripWeights<Engine, kTaps, kPieces, kLines> w(g);
  typename Engine::Vector init[kLines];
  typename Finish::Cursor to[kLines];
#pragma GCC unroll 2
  for (int l = 0; l < kLines; ++l)
    init[l] = Engine::load(g.init[l]),
    to[l] = finish.cursor(g.m + static_cast<std::size_t>(l) * g.line_rows);
  const std::uint8_t* from = g.entries;
  const auto move = [&](std::size_t pixels) __attribute__((always_inline)) {
    from += pixels * g.output;
#pragma GCC unroll 2
    for (int l = 0; l < kLines; ++l) to[l] = finish.next(to[l], pixels);
  };
  const auto take = [&](const auto& outputs) __attribute__((always_inline)) {
    turn<Engine, kTaps, kPieces, kLines, kSwish>(g, w, init, finish, from, to, outputs);
  };
  if constexpr (kLeastOutputs<kTaps, Finish> == 1) {
    StripSomeOutputs outputs(g.output, finish.step());
    for (std::size_t left = g.pixels; left > 0; move(kStripPixels)) {
      if (left < kStripPixels) outputs.end_after(left);
      take(outputs);
      left -= outputs.count();
    }
  } else {
    // A rest of one or two outputs comes first, with some that are computed once more.
    const std::size_t rest = g.pixels % 4;
    std::size_t turns = g.pixels / 4, step = 4;
    if (rest == 1 || rest == 2) ++turns, step = rest;
    for (; turns > 0; --turns, step = 4) {
      take(StripOutputs<4>{g.output, finish.step()});
      move(step);
    }
    if (rest == 3) take(StripOutputs<3>{g.output, finish.step()});  // maps of 7 x 7 end so
  }
}

// All groups of a strip.
template <class Engine, int kTaps, int kPieces, int kLines, bool kSwish, class Finish>
void group(const StripGroup& all, const StripEpilogue& epilogue) {
  StripGroup g = all;
  for (std::size_t left = all.width; left > 0; left -= g.width) {
    g.width = left < Engine::kLanes ? left : Engine::kLanes;
    one_group<Engine, kTaps, kPieces, kLines, kSwish, Finish>(g, epilogue);
    g.entries += 4 * Engine::kLanes;
    g.weights += g.weight_bytes;
    g.init[0] += 4 * Engine::kLanes, g.init[1] += 4 * Engine::kLanes;
    g.channel += Engine::kLanes;
  }
}

template <class Engine, class Finish, bool kSwish, int kLines>
void group_of(const StripGroup& g, const StripEpilogue& e) {
  if (g.pixels < kLeastOutputs<3, Finish>) return group<Engine, 0, 0, kLines, kSwish, Finish>(g, e);
  if (g.taps == 3 && (Engine::kPieces3 == 0 || g.pieces == Engine::kPieces3))
    return group<Engine, 3, Engine::kPieces3, kLines, kSwish, Finish>(g, e);
  if (g.taps == 5) return group<Engine, 5, 0, kLines, kSwish, Finish>(g, e);
  group<Engine, 0, 0, kLines, kSwish, Finish>(g, e);
}

template <class Arch>
class Layer {
  using Engine = typename StripEngineOf<Arch>::type;

 public:
  explicit Layer(const ConvU8S8Args& args)
      : a_(args),
        s_(args.shape),
        plan_(strip_plan<Engine>(args.shape)),
        epilogue_(strip_epilogue<Arch>(args.epilogue, static_cast<std::size_t>(s_.out_channels))),
        channels_(static_cast<std::size_t>(s_.out_channels)),
        large_(s_.in[1] * s_.in[2] * s_.in_channels > (1 << 19)),
        weights_(static_cast<std::uint8_t*>(args.scratch)),
        init_(weights_ + s8_panels(channels_) * plan_.weight_bytes),
        entries_(init_ + 3 * s8_panels(channels_) * 64) {
    std::memset(padding_, args.x_zero_point, sizeof(padding_));
    Engine::fill_padding(args.x_zero_point, 1, zero_);
    for (int i = 1; i <= plan_.pieces; ++i) {
      piece_bytes_[i] = strip_piece_bytes(i);
      const std::int64_t inputs = static_cast<std::int64_t>(piece_bytes_[i] / (plan_.channels * 4)),
                         reach = (s_.kernel[2] - 1) * s_.dilation[2] + 1;
      pixels_[i] = (inputs - reach) / s_.stride[2] + 1;
    }
    prepare();
  }

  void run() {
    const std::int64_t width = s_.out[2];
    for (std::int64_t row = a_.row_begin; row < a_.row_end;) {
      const std::int64_t o = row % width, y = row / width % s_.out[1], left = a_.row_end - row;
      const bool two = plan_.lines == 2 && o == 0 && left >= 2 * width && y + 1 < s_.out[1];
      const std::int64_t end = left < width - o ? o + left : width;
      lines(band(row / width / s_.out[1], y, two ? 2 : 1), o, end);
      row += two ? 2 * width : end - o;
    }
  }

 private:
  void prepare() {
    const std::size_t depth = depthwise_depth(s_), panel = s8_panel_bytes(depth);
    const int packed_pieces = static_cast<int>(s_.kernel[1] + 3) / 4;
    const std::int32_t* sums = packed_s8_sums(a_.w, channels_, depth);
    for (std::size_t i = 0; i < s8_panels(channels_); ++i) {
      for (int t = 0; t < plan_.taps; ++t)
        Engine::set_weights(plan_, a_.w + i * panel + t * packed_pieces * 64, packed_pieces, t,
                            weights_ + i * plan_.weight_bytes);
      Engine::set_init(a_.x_zero_point, sums + 16 * i, init_ + 64 * i);
    }
  }

  StripBand band(std::int64_t sample, std::int64_t y, int count) const {
    const int rows = static_cast<int>(s_.kernel[1]) + count - 1;
    const Span k = inside<Arch>(y * s_.stride[1] - s_.pad_begin[1], rows, s_.dilation[1], s_.in[1]);
    StripBand b{sample, y, count, 0, 0, 0, 0};
    if (k.size() > 0)
      b.first = static_cast<int>(k.begin) / Engine::kPieceRows,
      b.end = (static_cast<int>(k.end) + Engine::kPieceRows - 1) / Engine::kPieceRows;
    const int pieces = b.end > b.first ? b.end - b.first : 1;
    b.piece = piece_bytes_[pieces], b.pixels = pixels_[pieces];
    return b;
  }

  // What the sums of both lines begin with: without what takes the zero point off the pieces that
  // are left out.
  void start(const StripBand& b) {
    if (b.first == start_first_ && b.end == start_end_) return;
    start_first_ = b.first, start_end_ = b.end;
    constexpr std::size_t kBytes = Engine::kLanes * 4;
    const std::size_t bytes = s8_panels(channels_) * 64;
    const auto zero = Engine::load(zero_);
    for (int line = 0; line < plan_.lines; ++line)
      for (std::size_t at = 0; at < bytes; at += kBytes) {
        const std::uint8_t* w =
            weights_ + at / 64 * plan_.weight_bytes + at % 64 / kBytes * (plan_.weight_bytes / 2);
        auto sum = Engine::load(init_ + at);
        for (int p = 0; p < plan_.pieces; ++p)
          for (int t = 0; t < plan_.taps && (p < b.first || p >= b.end); ++t)
            sum = Engine::dot(sum, zero,
                              Engine::load(w + strip_weight_at(plan_, p, t, line) * kBytes));
        Engine::store(reinterpret_cast<std::int32_t*>(
                          init_ + static_cast<std::size_t>(1 + line) * bytes + at),
                      sum);
      }
  }

  // Outputs [o, end) of the band.
  void lines(const StripBand& b, std::int64_t o, std::int64_t end) {
    start(b);
    for (std::int64_t strip = o; strip < end;) {
      const std::int64_t pixels = end - strip < b.pixels ? end - strip : b.pixels;
      for (std::size_t c = 0; c < channels_; c += plan_.channels) {
        const std::size_t left = channels_ - c,
                          width = left < plan_.channels ? left : plan_.channels;
        fill(b, strip, pixels, c, width);
        if (c == 0 && large_) prefetch(b, strip, pixels);
        groups(b, strip, pixels, c, width);
      }
      strip += pixels;
    }
  }

  // The inputs under such outputs of the next band that are not under these: lines of few channels
  // at a time are more than the hardware foresees.
  void prefetch(const StripBand& b, std::int64_t o, std::int64_t pixels) const {
    const std::int64_t count = b.count * s_.stride[1], step = s_.stride[2] * s_.in_channels,
                       end = (b.y + b.count - 1) * s_.stride[1] - s_.pad_begin[1] +
                             (s_.kernel[1] - 1) * s_.dilation[1] + 1;
    for (std::int64_t p = end < 0 ? 0 : end; p < end + count && p < s_.in[1]; ++p) {
      const std::uint8_t* from = a_.x + (b.sample * s_.in[1] + p) * s_.in[2] * s_.in_channels;
      for (std::int64_t i = o * step; i < (o + pixels) * step; i += 64)
        __builtin_prefetch(from + i, 0, 2);
    }
  }

  static std::size_t pitch(std::size_t width) { return (width + 15) / 16 * 64; }

  // The entries under outputs [o, o + pixels), channels [c, c + width).
  void fill(const StripBand& b, std::int64_t o, std::int64_t pixels, std::size_t c,
            std::size_t width) {
    const std::int64_t first = o * s_.stride[2] - s_.pad_begin[2],
                       inputs =
                           (pixels - 1) * s_.stride[2] + (s_.kernel[2] - 1) * s_.dilation[2] + 1;
    const auto clamped = [&](std::int64_t p) { return p < 0 ? 0 : p > inputs ? inputs : p; };
    const std::size_t begin = static_cast<std::size_t>(clamped(-first)),
                      end = static_cast<std::size_t>(clamped(s_.in[2] - first)),
                      all = static_cast<std::size_t>(inputs), step = pitch(width);
    const int rows = static_cast<int>(s_.kernel[1]) + b.count - 1;
    for (int piece = b.first; piece < b.end; ++piece) {
      std::uint8_t* to = entries_ + static_cast<std::size_t>(piece - b.first) * b.piece;
      const int row = piece * Engine::kPieceRows;
      const std::size_t from = begin >= end ? all : begin;
      Engine::fill_padding(a_.x_zero_point, from * step / 64, to);
      if (from == all) continue;
      Engine::fill_padding(a_.x_zero_point, (all - end) * step / 64, to + end * step);
      StripRows source = rows_at(b, row, rows, first + static_cast<std::int64_t>(begin), c);
      source.width = width, source.count = end - begin;
      fill_run(source, rows - row, step, to + begin * step);
    }
  }

  // All channels: the pixels are one run.
  void fill_run(StripRows s, int rows, std::size_t step, std::uint8_t* to) {
    if (s.width == channels_ && plan_.channels == channels_) {
      const std::size_t bytes = s.width * s.count, whole = bytes / kStripChannels;
      for (std::size_t& each : s.step) each = each == 0 ? 0 : kStripChannels;
      s.width = kStripChannels, s.count = whole;
      if (whole > 0) Engine::fill(s, rows, 256, to);
      s.width = bytes % kStripChannels, s.count = 1;
      if (s.width == 0) return;
      for (int r = 0; r < 4; ++r) s.from[r] += whole * s.step[r];
      return Engine::fill(s, rows, 256, to + whole * 256);
    }
    Engine::fill(s, rows, step, to);
  }

  StripRows rows_at(const StripBand& b, int row, int rows, std::int64_t pixel,
                    std::size_t c) const {
    StripRows out;
    out.end = a_.x + static_cast<std::size_t>(s_.batch * s_.in[1] * s_.in[2]) * channels_;
    for (int r = 0; r < 4; ++r) {
      const int k = row + r < rows ? row + r : rows - 1;
      const std::int64_t p = b.y * s_.stride[1] - s_.pad_begin[1] + k * s_.dilation[1];
      const bool inside = p >= 0 && p < s_.in[1];
      out.step[r] = inside ? channels_ : 0;
      out.from[r] =
          inside ? a_.x +
                       static_cast<std::size_t>((b.sample * s_.in[1] + p) * s_.in[2] + pixel) *
                           channels_ +
                       c
                 : padding_;
    }
    return out;
  }

  void groups(const StripBand& b, std::int64_t o, std::int64_t pixels, std::size_t c,
              std::size_t width) {
    StripGroup g;
    const std::size_t step = pitch(width);
    g.output = static_cast<std::size_t>(s_.stride[2]) * step;
    g.tap = static_cast<std::size_t>(s_.dilation[2]) * step;
    g.piece = b.piece;
    g.taps = plan_.taps, g.lines = plan_.lines;
    g.first_piece = b.first, g.pieces = b.end - b.first;
    g.pixels = static_cast<std::size_t>(pixels);
    g.line_rows = static_cast<std::size_t>(s_.out[2]);
    g.sample = static_cast<std::size_t>(b.sample);
    g.m = static_cast<std::size_t>((b.sample * s_.out[1] + b.y) * s_.out[2] + o);
    g.entries = entries_;
    g.weight_bytes = plan_.weight_bytes * Engine::kLanes / 16;
    g.weights = weights_ + c / Engine::kLanes * g.weight_bytes;
    for (std::size_t l = 0; l < 2; ++l)
      g.init[l] = init_ + (1 + l) * s8_panels(channels_) * 64 + 4 * c;
    g.channel = c, g.width = width;
    if (b.count == 2)
      finished<2>(g);
    else
      finished<1>(g);
  }

  template <int kLines>
  void finished(const StripGroup& g) {
    using Short = typename Engine::Short;
    if (epilogue_.finish == StripFinish::clipped)
      return group_of<Engine, Short, false, kLines>(g, epilogue_);
    if (epilogue_.finish == StripFinish::swished)
      return group_of<Engine, Short, true, kLines>(g, epilogue_);
    group_of<Engine, Sums<Arch>, false, kLines>(g, epilogue_);
  }

  const ConvU8S8Args& a_;
  const ConvShape& s_;
  const StripPlan plan_;
  const StripEpilogue epilogue_;
  const std::size_t channels_;
  const bool large_;  // x is not in the second cache
  std::uint8_t *weights_, *init_, *entries_;
  // For so many pieces (a kernel of 7 rows and a second line are at most 4).
  std::size_t piece_bytes_[5];
  std::int64_t pixels_[5];
  int start_first_ = -1, start_end_ = -1;
  alignas(64) std::uint8_t padding_[128];
  alignas(64) std::uint8_t zero_[64];
};

}  // namespace strip_detail

}  // namespace fold8::kernels::simd
