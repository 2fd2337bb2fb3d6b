"""Two evaluations of digits_cnn_qat.onnx in numpy, independent of fold8: with integers and the requantization of the numeric
contract (SPEC 5a), and exactly (every layer in float64 from the same integer inputs, not yet rounded to a step).

Both are read from the Q/DQ graph itself: a small interpreter over its operators, values being u8 arrays with scale and
zero point where the graph has a Q/DQ pair.
"""
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

F32, F64 = np.float32, np.float64


@dataclass
class Quantized:
    q: np.ndarray           # u8
    scale: np.float32
    zero_point: int


def fma(a, b, c):
    """a*b+c of float32 arrays, rounded once: the product is exact in float64, the sum is rounded to odd, then to float32."""
    product, c = a.astype(F64) * b.astype(F64), np.asarray(c).astype(F64)
    total = product + c
    back = total - product
    error = (product - (total - back)) + (c - back)         # TwoSum: total + error is exact
    even = (total.view(np.int64) & 1) == 0
    odd = np.where((error != 0) & even, np.nextafter(total, np.where(error > 0, np.inf, -np.inf)), total)
    return odd.astype(F32)


def to_u8(r, zero_point):
    """Clamped in float to [-z, 255-z], rounded half to even, then shifted."""
    clamped = np.minimum(np.maximum(r, F32(-zero_point)), F32(255 - zero_point))
    return (np.rint(clamped) + zero_point).astype(np.uint8)


def windows(x, kernel, stride, pad):
    """[N, C, OH, OW, KH, KW] of integers, padded with zeros (x has its zero point subtracted)."""
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    return np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axis=(2, 3))[:, :, ::stride, ::stride]


def accumulate(x, w, node):
    """The exact integer sums of a Conv or Gemm: x [N,C,H,W] or [N,K] without zero point, w of the graph."""
    x, w = x.astype(F64), w.astype(F64)        # exact: sums stay far below 2^53
    if node.op_type == 'Gemm':
        return x @ w.T
    a = {at.name: onnx.helper.get_attribute_value(at) for at in node.attribute}
    patches = windows(x, a['kernel_shape'][0], a['strides'][0], a['pads'][0])
    if a['group'] == 1:
        return np.einsum('nchwij,ocij->nohw', patches, w, optimize=True)
    assert a['group'] == w.shape[0] == x.shape[1]
    return np.einsum('nchwij,cij->nchw', patches, w[:, 0], optimize=True)


class Evaluation:
    """Runs the graph. `tensors[name]`: u8 of every QuantizeLinear output, f32 of `logits`; `exact[name]`: the same before
    rounding, in units of its step, from the layer's integer inputs."""

    def __init__(self, path):
        graph = onnx.load(path).graph
        self.nodes = list(graph.node)
        self.constants = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
        self.producer = {o: n for n in self.nodes for o in n.output}
        self.tensors, self.exact = {}, {}

    def run(self, image):
        self.values = {'image': image}
        for node in self.nodes:
            if node.op_type == 'QuantizeLinear':
                self.quantize(node)
        final = self.nodes[-1]
        m, b, acc = self.linear(final, 1.0)
        self.tensors['logits'] = fma(acc.astype(F32), m, b)
        self.exact['logits'] = self.real(final)
        return self

    # ---- structure: what stands between one QuantizeLinear and those before it

    def quantized(self, name):
        """The u8 tensor behind a DequantizeLinear output."""
        node = self.producer[name]
        if node.op_type == 'Flatten':
            inner = self.quantized(node.input[0])
            return Quantized(inner.q.reshape(inner.q.shape[0], -1), inner.scale, inner.zero_point)
        assert node.op_type == 'DequantizeLinear', node.op_type
        scale, zero = self.constants[node.input[1]], self.constants[node.input[2]]
        return Quantized(self.tensors[node.input[0]], F32(scale), int(zero))

    def constant(self, name):
        """(integers, scale) behind the DequantizeLinear of a weight or a bias."""
        node = self.producer[name]
        assert not self.constants[node.input[2]].any()
        return self.constants[node.input[0]], self.constants[node.input[1]]

    def linear(self, node, scale_y):
        """Multiplier and offset per channel, and the exact sums."""
        x = self.quantized(node.input[0])
        w, scale_w = self.constant(node.input[1])
        b, scale_b = self.constant(node.input[2])
        acc = accumulate(x.q.astype(np.int64) - x.zero_point, w, node)
        m = (F64(x.scale) * scale_w.astype(F64) / F64(scale_y)).astype(F32)
        bias = b.astype(F32) * scale_b                      # DequantizeLinear: a float32 product
        offset = (bias.astype(F64) / F64(scale_y)).astype(F32)
        shape = (1, -1) + (1,) * (acc.ndim - 2)
        return m.reshape(shape), offset.reshape(shape), acc

    # ---- the contract's arithmetic

    def quantize(self, node):
        name, scale, zero = node.output[0], F32(self.constants[node.input[1]]), int(self.constants[node.input[2]])
        below = self.producer[node.input[0]]
        self.tensors[name] = self.evaluate(below, scale, zero)
        self.exact[name] = self.real(below) / F64(scale) + zero

    def evaluate(self, node, scale, zero):
        kind = node.op_type
        if kind == 'Relu' or kind == 'Clip':
            before = self.producer[node.input[0]]
            high = F32(np.inf) if kind == 'Relu' else F32(F64(self.constants[node.input[2]]) / F64(scale))
            return to_u8(np.minimum(np.maximum(self.steps(before, scale), F32(0)), high), zero)
        if kind in ('Conv', 'Gemm', 'GlobalAveragePool'):
            return to_u8(self.steps(node, scale), zero)
        if kind == 'HardSwish':
            x = self.quantized(node.input[0])
            v = (np.arange(256) - x.zero_point).astype(F32) * x.scale
            gate = np.minimum(np.maximum(fma(v, np.full_like(v, F32(1) / F32(6)), F32(0.5)), F32(0)), F32(1))
            return to_u8((v * gate) / scale, zero)[x.q]     # a table
        if kind == 'Flatten':
            return self.quantized(node.output[0]).q
        assert kind == 'Div', kind                          # the input: standardised in float32, then quantized by division
        centred = self.values['image'] - self.constants['mean']
        return to_u8((centred / self.constants['std']) / scale, zero)

    def steps(self, node, scale):
        """A linear layer or sum in units of the output's step, float32, before activation and rounding."""
        if node.op_type == 'Add':
            a, b = self.quantized(node.input[0]), self.quantized(node.input[1])
            m_a, m_b = F32(F64(a.scale) / F64(scale)), F32(F64(b.scale) / F64(scale))
            qa, qb = (t.q.astype(np.int32) - t.zero_point for t in (a, b))
            return fma(qa.astype(F32), m_a, qb.astype(F32) * m_b)
        if node.op_type == 'GlobalAveragePool':
            x = self.quantized(node.input[0])
            sums = (x.q.astype(np.int64) - x.zero_point).sum(axis=(2, 3), keepdims=True)
            return sums.astype(F32) * F32(F64(x.scale) / F64(scale) / (x.q.shape[2] * x.q.shape[3]))
        m, offset, acc = self.linear(node, scale)
        return fma(acc.astype(F32), m, offset)

    # ---- exactly

    def real(self, node):
        """The layer's real value in float64 from its integer inputs."""
        kind = node.op_type
        if kind == 'Relu':
            return np.maximum(self.real(self.producer[node.input[0]]), 0)
        if kind == 'Clip':
            low, high = (F64(self.constants[i]) for i in node.input[1:3])
            return np.clip(self.real(self.producer[node.input[0]]), low, high)
        if kind == 'Div':
            return (self.values['image'].astype(F64) - F64(self.constants['mean'])) / F64(self.constants['std'])
        if kind in ('Conv', 'Gemm'):
            x = self.quantized(node.input[0])
            w, scale_w = self.constant(node.input[1])
            b, scale_b = self.constant(node.input[2])
            acc = accumulate(x.q.astype(np.int64) - x.zero_point, w, node)
            shape = (1, -1) + (1,) * (acc.ndim - 2)
            return acc * (F64(x.scale) * scale_w.astype(F64)).reshape(shape) + (b.astype(F64) * scale_b.astype(F64)).reshape(shape)
        inputs = [self.dequantized(i) for i in node.input]
        if kind == 'Add':
            return inputs[0] + inputs[1]
        if kind == 'GlobalAveragePool':
            return inputs[0].mean(axis=(2, 3), keepdims=True)
        if kind == 'HardSwish':
            return inputs[0] * np.clip(inputs[0] / 6 + 0.5, 0, 1)
        assert kind == 'Flatten', kind
        return self.dequantized(node.output[0])

    def dequantized(self, name):
        x = self.quantized(name)
        return (x.q.astype(F64) - x.zero_point) * F64(x.scale)
