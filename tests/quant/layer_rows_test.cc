// Rows of a layer: weights times rows are the layer's results, wherever the rows lie in memory.
#include "quant/layer_rows.h"

#include <gtest/gtest.h>

#include "runtime/graph/text.h"
#include "tests/support/memory_samples.h"

namespace fold8::quant {
namespace {

graph::Graph parsed(const std::string& text) {
  auto g = graph::parse(text);
  EXPECT_TRUE(g.ok()) << g.error().message;
  return g.ok() ? std::move(*g) : graph::Graph();
}

struct Case {
  const char *x, *w, *attributes;
};

// Largest difference of W x, row by row, from what the runtime computes for the convolution.
double difference(const Case& c) {
  const graph::Graph g = parsed(std::string("x: ") + c.x + "\ny = conv(x, random:" + c.w + ") " +
                                c.attributes + "\nreturn y");
  const graph::Node& node = g.node(0);
  const auto& conv = std::get<graph::Conv>(node.op);
  auto samples = testing_support::normal_samples(g, 1);
  const Tensor& x = samples.all()[0][0];
  const auto y = testing_support::run_once(g, samples.all()[0]);
  const auto rows = rows_of_conv("x", conv, g.type(node.inputs[1]).shape);
  if (!rows || y.empty()) return 1e9;
  const auto reader = reader_of(*rows, x.view());
  if (reader == nullptr) return 1e9;
  const auto w = g.constant<float>(node.inputs[1]);
  const Shape& shape = y[0].shape();
  const auto outputs = static_cast<std::size_t>(shape.extent(1)),
             positions = static_cast<std::size_t>(shape.count(2, shape.rank()));
  EXPECT_EQ(reader->count(), positions * static_cast<std::size_t>(shape.extent(0)));
  std::vector<float> row(rows->width);
  double most = 0;
  for (std::size_t r = 0; r < reader->count(); ++r)
    for (std::size_t m = 0; m < outputs; ++m) {
      reader->copy(r, m / (outputs / rows->groups), row);
      double sum = 0;
      for (std::size_t k = 0; k < row.size(); ++k) sum += double{w[m * row.size() + k]} * row[k];
      const std::size_t at = (r / positions * outputs + m) * positions + r % positions;
      most = std::max(most, std::abs(sum - double{y[0].as<float>()[at]}));
    }
  return most;
}

TEST(LayerRows, OfAConvolutionArePatches) {
  for (const Case& c : {
           Case{"f32[2,3,7,6]", "f32[5,3,3,3]",
                "kernel=[3,3] strides=[2,1] pads=[1,0,1,2] dilations=[1,1]"},
           Case{"f32[1,4,9,8]", "f32[6,2,3,2]",
                "kernel=[3,2] strides=[1,2] pads=[0,0,0,0] dilations=[2,1] group=2"},
           Case{"f32[2,4,5,5]", "f32[4,1,3,3]",
                "kernel=[3,3] strides=[1,1] pads=[1,1,1,1] dilations=[1,1] group=4"},
           Case{"f32[2,3,10]", "f32[4,3,3]", "kernel=[3] strides=[2] pads=[1,1] dilations=[1]"},
           Case{"f32[1,2,4,5,3]", "f32[3,2,2,2,2]",
                "kernel=[2,2,2] strides=[1,1,1] pads=[0,0,1,1,1,0] dilations=[1,1,1]"},
           Case{"f32[1,2,8,8]", "f32[3,2,1,1]",
                "kernel=[1,1] strides=[1,1] pads=[0,0,0,0] dilations=[1,1]"},
       })
    EXPECT_LT(difference(c), 1e-4) << c.x << " " << c.attributes;
}

TEST(LayerRows, AreTheSameInChannelsLast) {
  const graph::Graph g = parsed(
      "x: f32[1,2,3,4]\ny = conv(x, random:f32[2,2,2,2]) kernel=[2,2] strides=[1,1] "
      "pads=[0,1,0,0] dilations=[1,1]\nreturn y");
  const auto rows =
      rows_of_conv("x", std::get<graph::Conv>(g.node(0).op), g.type(g.node(0).inputs[1]).shape);
  ASSERT_TRUE(rows);
  Tensor plain(DType::f32, Shape{1, 2, 3, 4}), last(DType::f32, Shape{1, 2, 3, 4});
  for (std::size_t i = 0; i < 24; ++i) {
    plain.as<float>()[i] = static_cast<float>(i);
    last.as<float>()[i % 12 * 2 + i / 12] = static_cast<float>(i);
  }
  TensorView turned = last.view();
  turned.layout = Layout::channels_last;
  const auto a = reader_of(*rows, plain.view()), b = reader_of(*rows, turned);
  ASSERT_TRUE(a && b);
  std::vector<float> x(rows->width), y(rows->width);
  for (std::size_t r = 0; r < a->count(); ++r) {
    a->copy(r, 0, x);
    b->copy(r, 0, y);
    EXPECT_EQ(x, y) << r;
  }
}

TEST(LayerRows, DifferWithTheGeometry) {
  graph::Conv conv;
  conv.kernel = {3, 3};
  conv.strides = conv.dilations = {1, 1};
  conv.pads = {1, 1, 1, 1};
  const Shape w{8, 4, 3, 3};
  const auto a = rows_of_conv("x", conv, w);
  graph::Conv strided = conv;
  strided.strides = {2, 2};
  EXPECT_TRUE(same_rows(*a, *rows_of_conv("x", conv, Shape{16, 4, 3, 3})));
  EXPECT_FALSE(same_rows(*a, *rows_of_conv("y", conv, w)));
  EXPECT_FALSE(same_rows(*a, *rows_of_conv("x", strided, w)));
  EXPECT_FALSE(same_rows(*a, rows_of_linear("x", 36)));
  conv.transposed = true;
  EXPECT_FALSE(rows_of_conv("x", conv, w));
}

TEST(LayerRows, NeedATensorOfTheirShape) {
  const LayerRows rows = rows_of_linear("x", 4);
  EXPECT_NE(reader_of(rows, Tensor(DType::f32, Shape{3, 4}).view()), nullptr);
  EXPECT_EQ(reader_of(rows, Tensor(DType::f32, Shape{3, 5}).view()), nullptr);
  EXPECT_EQ(reader_of(rows, Tensor(DType::u8, Shape{3, 4}).view()), nullptr);
  EXPECT_EQ(reader_of(rows, Tensor(DType::f32, Shape{0, 4}).view()), nullptr);
}

}  // namespace
}  // namespace fold8::quant
