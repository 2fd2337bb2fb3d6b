// Pictures as model inputs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/core/tensor.h"

namespace fold8::data {

struct Picture {
  std::int64_t height = 0, width = 0, channels = 0;
  std::vector<std::uint8_t> pixels;  // [height, width, channels]
};

// PNG, JPEG, BMP, GIF, PNM ... with 1 or 3 channels, at most 64 million pixels.
Result<Picture> read_picture(const std::string& path, int channels);

// Triangle filter (bilinear; wider where the picture shrinks), in double, rounded half up.
Picture resize_picture(const Picture& p, std::int64_t height, std::int64_t width);

// How pixels become numbers: (pixel - mean[c]) / std[c] with pixels 0..255. Empty lists: mean 0,
// std 255 for float inputs.
struct PictureOptions {
  std::vector<float> mean, std;
  std::int64_t height = 0, width = 0;  // 0: as the model's input, or as the picture
  bool channels_last = false;          // of the model's input
};

bool is_picture_name(const std::string& path);
// [1, C, H, W] or [1, H, W, C], f32 or u8 as the input's type says.
Result<Tensor> picture_tensor(const std::string& path, const TensorType& input,
                              const PictureOptions& options);

}  // namespace fold8::data
