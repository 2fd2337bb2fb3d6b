// write_sample OUT.f8: a small classifier for the installed examples, when there is no converter to
// make one.
#include <cstdio>

#include "runtime/format/f8.h"
#include "runtime/graph/text.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto g = fold8::graph::parse(R"(
    x: f32[batch,3,8,8]
    p = average_pool(x) global=true
    f = flatten(p)
    h = linear(f, random:f32[16,3], random:f32[16]) activation=clip b=6
    y = linear(h, random:f32[10,16], random:f32[10])
    return y
  )");
  if (!g.ok()) return std::fprintf(stderr, "%s\n", g.error().message.c_str()), 1;
  const auto s = fold8::format::write_file(*g, argv[1]);
  if (!s.ok()) return std::fprintf(stderr, "%s\n", s.error().message.c_str()), 1;
  return 0;
}
