#include "quant/layer_rows.h"

#include <algorithm>
#include <vector>

#include "runtime/ops/conv_geometry.h"

namespace fold8::quant {
namespace {

class LastAxis : public RowReader {
 public:
  LastAxis(std::span<const float> values, std::size_t width) : values_(values), width_(width) {}

  std::size_t count() const override { return values_.size() / width_; }
  void copy(std::size_t row, std::size_t, std::span<float> into) const override {
    std::copy_n(values_.begin() + static_cast<std::ptrdiff_t>(row * width_), width_, into.begin());
  }

 private:
  std::span<const float> values_;
  std::size_t width_;
};

class Patches : public RowReader {
 public:
  template <class ConvShape>
  Patches(const TensorView& t, const ConvShape& s)
      : values_(t.as<const float>()),
        channels_(s.in_channels),
        group_channels_(s.in_channels / s.groups),
        rows_(static_cast<std::size_t>(s.batch * s.out[0] * s.out[1] * s.out[2])) {
    const bool last = t.layout == Layout::channels_last;
    step_[2] = last ? channels_ : 1;
    step_[1] = step_[2] * s.in[2];
    step_[0] = step_[1] * s.in[1];
    sample_ = channels_ * s.in[0] * s.in[1] * s.in[2];
    channel_ = last ? 1 : s.in[0] * s.in[1] * s.in[2];
    for (int a = 0; a < 3; ++a)
      axes_[a] = {s.in[a], s.out[a], s.kernel[a], s.stride[a], s.dilation[a], s.pad_begin[a]};
  }

  std::size_t count() const override { return rows_; }

  void copy(std::size_t row, std::size_t group, std::span<float> into) const override {
    if (row != found_) find_taps(row);
    const std::size_t taps = taps_.size();
    const float* from =
        values_.data() + static_cast<std::int64_t>(group) * group_channels_ * channel_;
    float* to = into.data();
    if (inside_ && taps == 1 && channel_ == 1) {
      std::copy_n(from + taps_[0], group_channels_, to);
      return;
    }
    for (std::int64_t c = 0; c < group_channels_; ++c, from += channel_, to += taps)
      if (inside_)
        for (std::size_t t = 0; t < taps; ++t) to[t] = from[taps_[t]];
      else
        for (std::size_t t = 0; t < taps; ++t) to[t] = taps_[t] == kPadding ? 0.0f : from[taps_[t]];
  }

 private:
  struct Axis {
    std::int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;
  };
  static constexpr std::int64_t kPadding = -1;

  // Where the taps of a row begin, for all of its groups: they are asked for one after the other.
  void find_taps(std::size_t row) const {
    found_ = row;
    auto at = static_cast<std::int64_t>(row);
    std::int64_t first[3];
    for (int a = 2; a >= 0; --a) {
      first[a] = at % axes_[a].out * axes_[a].stride - axes_[a].pad;
      at /= axes_[a].out;
    }
    taps_.clear();
    inside_ = true;
    for (std::int64_t i = 0; i < axes_[0].kernel; ++i)
      for (std::int64_t j = 0; j < axes_[1].kernel; ++j)
        for (std::int64_t k = 0; k < axes_[2].kernel; ++k) {
          const std::int64_t p[3] = {first[0] + i * axes_[0].dilation,
                                     first[1] + j * axes_[1].dilation,
                                     first[2] + k * axes_[2].dilation};
          bool inside = true;
          std::int64_t offset = at * sample_;
          for (int a = 0; a < 3; ++a) {
            inside = inside && p[a] >= 0 && p[a] < axes_[a].in;
            offset += p[a] * step_[a];
          }
          taps_.push_back(inside ? offset : kPadding);
          inside_ = inside_ && inside;
        }
  }

  std::span<const float> values_;
  mutable std::vector<std::int64_t> taps_;
  mutable std::size_t found_ = static_cast<std::size_t>(-1);
  mutable bool inside_ = false;
  std::int64_t channels_, group_channels_, sample_ = 0, channel_ = 0, step_[3] = {};
  std::size_t rows_;
  Axis axes_[3];
};

}  // namespace

LayerRows rows_of_linear(std::string tensor, std::size_t width) {
  return {std::move(tensor), width, 1, std::nullopt, {}};
}

std::optional<LayerRows> rows_of_conv(std::string tensor, const graph::Conv& conv,
                                      const Shape& weight) {
  if (conv.transposed || weight.rank() < 3 || conv.group < 1) return std::nullopt;
  return LayerRows{std::move(tensor), static_cast<std::size_t>(weight.count(1, weight.rank())),
                   static_cast<std::size_t>(conv.group), conv, weight};
}

bool same_rows(const LayerRows& a, const LayerRows& b) {
  if (a.tensor != b.tensor || a.width != b.width || a.groups != b.groups ||
      a.conv.has_value() != b.conv.has_value())
    return false;
  if (!a.conv) return true;
  if (a.weight.rank() != b.weight.rank()) return false;
  for (int axis = 1; axis < a.weight.rank(); ++axis)
    if (a.weight.extent(axis) != b.weight.extent(axis)) return false;
  return a.conv->strides == b.conv->strides && a.conv->pads == b.conv->pads &&
         a.conv->dilations == b.conv->dilations && a.conv->auto_pad == b.conv->auto_pad;
}

std::unique_ptr<RowReader> reader_of(const LayerRows& rows, const TensorView& t) {
  if (t.dtype != DType::f32 || t.shape.rank() < 1 || t.shape.count() == 0) return nullptr;
  if (!rows.conv) {
    if (t.layout != Layout::plain ||
        static_cast<std::size_t>(t.shape.extent(t.shape.rank() - 1)) != rows.width)
      return nullptr;
    return std::make_unique<LastAxis>(t.as<const float>(), rows.width);
  }
  if ((t.layout != Layout::plain && t.layout != Layout::channels_last) ||
      t.shape.rank() != rows.weight.rank())
    return nullptr;
  const auto y = ops::conv_output_shape(*rows.conv, t.shape, rows.weight);
  if (!y.ok()) return nullptr;
  const auto shape = ops::conv_shape(*rows.conv, t.shape, rows.weight, *y);
  if (!shape.ok()) return nullptr;
  return std::make_unique<Patches>(t, *shape);
}

}  // namespace fold8::quant
