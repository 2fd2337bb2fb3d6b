"""The digits CNN, written once and run by three backends: jax for training (cnn_jax.py) and the two ONNX writers below.

A backend offers conv (with whatever follows it: BatchNorm, or a folded bias), the activations, add, pool and dense;
`tap` marks a tensor that an INT8 network rounds to u8. About 9.6 M multiply-adds per image.
"""

from dataclasses import dataclass

import numpy as np

import mnist
from onnx_graph import OnnxGraph

EPSILON = 1e-5


@dataclass(frozen=True)
class Conv:
    cin: int
    cout: int
    kernel: int
    stride: int = 1
    groups: int = 1

    @property
    def weight_shape(self):  # ONNX order: out, in per group, height, width
        return (self.cout, self.cin // self.groups, self.kernel, self.kernel)


CONVS = {
    "stem": Conv(1, 16, 3),
    "wide": Conv(16, 32, 3),
    "depthwise": Conv(32, 32, 3, stride=2, groups=32),
    "pointwise": Conv(32, 48, 1),
    "residual": Conv(48, 48, 3),
    "down": Conv(48, 64, 3, stride=2),
}
FEATURES = 64


def network(on, image):
    x = on.tap("input", on.standardise(image))
    x = on.tap("stem", on.relu("stem", on.conv("stem", x)))
    x = on.tap("wide", on.relu("wide", on.conv("wide", x)))
    x = on.tap("depthwise", on.relu("depthwise", on.conv("depthwise", x)))
    x = on.tap("pointwise_linear", on.conv("pointwise", x))
    x = on.tap("pointwise", on.hard_swish("pointwise", x))
    branch = on.tap("residual", on.conv("residual", x))
    x = on.tap("sum", on.relu("sum", on.add("sum", branch, x)))
    x = on.tap("down", on.relu6("down", on.conv("down", x)))
    x = on.tap("pool", on.pool("pool", x))
    return on.dense("classifier", x)


class FloatOnnx:
    """Writes the float network with unfolded BatchNormalization after bias-free Conv.

    `params` holds arrays named as the initializers: NAME.weight and, per conv, NAME.bn.{gamma,beta,mean,variance}.
    """

    def __init__(self, params, name="digits_cnn", opset=15):
        self.params, self.graph = params, OnnxGraph(name, opset)

    def tap(self, name, x):
        return x

    def standardise(self, image):
        g = self.graph
        x = g.node("Sub", [image, g.floats("mean", mnist.MEAN)], "input.centred")
        return g.node("Div", [x, g.floats("std", mnist.STD)], "input.standardised")

    def conv_node(self, name, inputs, output):
        c = CONVS[name]
        return self.graph.node(
            "Conv", inputs, output, kernel_shape=[c.kernel] * 2, strides=[c.stride] * 2,
            pads=[c.kernel // 2] * 4, group=c.groups, dilations=[1, 1],
        )  # fmt: skip

    def conv(self, name, x):
        g, p = self.graph, self.params
        x = self.conv_node(name, [x, g.floats(f"{name}.weight", p[f"{name}.weight"])], f"{name}.conv")
        stats = [g.floats(f"{name}.bn.{s}", p[f"{name}.bn.{s}"]) for s in ("gamma", "beta", "mean", "variance")]
        return g.node("BatchNormalization", [x, *stats], f"{name}.bn", epsilon=EPSILON)

    def relu(self, name, x):
        return self.graph.node("Relu", [x], f"{name}.relu")

    def relu6(self, name, x):
        g = self.graph
        return g.node("Clip", [x, g.floats("zero", 0), g.floats("six", 6)], f"{name}.relu6")

    def hard_swish(self, name, x):
        return self.graph.node("HardSwish", [x], f"{name}.hard_swish")

    def add(self, name, a, b):
        return self.graph.node("Add", [a, b], f"{name}.add")

    def pool(self, name, x):
        return self.graph.node("GlobalAveragePool", [x], f"{name}.average")

    def dense(self, name, x):
        g = self.graph
        x = g.node("Flatten", [x], f"{name}.flatten", axis=1)
        return g.node("Gemm", [x, *self.dense_constants(name)], f"{name}.gemm", transB=1)

    def dense_constants(self, name):
        return [self.graph.floats(f"{name}.{k}", self.params[f"{name}.{k}"]) for k in ("weight", "bias")]


class QdqOnnx(FloatOnnx):
    """Writes the QAT network as standard QDQ: u8 activations per tensor, s8 weights per channel of axis 0, s32 biases.

    `params` holds folded NAME.weight and NAME.bias as floats; `ranges` maps a tap to its (scale, zero point).
    """

    def __init__(self, params, ranges):
        super().__init__(params, "digits_cnn_qat")
        self.ranges = ranges
        self.scale_of = {}  # dequantized tensor -> its scale

    def tap(self, name, x):
        g = self.graph
        scale, zero_point = self.ranges[name]
        pair = [g.floats(f"{name}.scale", scale), g.constant(f"{name}.zero_point", np.uint8(zero_point))]
        q = g.node("QuantizeLinear", [x, *pair], f"{name}.quantized")
        y = g.node("DequantizeLinear", [q, *pair], f"{name}.dequantized")
        self.scale_of[y] = np.float32(scale)
        return y

    def weight_and_bias(self, name, x_scale):
        g = self.graph
        w, scale = quantize_weight(self.params[f"{name}.weight"])
        zeros = g.constant(f"{name}.weight.zero_point", np.zeros(len(scale), np.int8))
        w = [g.constant(f"{name}.weight", w), g.floats(f"{name}.weight.scale", scale), zeros]
        bias_scale = (x_scale * scale).astype(np.float32)
        b = np.rint(self.params[f"{name}.bias"].astype(np.float64) / bias_scale).astype(np.int32)
        zeros = g.constant(f"{name}.bias.zero_point", np.zeros(len(scale), np.int32))
        b = [g.constant(f"{name}.bias", b), g.floats(f"{name}.bias.scale", bias_scale), zeros]
        return [
            g.node("DequantizeLinear", w, f"{name}.weight.dequantized", axis=0),
            g.node("DequantizeLinear", b, f"{name}.bias.dequantized", axis=0),
        ]

    def conv(self, name, x):
        return self.conv_node(name, [x, *self.weight_and_bias(name, self.scale_of[x])], f"{name}.conv")

    def dense(self, name, x):
        # Flatten between Dequantize and Quantize of one scale, as quantizers of other projects write it.
        g = self.graph
        scale = self.scale_of[x]
        x = g.node("Flatten", [x], f"{name}.flatten", axis=1)
        pair = ["pool.scale", "pool.zero_point"]
        x = g.node("QuantizeLinear", [x, *pair], f"{name}.flatten.quantized")
        x = g.node("DequantizeLinear", [x, *pair], f"{name}.flatten.dequantized")
        return g.node("Gemm", [x, *self.weight_and_bias(name, scale)], f"{name}.gemm", transB=1)


def quantize_weight(w):
    """s8 codes in [-127,127] and one scale per row of axis 0: scale = max|row| / 127."""
    rows = np.abs(w).reshape(len(w), -1).max(axis=1)
    scale = np.maximum(rows / np.float32(127), np.float32(1e-8)).astype(np.float32)
    codes = np.rint(w / scale.reshape(-1, *[1] * (w.ndim - 1)))
    return codes.clip(-127, 127).astype(np.int8), scale


def fold_batch_norms(params):
    """The float network's arrays with every BatchNorm folded into NAME.weight and NAME.bias (computed in double)."""
    folded = {k: v for k, v in params.items() if ".bn." not in k}
    for name in CONVS:
        gamma, beta, mean, variance = (
            params[f"{name}.bn.{s}"].astype(np.float64) for s in ("gamma", "beta", "mean", "variance")
        )
        s = gamma / np.sqrt(variance + EPSILON)
        folded[f"{name}.weight"] = (params[f"{name}.weight"] * s[:, None, None, None]).astype(np.float32)
        folded[f"{name}.bias"] = (beta - mean * s).astype(np.float32)
    return folded
