// Two threads, one model: prints the class of an image.
// usage: classify MODEL.f8 [IMAGE.f32]    IMAGE: the input's floats, row-major; without it a
// generated pattern
#include <fold8.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <future>
#include <vector>

static std::size_t classify(const fold8::Model& model, const char* path) {
  std::vector<std::int64_t> dims = model.input(0).dims;
  std::size_t count = 1;
  for (std::int64_t& d : dims) {
    if (d < 0) d = 1;  // a dynamic batch: one image
    count *= static_cast<std::size_t>(d);
  }
  std::vector<float> image(count);
  for (std::size_t i = 0; i < count; ++i) image[i] = static_cast<float>(i % 17) / 17.0f;
  if (path != nullptr) {
    std::ifstream file(path, std::ios::binary);
    file.read(reinterpret_cast<char*>(image.data()),
              static_cast<std::streamsize>(count * sizeof(float)));
    if (!file) throw std::runtime_error(std::string(path) + " is too short");
  }
  fold8::Session session(model);
  session.set_input<float>(0, fold8::Span<const std::int64_t>(dims),
                           fold8::Span<const float>(image));
  session.run();
  const auto scores = session.output(0).as<float>();
  return static_cast<std::size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

int main(int argc, char** argv) try {
  if (argc < 2) return std::fprintf(stderr, "usage: %s MODEL.f8 [IMAGE.f32]\n", argv[0]), 2;
  const fold8::Model model(argv[1]);
  const char* image = argc > 2 ? argv[2] : nullptr;
  auto other = std::async(std::launch::async, classify, std::cref(model), image);
  const std::size_t mine = classify(model, image);
  std::printf("class %zu\n", mine);
  return other.get() == mine ? 0 : 1;
} catch (const std::exception& e) {
  return std::fprintf(stderr, "fold8: %s\n", e.what()), 1;
}
