// Writes small ONNX models as protobuf bytes, field by field, so that tests need no protobuf and
// can write nonsense too.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace fold8::testing {

class Message {
 public:
  Message& number(int field, std::int64_t v) {
    tag(field, 0);
    varint(static_cast<std::uint64_t>(v));
    return *this;
  }
  Message& text(int field, std::string_view s) {
    tag(field, 2);
    varint(s.size());
    bytes.append(s);
    return *this;
  }
  Message& real(int field, float f) {
    tag(field, 5);
    bytes.append(reinterpret_cast<const char*>(&f), 4);
    return *this;
  }
  Message& message(int field, const Message& m) { return text(field, m.bytes); }

  std::string bytes;

 private:
  void tag(int field, int wire) { varint(static_cast<std::uint64_t>(field * 8 + wire)); }
  void varint(std::uint64_t v) {
    for (; v >= 128; v >>= 7) bytes += static_cast<char>(v | 128);
    bytes += static_cast<char>(v);
  }
};

enum OnnxType {
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kInt32 = 6,
  kInt64 = 7,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kInt4 = 22
};

using Dims = std::vector<std::int64_t>;

template <class T>
Message tensor(const std::string& name, OnnxType type, const Dims& dims,
               const std::vector<T>& values) {
  Message m;
  for (auto d : dims) m.number(1, d);
  m.number(2, type).text(8, name);
  m.text(9, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
  return m;
}
inline Message floats(const std::string& name, const Dims& dims, const std::vector<float>& v) {
  return tensor(name, kFloat, dims, v);
}
inline Message ints(const std::string& name, const Dims& dims, const std::vector<std::int64_t>& v) {
  return tensor(name, kInt64, dims, v);
}

inline Message attribute(const std::string& name, std::int64_t i) {
  return Message().text(1, name).number(3, i).number(20, 2);
}
inline Message attribute(const std::string& name, int i) {
  return attribute(name, static_cast<std::int64_t>(i));
}
inline Message attribute(const std::string& name, float f) {
  return Message().text(1, name).real(2, f).number(20, 1);
}
inline Message attribute(const std::string& name, const char* s) {
  return Message().text(1, name).text(4, s).number(20, 3);
}
inline Message attribute(const std::string& name, const Message& t) {
  return Message().text(1, name).message(5, t).number(20, 4);
}
inline Message attribute(const std::string& name, const Dims& list) {
  Message m;
  m.text(1, name);
  for (auto v : list) m.number(8, v);
  return m.number(20, 7);
}

using Names = std::vector<std::string>;

// One ONNX model; every function returns *this.
class ModelWriter {
 public:
  explicit ModelWriter(int opset = 17) { opset_import("", opset); }

  ModelWriter& opset_import(const std::string& domain, std::int64_t version) {
    opsets_.message(8, Message().text(1, domain).number(2, version));
    return *this;
  }
  ModelWriter& no_opset() {
    opsets_.bytes.clear();
    return *this;
  }
  // "N" is a symbol, "?" an unknown extent.
  ModelWriter& input(const std::string& name, const Names& dims, OnnxType type = kFloat) {
    graph_.message(11, value_info(name, dims, type));
    return *this;
  }
  ModelWriter& output(const std::string& name, const Names& dims = {}, OnnxType type = kFloat) {
    graph_.message(12, value_info(name, dims, type));
    return *this;
  }
  ModelWriter& initializer(const Message& tensor) {
    graph_.message(5, tensor);
    return *this;
  }
  ModelWriter& node(const std::string& op, const Names& inputs, const Names& outputs,
                    std::initializer_list<Message> attributes = {}, const std::string& name = "",
                    const std::string& domain = "") {
    Message n;
    for (const auto& i : inputs) n.text(1, i);
    for (const auto& o : outputs) n.text(2, o);
    n.text(3, name).text(4, op);
    for (const auto& a : attributes) n.message(5, a);
    if (!domain.empty()) n.text(7, domain);
    graph_.message(1, n);
    return *this;
  }
  std::string bytes() const {
    return Message().number(1, 8).message(7, graph_).bytes + opsets_.bytes;
  }

 private:
  static Message value_info(const std::string& name, const Names& dims, OnnxType type) {
    Message shape;
    for (const auto& d : dims) {
      Message dim;
      if (!d.empty() && (std::isdigit(static_cast<unsigned char>(d[0])) || d[0] == '-'))
        dim.number(1, std::stoll(d));
      else if (d != "?")
        dim.text(2, d);
      shape.message(1, dim);
    }
    return Message().text(1, name).message(
        2, Message().message(1, Message().number(1, type).message(2, shape)));
  }

  Message graph_, opsets_;
};

}  // namespace fold8::testing
