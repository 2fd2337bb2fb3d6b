"""Trains digits_rms.onnx: a small Transformer of the LLaMA family. usage: train_rms.py OUT.onnx

The 28 pixel rows are the tokens; pre-norm blocks with RMSNorm, rotary positions, 4 heads, SwiGLU MLP, no biases inside.
Exported at opset 17 with RMSNorm decomposed (Pow, ReduceMean, Add, Sqrt, Div, Mul, Mul) and SiLU as Sigmoid and Mul.
"""

import sys

import training  # first: sets up jax

import jax
import jax.numpy as jnp
import numpy as np

import mnist
from attention_onnx import TransformerOnnx

WIDTH, HEADS, HIDDEN, BLOCKS, TOKENS = 64, 4, 128, 2, 28
HEAD_WIDTH = WIDTH // HEADS
EPSILON = 1e-6


def rotary_tables():
    """cos and sin [TOKENS, HEAD_WIDTH]; the two halves of a head turn together."""
    frequency = 100.0 ** (-np.arange(0, HEAD_WIDTH, 2) / HEAD_WIDTH)
    angle = np.outer(np.arange(TOKENS), frequency)
    angle = np.concatenate([angle, angle], axis=1)
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


COS, SIN = rotary_tables()


def initial(seed):
    rng = np.random.default_rng(seed)
    params = {}

    def linear(name, fan_in, fan_out):
        params[f"{name}.weight"] = jnp.asarray(rng.standard_normal((fan_in, fan_out)) / np.sqrt(fan_in), jnp.float32)

    linear("rows", 28, WIDTH)
    for b in range(BLOCKS):
        params[f"block{b}.norm1.weight"] = params[f"block{b}.norm2.weight"] = jnp.ones(WIDTH)
        for part in ("query", "key", "value", "out"):
            linear(f"block{b}.{part}", WIDTH, WIDTH)
        linear(f"block{b}.gate", WIDTH, HIDDEN)
        linear(f"block{b}.up", WIDTH, HIDDEN)
        linear(f"block{b}.down", HIDDEN, WIDTH)
    params["norm.weight"] = jnp.ones(WIDTH)
    linear("classifier", WIDTH, 10)
    params["classifier.bias"] = jnp.zeros(10)
    return params


def forward(p, image):
    def norm(name, x):
        return x * (1 / jnp.sqrt((x**2).mean(-1, keepdims=True) + EPSILON)) * p[f"{name}.weight"]

    def linear(name, x):
        return x @ p[f"{name}.weight"]

    def heads(x):
        return x.reshape(-1, TOKENS, HEADS, HEAD_WIDTH).transpose(0, 2, 1, 3)

    def rotate(x):
        left, right = jnp.split(x, 2, axis=-1)
        return x * COS + jnp.concatenate([-right, left], axis=-1) * SIN

    x = linear("rows", ((image - mnist.MEAN) / mnist.STD).reshape(-1, TOKENS, 28))
    for b in range(BLOCKS):
        h = norm(f"block{b}.norm1", x)
        q, k, v = (heads(linear(f"block{b}.{part}", h)) for part in ("query", "key", "value"))
        weights = jax.nn.softmax(rotate(q) @ rotate(k).transpose(0, 1, 3, 2) / np.sqrt(HEAD_WIDTH))
        h = (weights @ v).transpose(0, 2, 1, 3).reshape(-1, TOKENS, WIDTH)
        x = x + linear(f"block{b}.out", h)
        h = norm(f"block{b}.norm2", x)
        x = x + linear(f"block{b}.down", jax.nn.silu(linear(f"block{b}.gate", h)) * linear(f"block{b}.up", h))
    return linear("classifier", norm("norm", x).mean(1)) + p["classifier.bias"]


def export(params, path):
    on = TransformerOnnx("digits_rms", params)
    g = on.graph

    def norm(name, x):
        y = g.node("Pow", [x, g.floats("two", 2)], f"{name}.pow")
        y = g.node("ReduceMean", [y], f"{name}.mean", axes=[-1], keepdims=1)
        y = g.node("Sqrt", [g.node("Add", [y, g.floats("epsilon", EPSILON)], f"{name}.add")], f"{name}.sqrt")
        y = g.node("Mul", [x, g.node("Div", [g.floats("one", 1), y], f"{name}.div")], f"{name}.normalised")
        return g.node("Mul", [on.parameter(f"{name}.weight"), y], name)

    def heads(name, x):
        x = on.reshape(x, [-1, TOKENS, HEADS, HEAD_WIDTH], f"{name}.split")
        return g.node("Transpose", [x], f"{name}.heads", perm=[0, 2, 1, 3])

    def rotate(name, x):
        half = HEAD_WIDTH // 2
        axis = g.ints("last_axis", [-1])
        left = g.node("Slice", [x, g.ints("i0", [0]), g.ints("half_head", [half]), axis], f"{name}.left")
        right = [x, g.ints("half_head", [half]), g.ints("head_width", [HEAD_WIDTH]), axis]
        right = g.node("Neg", [g.node("Slice", right, f"{name}.right")], f"{name}.negated")
        turned = g.node("Concat", [right, left], f"{name}.turned", axis=-1)
        turned = g.node("Mul", [turned, g.floats("rotary.sin", SIN)], f"{name}.sin")
        return g.node("Add", [g.node("Mul", [x, g.floats("rotary.cos", COS)], f"{name}.cos"), turned], f"{name}.rotary")

    x = on.reshape(on.standardise(mnist.MEAN, mnist.STD), [-1, TOKENS, 28], "rows.tokens")
    x = on.linear("rows", x)
    for b in range(BLOCKS):
        n = f"block{b}"
        h = norm(f"{n}.norm1", x)
        q, k, v = (heads(f"{n}.{p}", on.linear(f"{n}.{p}", h)) for p in ("query", "key", "value"))
        h = on.attention(f"{n}.attention", rotate(f"{n}.query", q), rotate(f"{n}.key", k), v, HEAD_WIDTH)
        h = on.reshape(h, [-1, TOKENS, WIDTH], f"{n}.attention.merged")
        x = g.node("Add", [x, on.linear(f"{n}.out", h)], f"{n}.residual1")
        h = norm(f"{n}.norm2", x)
        gate = on.linear(f"{n}.gate", h)
        gate = g.node("Mul", [gate, g.node("Sigmoid", [gate], f"{n}.sigmoid")], f"{n}.silu")
        h = g.node("Mul", [gate, on.linear(f"{n}.up", h)], f"{n}.swiglu")
        x = g.node("Add", [x, on.linear(f"{n}.down", h)], f"{n}.residual2")
    x = g.node("ReduceMean", [norm("norm", x)], "pooled", axes=[1], keepdims=0)
    weight = g.floats("classifier.weight", params["classifier.weight"].T)
    g.save(path, g.node("Gemm", [x, weight, on.parameter("classifier.bias")], "classifier.gemm", transB=1))


def main(path):
    train, held_out = mnist.load()

    def loss(params, extra, images, labels):
        return training.cross_entropy(forward(params, images), labels), extra

    params, _ = training.fit(initial(seed=6), loss, train, epochs=50, batch=50, rate=2e-3, decay=0.05, seed=7)
    print(f"held-out accuracy {training.accuracy(jax.jit(lambda x: forward(params, x)), held_out):.4f}")
    export({k: np.asarray(v) for k, v in params.items()}, path)


if __name__ == "__main__":
    main(sys.argv[1])
