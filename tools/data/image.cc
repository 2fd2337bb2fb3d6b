#include "tools/data/image.h"

#include <stb_image.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "tools/data/byte_stream.h"

namespace fold8::data {
namespace {

constexpr std::uint64_t kMaxFile = 256u << 20;
constexpr std::int64_t kMaxPixels = 64'000'000;

// Source positions and weights of one output position.
struct Taps {
  std::int64_t first = 0;
  std::vector<double> weights;
};

std::vector<Taps> make_taps(std::int64_t in, std::int64_t out) {
  const double scale = static_cast<double>(in) / static_cast<double>(out),
               reach = std::max(scale, 1.0);
  std::vector<Taps> taps(static_cast<std::size_t>(out));
  for (std::int64_t o = 0; o < out; ++o) {
    const double centre = (static_cast<double>(o) + 0.5) * scale;
    const auto first =
        std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(centre - reach + 0.5)));
    const auto last =
        std::min<std::int64_t>(in, static_cast<std::int64_t>(std::floor(centre + reach + 0.5)));
    Taps& t = taps[static_cast<std::size_t>(o)];
    t.first = std::min(first, in - 1);
    double sum = 0;
    for (std::int64_t i = t.first; i < std::max(last, t.first + 1); ++i) {
      const double w =
          std::max(0.0, 1.0 - std::fabs((static_cast<double>(i) + 0.5 - centre) / reach));
      t.weights.push_back(w);
      sum += w;
    }
    if (sum == 0) t.weights.assign(1, sum = 1.0);
    for (double& w : t.weights) w /= sum;
  }
  return taps;
}

Result<std::vector<double>> per_channel(const std::vector<float>& given, std::int64_t channels,
                                        double otherwise, const char* what) {
  std::vector<double> v(static_cast<std::size_t>(channels), otherwise);
  if (given.empty()) return v;
  if (given.size() != 1 && given.size() != v.size())
    return invalid_argument(std::string("--") + what + " has " + std::to_string(given.size()) +
                            " numbers for " + std::to_string(channels) + " channels");
  for (std::size_t c = 0; c < v.size(); ++c) v[c] = given[given.size() == 1 ? 0 : c];
  return v;
}

struct Extents {
  std::int64_t channels = 3, height = 0, width = 0;  // 0: free
};

Result<Extents> wanted_extents(const TensorType& input, const PictureOptions& o) {
  if (input.shape.rank() != 4)
    return invalid_argument("pictures need an input of rank 4, this one is " +
                            to_string(input.shape));
  const int c = o.channels_last ? 3 : 1, h = o.channels_last ? 1 : 2;
  Extents e;
  if (input.shape[c].known()) e.channels = input.shape.extent(c);
  e.height = input.shape[h].known() ? input.shape.extent(h) : o.height;
  e.width = input.shape[h + 1].known() ? input.shape.extent(h + 1) : o.width;
  if (e.channels != 1 && e.channels != 3)
    return invalid_argument("pictures have 1 or 3 channels, the input wants " +
                            std::to_string(e.channels) + "; is --layout right?");
  if (e.height < 0 || e.width < 0 || e.height > 65536 || e.width > 65536)
    return invalid_argument("the size of the pictures is impossible");
  if (input.dtype != DType::f32 && input.dtype != DType::u8)
    return invalid_argument("pictures become f32 or u8, the input wants " +
                            std::string(name(input.dtype)));
  return e;
}

}  // namespace

bool is_picture_name(const std::string& path) {
  static constexpr std::array<const char*, 9> kEndings = {".png", ".jpg", ".jpeg", ".bmp", ".gif",
                                                          ".ppm", ".pgm", ".pnm",  ".tga"};
  std::string lower = path;
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [&](const char* e) { return lower.ends_with(e); });
}

Result<Picture> read_picture(const std::string& path, int channels) {
  FOLD8_TRY(const std::string bytes, read_small_file(path, kMaxFile));
  const auto* data = reinterpret_cast<const stbi_uc*>(bytes.data());
  const int size = static_cast<int>(bytes.size());
  int w = 0, h = 0, in_file = 0;
  if (stbi_info_from_memory(data, size, &w, &h, &in_file) == 0)
    return invalid_model("'" + path + "' is no readable picture");
  if (w <= 0 || h <= 0 || static_cast<std::int64_t>(w) * h > kMaxPixels)
    return invalid_model("'" + path + "': a picture of " + std::to_string(w) + "x" +
                         std::to_string(h) + " is too large");
  const std::unique_ptr<stbi_uc, decltype(&stbi_image_free)> pixels(
      stbi_load_from_memory(data, size, &w, &h, &in_file, channels), &stbi_image_free);
  if (!pixels) return invalid_model("'" + path + "' is a damaged picture");
  Picture p{h, w, channels, {}};
  p.pixels.assign(pixels.get(), pixels.get() + static_cast<std::size_t>(w) *
                                                   static_cast<std::size_t>(h) *
                                                   static_cast<std::size_t>(channels));
  return p;
}

Picture resize_picture(const Picture& p, std::int64_t height, std::int64_t width) {
  if (height == p.height && width == p.width) return p;
  const auto rows = make_taps(p.height, height), columns = make_taps(p.width, width);
  const auto c_count = static_cast<std::size_t>(p.channels),
             in_row = static_cast<std::size_t>(p.width) * c_count;
  Picture out{height, width, p.channels,
              std::vector<std::uint8_t>(static_cast<std::size_t>(height * width) * c_count)};
  std::vector<double> row(in_row);
  for (std::size_t y = 0; y < rows.size(); ++y) {
    std::fill(row.begin(), row.end(), 0.0);
    for (std::size_t k = 0; k < rows[y].weights.size(); ++k) {
      const std::uint8_t* from =
          p.pixels.data() + (static_cast<std::size_t>(rows[y].first) + k) * in_row;
      for (std::size_t i = 0; i < in_row; ++i) row[i] += rows[y].weights[k] * from[i];
    }
    for (std::size_t x = 0; x < columns.size(); ++x)
      for (std::size_t c = 0; c < c_count; ++c) {
        double sum = 0;
        for (std::size_t k = 0; k < columns[x].weights.size(); ++k)
          sum += columns[x].weights[k] *
                 row[(static_cast<std::size_t>(columns[x].first) + k) * c_count + c];
        out.pixels[(y * columns.size() + x) * c_count + c] =
            static_cast<std::uint8_t>(std::min(255.0, std::floor(sum + 0.5)));
      }
  }
  return out;
}

Result<Tensor> picture_tensor(const std::string& path, const TensorType& input,
                              const PictureOptions& o) {
  FOLD8_TRY(const Extents e, wanted_extents(input, o));
  FOLD8_TRY(const Picture raw, read_picture(path, static_cast<int>(e.channels)));
  const Picture p = resize_picture(raw, e.height != 0 ? e.height : raw.height,
                                   e.width != 0 ? e.width : raw.width);
  const bool real = input.dtype == DType::f32;
  if (!real && (!o.mean.empty() || !o.std.empty()))
    return invalid_argument(
        "--mean and --std need an f32 input; this one takes u8 pixels as they are");
  FOLD8_TRY(const auto mean, per_channel(o.mean, e.channels, 0, "mean"));
  FOLD8_TRY(const auto std, per_channel(o.std, e.channels, o.mean.empty() ? 255 : 1, "std"));
  for (double s : std)
    if (!(s > 0)) return invalid_argument("--std must be above 0");
  Tensor t(input.dtype, o.channels_last ? Shape{1, p.height, p.width, p.channels}
                                        : Shape{1, p.channels, p.height, p.width});
  const auto area = static_cast<std::size_t>(p.height * p.width),
             channels = static_cast<std::size_t>(p.channels);
  for (std::size_t i = 0; i < area; ++i)
    for (std::size_t c = 0; c < channels; ++c) {
      const std::uint8_t pixel = p.pixels[i * channels + c];
      const std::size_t at = o.channels_last ? i * channels + c : c * area + i;
      if (real)
        t.as<float>()[at] = static_cast<float>((pixel - mean[c]) / std[c]);
      else
        t.as<std::uint8_t>()[at] = pixel;
    }
  return t;
}

}  // namespace fold8::data
