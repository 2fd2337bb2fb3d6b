// Random inputs: enough to try a model out, not to calibrate one.
#include "tools/data/sources.h"

namespace fold8::data {
namespace {

// SplitMix64: the same numbers everywhere, and any sample without those before it.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  // The sum of twelve uniform numbers: close to normal, variance 1, and exact everywhere.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

 private:
  std::uint64_t state_;
};

constexpr std::int64_t kSmallIntegers = 10;  // indices must stay inside small tables
constexpr std::int64_t kMaxElements = std::int64_t{1} << 31;

class RandomSource final : public Samples {
 public:
  RandomSource(std::size_t count, std::uint64_t seed, std::vector<TensorType> types)
      : count_(count), seed_(seed), types_(std::move(types)) {
    note("the data is random, not real: accuracies and ranges mean nothing");
  }
  std::size_t count() const override { return count_; }
  std::string describe(std::size_t i) const override {
    return "random sample " + std::to_string(i);
  }
  Result<std::vector<Tensor>> sample(std::size_t i) override {
    if (i >= count_) return invalid_argument("there is no sample " + std::to_string(i));
    Generator random(seed_ * 0x2545f4914f6cdd1dull + i);
    std::vector<Tensor> sample;
    for (const TensorType& type : types_) sample.push_back(fill(type, random));
    return sample;
  }

 private:
  static Tensor fill(const TensorType& type, Generator& random) {
    Tensor t(type.dtype, type.shape);
    const auto n = static_cast<std::size_t>(type.shape.count());
    for (std::size_t k = 0; k < n; ++k) switch (type.dtype) {
        case DType::f32:
          t.as<float>()[k] = static_cast<float>(random.normal());
          break;
        case DType::f64:
          t.as<double>()[k] = random.normal();
          break;
        case DType::boolean:
          t.as<std::uint8_t>()[k] = static_cast<std::uint8_t>(random.next() & 1);
          break;
        case DType::u8:
        case DType::s8:
          t.as<std::uint8_t>()[k] = static_cast<std::uint8_t>(random.next());
          break;
        case DType::s64:
          t.as<std::int64_t>()[k] = static_cast<std::int64_t>(random.next() % kSmallIntegers);
          break;
        case DType::s32:
          t.as<std::int32_t>()[k] = static_cast<std::int32_t>(random.next() % kSmallIntegers);
          break;
        default:
          break;  // rare types: zeros
      }
    return t;
  }

  std::size_t count_;
  std::uint64_t seed_;
  std::vector<TensorType> types_;
};

}  // namespace

Result<std::unique_ptr<Samples>> make_random_source(const DataOptions& options,
                                                    Signature signature) {
  std::vector<TensorType> types;
  for (const auto& [name, extent] : options.extents)
    if (extent < 0 || extent > INT32_MAX)
      return invalid_argument("extent " + std::to_string(extent) + " of '" + name +
                              "' is impossible");
  for (const InputSpec& input : signature.inputs) {
    TensorType type{input.type.dtype, input.type.shape, {}, Layout::plain};
    for (int a = 0; a < type.shape.rank(); ++a) {
      const Dim d = type.shape[a];
      if (d.known()) continue;
      type.shape[a] = 1;
      if (!d.is_symbol() || static_cast<std::size_t>(d.symbol_id()) >= signature.symbols.size())
        continue;
      const auto it =
          options.extents.find(signature.symbols[static_cast<std::size_t>(d.symbol_id())]);
      if (it != options.extents.end()) type.shape[a] = it->second;
    }
    const auto n = type.shape.elements();
    if (!n || *n > kMaxElements)
      return invalid_argument("input '" + input.name + "' would have too many elements");
    types.push_back(type);
  }
  return std::unique_ptr<Samples>(
      std::make_unique<RandomSource>(options.random_samples, options.seed, std::move(types)));
}

}  // namespace fold8::data
