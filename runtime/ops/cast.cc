// ONNX Cast. Float to integer as cvttss2si / cvttsd2si: toward zero, what does not fit gives the
// lowest integer of the machine width (then its low bytes). Float to bool: not 0. f16 and bf16
// round to nearest even.
#include <bit>
#include <cmath>

#include "runtime/ops/each_op.h"
#include "runtime/ops/half.h"

namespace fold8::ops {
namespace {

template <class From, class To>
To convert(From x) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if constexpr (sizeof(To) < 8 && !(std::is_unsigned_v<To> && sizeof(To) == 4)) {
      const double t = static_cast<double>(x);
      const std::int32_t i =
          t > -2147483649.0 && t < 2147483648.0 ? static_cast<std::int32_t>(x) : INT32_MIN;
      return static_cast<To>(i);
    } else {
      const double t = static_cast<double>(x);
      if (std::is_same_v<To, std::uint64_t> && t >= 9223372036854775808.0 &&
          t < 18446744073709551616.0)
        return static_cast<To>(x);
      const std::int64_t i = t >= -9223372036854775808.0 && t < 9223372036854775808.0
                                 ? static_cast<std::int64_t>(x)
                                 : INT64_MIN;
      return static_cast<To>(i);
    }
  } else {
    return static_cast<To>(x);
  }
}

// How a DType is read (to float, double or an integer) and written.
template <class T>
struct Number {
  using Value = T;
  static T read(const void* p, std::size_t i) { return static_cast<const T*>(p)[i]; }
  template <class From>
  static void write(void* p, std::size_t i, From v) {
    static_cast<T*>(p)[i] = convert<From, T>(v);
  }
};
struct Boolean {
  static std::uint8_t read(const void* p, std::size_t i) {
    return static_cast<const std::uint8_t*>(p)[i] != 0;
  }
  template <class From>
  static void write(void* p, std::size_t i, From v) {
    static_cast<std::uint8_t*>(p)[i] = v != From(0);
  }
};
struct Half {
  static float read(const void* p, std::size_t i) {
    return half_to_float(static_cast<const std::uint16_t*>(p)[i]);
  }
  template <class From>
  static void write(void* p, std::size_t i, From v) {
    static_cast<std::uint16_t*>(p)[i] = double_to_half(static_cast<double>(v));
  }
};
struct BFloat {
  static float read(const void* p, std::size_t i) {
    return bfloat_to_float(static_cast<const std::uint16_t*>(p)[i]);
  }
  template <class From>
  static void write(void* p, std::size_t i, From v) {
    static_cast<std::uint16_t*>(p)[i] = float_to_bfloat(static_cast<float>(v));
  }
};
struct Nibble {  // s4, u4 keep one element a byte
  template <class From>
  static std::uint8_t low(From v) {
    return static_cast<std::uint8_t>(convert<From, std::int32_t>(v) & 15);
  }
};
struct Signed4 : Number<std::int8_t> {
  template <class From>
  static void write(void* p, std::size_t i, From v) {
    const int n = Nibble::low(v);
    static_cast<std::int8_t*>(p)[i] = static_cast<std::int8_t>(n >= 8 ? n - 16 : n);
  }
};
struct Unsigned4 : Number<std::uint8_t> {
  template <class From>
  static void write(void* p, std::size_t i, From v) {
    static_cast<std::uint8_t*>(p)[i] = Nibble::low(v);
  }
};

template <class F>
void with_format(DType d, F&& f) {
  switch (d) {
    case DType::boolean:
      return f.template operator()<Boolean>();
    case DType::f16:
      return f.template operator()<Half>();
    case DType::bf16:
      return f.template operator()<BFloat>();
    case DType::s4:
      return f.template operator()<Signed4>();
    case DType::u4:
      return f.template operator()<Unsigned4>();
    default:
      with_number_type(d, [&]<class T>() { f.template operator()<Number<T>>(); });
  }
}

using Convert = void (*)(const void* x, void* y, std::size_t begin, std::size_t end);

Convert converter(DType from, DType to) {
  Convert r = nullptr;
  with_format(from, [&]<class A>() {
    with_format(to, [&]<class B>() {
      r = [](const void* x, void* y, std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) B::write(y, i, A::read(x, i));
      };
    });
  });
  return r;
}

}  // namespace

Status infer_op(const graph::Cast& op, InferContext& c) {
  FOLD8_CHECK_OK(expect_operands(c, 1, 1));
  c.set(0, op.to, c.shape(0));
  auto k = known(c, 0);
  if (!k) return ok_status();
  KnownInts y;
  y.real = is_floating(op.to);
  if (op.to == DType::f16 || op.to == DType::bf16 ||
      (!y.real && op.to != DType::s64 && op.to != DType::s32 && op.to != DType::boolean))
    return ok_status();
  const auto narrow = [&](double v) {
    return op.to == DType::f32 ? static_cast<double>(static_cast<float>(v)) : v;
  };
  for (double r : k->reals) {
    if (y.real)
      y.reals.push_back(narrow(r));
    else if (op.to == DType::boolean)
      y.values.push_back(Dim(r != 0));
    else if (std::fabs(r) < 2e9)
      y.values.push_back(Dim(static_cast<std::int64_t>(r)));
    else
      return ok_status();
  }
  for (Dim d : k->values) {
    if (y.real && !d.known()) return ok_status();
    if (y.real)
      y.reals.push_back(narrow(static_cast<double>(d.value())));
    else if (op.to == DType::boolean)
      y.values.push_back(d.known() ? Dim(d.value() != 0) : Dim::unknown());
    else if (op.to == DType::s32 && d.known())
      y.values.push_back(Dim(static_cast<std::int32_t>(static_cast<std::uint32_t>(d.value()))));
    else
      y.values.push_back(d);
  }
  set_known(c, std::move(y));
  return ok_status();
}

Result<StepPtr> prepare_op(const graph::Cast& op, const PrepareContext& c) {
  const Convert f = converter(c.type(0).dtype, op.to);
  return make_step([f, n = count(c.type(0))](const RunContext& run) {
    parallel(run, n, grain_for(2), [&](std::size_t b, std::size_t e, std::size_t) {
      f(run.inputs[0], run.outputs[0], b, e);
    });
    return ok_status();
  });
}

}  // namespace fold8::ops
