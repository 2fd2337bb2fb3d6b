"""Pieces of a Transformer as torch.onnx writes them, shared by the two exporters. Tensors are [batch, tokens, width]."""

import numpy as np

from onnx_graph import OnnxGraph


class TransformerOnnx:
    """`params` holds float arrays by name; linear weights are stored [in, out], the order MatMul reads."""

    def __init__(self, name, params, opset=17):
        self.graph = OnnxGraph(name, opset)
        self.params = params

    def parameter(self, name):
        return self.graph.floats(name, self.params[name])

    def linear(self, name, x):
        """MatMul, and Add where the layer has a bias."""
        g = self.graph
        y = g.node("MatMul", [x, self.parameter(f"{name}.weight")], f"{name}.matmul")
        if f"{name}.bias" not in self.params:
            return y
        return g.node("Add", [self.parameter(f"{name}.bias"), y], f"{name}.add")

    def batch_of(self, x, name):
        """The batch size as a one-element int64 tensor, by the Shape/Gather/Unsqueeze chain of traced code."""
        g = self.graph
        shape = g.node("Shape", [x], f"{name}.shape")
        batch = g.node("Gather", [shape, g.constant("index_0", np.int64(0))], f"{name}.batch", axis=0)
        return g.node("Unsqueeze", [batch, g.ints("axis_0", [0])], f"{name}.batch_1d")

    def reshape(self, x, shape, name):
        """`shape` mixes numbers and names of one-element tensors; with names it is joined by Concat at run time."""
        g = self.graph
        if not any(isinstance(s, str) for s in shape):
            return g.node("Reshape", [x, g.ints(f"{name}.to", shape)], name)
        parts = [s if isinstance(s, str) else g.ints(f"dim_{s}", [s]) for s in shape]
        return g.node("Reshape", [x, g.node("Concat", parts, f"{name}.to", axis=0)], name)

    def standardise(self, mean, std):
        g = self.graph
        x = g.node("Sub", ["image", g.floats("mean", mean)], "image.centred")
        return g.node("Div", [x, g.floats("std", std)], "image.standardised")

    def attention(self, name, q, k, v, head_width):
        """softmax(q kT / sqrt(head_width)) v of heads [batch, heads, tokens, head_width]."""
        g = self.graph
        k = g.node("Transpose", [k], f"{name}.k_transposed", perm=[0, 1, 3, 2])
        scores = g.node("MatMul", [q, k], f"{name}.scores")
        scores = g.node("Div", [scores, g.floats("sqrt_head_width", np.sqrt(head_width))], f"{name}.scaled")
        weights = g.node("Softmax", [scores], f"{name}.softmax", axis=-1)
        y = g.node("MatMul", [weights, v], f"{name}.mixed")
        return g.node("Transpose", [y], f"{name}.mixed_transposed", perm=[0, 2, 1, 3])
