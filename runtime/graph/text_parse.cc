#include <charconv>
#include <cstring>
#include <random>

#include "runtime/graph/enum_names.h"
#include "runtime/graph/text.h"

namespace fold8::graph {
namespace {

// A recursive-descent reader over one line at a time. Grammar: see text.h.
class Parser {
 public:
  Parser(std::string_view text, std::uint64_t seed) : text_(text), rng_(seed) {}

  Result<Graph> run() {
    while (!text_.empty()) {
      const std::size_t end = text_.find('\n');
      line_ = text_.substr(0, end);
      text_ = end == std::string_view::npos ? std::string_view() : text_.substr(end + 1);
      ++number_;
      if (const std::size_t hash = line_.find('#'); hash != std::string_view::npos)
        line_ = line_.substr(0, hash);
      rest_ = line_;
      skip();
      if (rest_.empty()) continue;
      if (const auto s = statement(); !s.ok())
        return invalid_argument("graph text, line " + std::to_string(number_) + ": " +
                                s.error().message + " in '" + std::string(line_) + "'");
    }
    return std::move(g_);
  }

 private:
  void skip() {
    while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_[0])))
      rest_.remove_prefix(1);
  }
  bool accept(std::string_view token) {
    skip();
    if (rest_.substr(0, token.size()) != token) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  Error expected(std::string what) {
    return invalid_argument("expected " + what + " at '" + std::string(rest_.substr(0, 20)) + "'");
  }
  Status expect(std::string_view token) {
    return accept(token) ? ok_status() : Status(expected(std::string(token)));
  }

  static bool name_char(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::strchr("_./-", c) != nullptr;
  }

  Result<std::string> word() {
    skip();
    std::string w;
    if (!rest_.empty() && rest_[0] == '"') {
      rest_.remove_prefix(1);
      while (!rest_.empty() && rest_[0] != '"') {
        if (rest_[0] == '\\' && rest_.size() > 1) rest_.remove_prefix(1);
        w += rest_[0];
        rest_.remove_prefix(1);
      }
      if (rest_.empty()) return expected("closing quote");
      rest_.remove_prefix(1);
      return w;
    }
    while (!rest_.empty() && name_char(rest_[0])) {
      w += rest_[0];
      rest_.remove_prefix(1);
    }
    if (w.empty()) return expected("a name");
    return w;
  }

  Result<double> real() {
    skip();
    double v = 0;
    const char* begin = rest_.data();
    const auto r = std::from_chars(begin, begin + rest_.size(), v);
    if (r.ec != std::errc()) return expected("a number");
    rest_.remove_prefix(static_cast<std::size_t>(r.ptr - begin));
    return v;
  }
  Result<std::int64_t> integer() {
    skip();
    std::int64_t v = 0;
    const char* begin = rest_.data();
    const auto r = std::from_chars(begin, begin + rest_.size(), v);
    if (r.ec != std::errc()) return expected("an integer");
    rest_.remove_prefix(static_cast<std::size_t>(r.ptr - begin));
    return v;
  }

  Result<Shape> shape() {
    FOLD8_CHECK_OK(expect("["));
    Shape s;
    while (!accept("]")) {
      if (s.rank() == Shape::kMaxRank) return invalid_argument("rank above 8");
      if (accept("?")) {
        s.push_back(Dim::unknown());
      } else if (skip(); !rest_.empty() &&
                         (std::isdigit(static_cast<unsigned char>(rest_[0])) || rest_[0] == '-')) {
        FOLD8_TRY(const std::int64_t d, integer());
        s.push_back(Dim(d));
      } else {
        FOLD8_TRY(const std::string symbol, word());
        s.push_back(g_.symbol(symbol));
      }
      accept(",");
    }
    return s;
  }

  Result<DType> dtype() {
    FOLD8_TRY(const std::string w, word());
    const auto d = dtype_from_name(w);
    if (!d) return invalid_argument("unknown element type '" + w + "'");
    return *d;
  }

  // `@(scale,zero_point)`, `@channel(axis)` (scales 1/64 .. varied), `@token`; `nhwc`.
  Status suffixes(TensorType& t) {
    while (true) {
      if (accept("@token")) {
        t.quant = QuantParams::per_token();
      } else if (accept("@channel(")) {
        FOLD8_TRY(const std::int64_t axis, integer());
        FOLD8_CHECK_OK(expect(")"));
        const auto a = normalize_axis(axis, t.shape.rank());
        if (!a || !t.shape[*a].known()) return invalid_argument("@channel axis out of range");
        std::vector<float> scales;
        for (std::int64_t i = 0; i < t.shape.extent(*a); ++i)
          scales.push_back((1 + static_cast<float>(i % 7)) / 64);
        FOLD8_TRY(t.quant, QuantParams::per_channel(*a, std::move(scales)));
      } else if (accept("@(")) {
        FOLD8_TRY(const double scale, real());
        FOLD8_CHECK_OK(expect(","));
        FOLD8_TRY(const std::int64_t zero, integer());
        FOLD8_CHECK_OK(expect(")"));
        FOLD8_TRY(t.quant, QuantParams::per_tensor(static_cast<float>(scale),
                                                   static_cast<std::int32_t>(zero)));
      } else if (accept("nhwc")) {
        t.layout = Layout::channels_last;
      } else {
        return ok_status();
      }
    }
  }

  Result<TensorType> type() {
    TensorType t;
    FOLD8_TRY(t.dtype, dtype());
    FOLD8_TRY(t.shape, shape());
    FOLD8_CHECK_OK(suffixes(t));
    return t;
  }

  template <class T>
  static void store(Buffer& b, std::size_t i, double v) {
    reinterpret_cast<T*>(b.mutable_data())[i] = static_cast<T>(v);
  }

  static Status store(Buffer& b, DType d, std::size_t i, double v) {
    switch (d) {
      case DType::f32:
        store<float>(b, i, v);
        break;
      case DType::f64:
        store<double>(b, i, v);
        break;
      case DType::s32:
        store<std::int32_t>(b, i, v);
        break;
      case DType::s64:
        store<std::int64_t>(b, i, v);
        break;
      case DType::u8:
      case DType::boolean:
        store<std::uint8_t>(b, i, v);
        break;
      case DType::s8:
        store<std::int8_t>(b, i, v);
        break;
      default:
        return invalid_argument("constants of type " + std::string(fold8::name(d)) +
                                " have no text form");
    }
    return ok_status();
  }

  enum class Fill { random, random_positive, zeros };
  double draw(Fill fill, DType d) {
    if (fill == Fill::zeros) return 0;
    if (!is_floating(d)) {
      const bool is_signed = d == DType::s8;
      return static_cast<double>(
          std::uniform_int_distribution<int>(is_signed ? -127 : 0, is_signed        ? 127
                                                                   : d == DType::u8 ? 255
                                                                                    : 3)(rng_));
    }
    return fill == Fill::random ? std::normal_distribution<double>()(rng_)
                                : std::uniform_real_distribution<double>(0.5, 1.5)(rng_);
  }

  Result<ValueId> filled(Fill fill, const std::string& name) {
    FOLD8_TRY(TensorType t, type());
    const auto n = t.shape.elements();
    if (!n || *n > (std::int64_t{1} << 28))
      return invalid_argument("a constant needs a known, sane shape");
    auto b = Buffer::allocate(static_cast<std::size_t>(*n) * size_of(t.dtype));
    for (std::int64_t i = 0; i < *n; ++i)
      FOLD8_CHECK_OK(store(*b, t.dtype, static_cast<std::size_t>(i), draw(fill, t.dtype)));
    return g_.add_constant(name, std::move(t), std::move(b));
  }

  // `f32[2]{1,2}` or `s64{1,-1}`, and the filled forms.
  Result<ValueId> constant(const std::string& name) {
    if (accept("random:")) return filled(Fill::random, name);
    if (accept("random_positive:")) return filled(Fill::random_positive, name);
    if (accept("zeros:")) return filled(Fill::zeros, name);
    TensorType t;
    FOLD8_TRY(t.dtype, dtype());
    skip();
    const bool shaped = !rest_.empty() && rest_[0] == '[';
    if (shaped) {
      FOLD8_TRY(t.shape, shape());
      FOLD8_CHECK_OK(suffixes(t));
    }
    FOLD8_CHECK_OK(expect("{"));
    std::vector<double> elements;
    while (!accept("}")) {
      FOLD8_TRY(const double v, real());
      elements.push_back(v);
      accept(",");
    }
    if (!shaped) t.shape = Shape{static_cast<std::int64_t>(elements.size())};
    if (t.shape.elements() != static_cast<std::int64_t>(elements.size()))
      return invalid_argument("wrong number of elements");
    auto b = Buffer::allocate(elements.size() * size_of(t.dtype));
    for (std::size_t i = 0; i < elements.size(); ++i)
      FOLD8_CHECK_OK(store(*b, t.dtype, i, elements[i]));
    return g_.add_constant(name, std::move(t), std::move(b));
  }

  bool looks_like_constant() {
    skip();
    for (std::string_view prefix : {"random:", "random_positive:", "zeros:"})
      if (rest_.substr(0, prefix.size()) == prefix) return true;
    std::size_t n = 0;
    while (n < rest_.size() && std::isalnum(static_cast<unsigned char>(rest_[n]))) ++n;
    return dtype_from_name(rest_.substr(0, n)).has_value() && n < rest_.size() &&
           (rest_[n] == '[' || rest_[n] == '{');
  }

  Result<ValueId> operand() {
    if (looks_like_constant()) return constant(g_.fresh_name("c" + std::to_string(++constants_)));
    FOLD8_TRY(const std::string w, word());
    if (w == "_") return kNoValue;
    const ValueId v = g_.find_value(w);
    if (v == kNoValue) return invalid_argument("'" + w + "' is not defined");
    return v;
  }

  Status attribute(bool& v) {
    FOLD8_TRY(const std::string w, word());
    v = w == "true";
    return v || w == "false" ? ok_status() : Status(invalid_argument("expected true or false"));
  }
  Status attribute(float& v) {
    FOLD8_TRY(const double d, real());
    v = static_cast<float>(d);
    return ok_status();
  }
  Status attribute(std::int64_t& v) {
    FOLD8_TRY(v, integer());
    return ok_status();
  }
  Status attribute(std::string& v) {
    FOLD8_TRY(v, word());
    return ok_status();
  }
  Status attribute(std::shared_ptr<const Graph>&) {
    return invalid_argument("nested graphs have no text form");
  }
  Status attribute(Ints& v) {
    FOLD8_CHECK_OK(expect("["));
    while (!accept("]")) {
      FOLD8_TRY(const std::int64_t i, integer());
      v.push_back(i);
      accept(",");
    }
    return ok_status();
  }
  template <class E>
  requires std::is_enum_v<E> Status attribute(E& v) {
    FOLD8_TRY(const std::string w, word());
    const auto e = enumerator_from_name<E>(w);
    if (!e) return invalid_argument("unknown enumerator '" + w + "'");
    v = *e;
    return ok_status();
  }

  // `layer_norm(...)`, `relu(...)`, `add(...)` are short for norm kind=layer and so on.
  static std::optional<Op> op_named(const std::string& w) {
    if (auto op = op_from_name(w)) return op;
    if (const auto u = enumerator_from_name<UnaryKind>(w)) {
      Unary unary{*u};
      if (*u == UnaryKind::hard_swish) unary.a = 1.0f / 6, unary.b = 0.5f;
      if (*u == UnaryKind::silu) unary.a = 1;
      return Op(unary);
    }
    if (const auto b = enumerator_from_name<BinaryKind>(w)) return Op(Binary{*b});
    for (std::string_view suffix : {"_norm", "_pool"}) {
      if (w.size() <= suffix.size() || w.substr(w.size() - suffix.size()) != suffix) continue;
      const std::string stem = w.substr(0, w.size() - suffix.size());
      if (const auto k = enumerator_from_name<NormKind>(stem); k && suffix == "_norm")
        return Op(Norm{*k});
      if (const auto k = enumerator_from_name<PoolKind>(stem); k && suffix == "_pool")
        return Op(Pool{*k});
    }
    if (w.rfind("reduce_", 0) == 0)
      if (const auto k = enumerator_from_name<ReduceKind>(w.substr(7))) return Op(Reduce{*k});
    return std::nullopt;
  }

  Status attributes(Op& op) {
    for (skip(); !rest_.empty(); skip()) {
      FOLD8_TRY(const std::string field, word());
      FOLD8_CHECK_OK(expect("="));
      bool found = false;
      Status status = ok_status();
      each_field(op, [&](std::string_view name, auto& v) {
        if (name != field) return;
        found = true;
        status = attribute(v);
      });
      FOLD8_CHECK_OK(std::move(status));
      if (!found)
        return invalid_argument("operator '" + std::string(fold8::graph::name(op)) +
                                "' has no attribute '" + field + "'");
    }
    return ok_status();
  }

  Status returns() {
    while (skip(), !rest_.empty()) {
      FOLD8_TRY(const ValueId v, operand());
      g_.outputs.push_back(v);
      accept(",");
    }
    return ok_status();
  }

  struct Target {
    std::string name;
    std::optional<TensorType> type;
  };

  Status statement() {
    std::vector<Target> targets;
    do {
      FOLD8_TRY(std::string name, word());
      if (targets.empty() && name == "return") return returns();
      Target t{std::move(name), {}};
      if (accept(":")) {
        FOLD8_TRY(t.type, type());
      }
      targets.push_back(std::move(t));
    } while (accept(","));
    for (const Target& t : targets)
      if (t.name != "_" && g_.find_value(t.name) != kNoValue)
        return invalid_argument("'" + t.name + "' is defined twice");
    if (!accept("=")) {
      for (Target& t : targets) {
        if (!t.type) return expected("= or a type");
        g_.inputs.push_back(g_.add_value(t.name, std::move(*t.type)));
      }
      return ok_status();
    }
    if (accept("const ")) {
      FOLD8_TRY(const ValueId ignored, constant(targets[0].name));
      (void)ignored;
      return ok_status();
    }
    FOLD8_TRY(const std::string w, word());
    auto op = op_named(w);
    if (!op) return invalid_argument("unknown operator '" + w + "'");
    FOLD8_CHECK_OK(expect("("));
    std::vector<ValueId> inputs, outputs;
    while (!accept(")")) {
      FOLD8_TRY(const ValueId v, operand());
      inputs.push_back(v);
      if (!accept(",")) {
        FOLD8_CHECK_OK(expect(")"));
        break;
      }
    }
    FOLD8_CHECK_OK(attributes(*op));
    for (Target& t : targets)
      outputs.push_back(t.name == "_" ? kNoValue
                        : t.type      ? g_.add_value(t.name, std::move(*t.type))
                                      : g_.add_untyped_value(t.name));
    g_.add_node(std::move(*op), targets[0].name, std::move(inputs), std::move(outputs));
    return ok_status();
  }

  std::string_view text_, line_, rest_;
  int number_ = 0, constants_ = 0;
  Graph g_;
  std::mt19937_64 rng_;
};

}  // namespace

Result<Graph> parse(std::string_view text, std::uint64_t seed) { return Parser(text, seed).run(); }

}  // namespace fold8::graph
