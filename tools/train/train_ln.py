"""Trains digits_ln.onnx: a small vision Transformer with LayerNorm. usage: train_ln.py OUT.onnx

Patches of 4x4 pixels (a Conv), learned positions, pre-norm blocks with 4 heads and a GELU MLP, mean over the tokens.
Exported at opset 17: native LayerNormalization, GELU spelled with Erf, shapes computed by Shape/Gather/Concat.
"""

import sys

import training  # first: sets up jax

import jax
import jax.numpy as jnp
import numpy as np

import mnist
from attention_onnx import TransformerOnnx

WIDTH, HEADS, HIDDEN, BLOCKS, PATCH = 64, 4, 128, 2, 4
TOKENS = (28 // PATCH) ** 2
HEAD_WIDTH = WIDTH // HEADS
EPSILON = 1e-5


def initial(seed):
    rng = np.random.default_rng(seed)
    params = {"positions": jnp.asarray(0.02 * rng.standard_normal((1, TOKENS, WIDTH)), jnp.float32)}

    def linear(name, fan_in, fan_out):
        params[f"{name}.weight"] = jnp.asarray(rng.standard_normal((fan_in, fan_out)) / np.sqrt(fan_in), jnp.float32)
        params[f"{name}.bias"] = jnp.zeros(fan_out)

    def norm(name):
        params[f"{name}.weight"], params[f"{name}.bias"] = jnp.ones(WIDTH), jnp.zeros(WIDTH)

    linear("patches", PATCH * PATCH, WIDTH)
    for b in range(BLOCKS):
        norm(f"block{b}.norm1")
        for part in ("query", "key", "value", "out"):
            linear(f"block{b}.{part}", WIDTH, WIDTH)
        norm(f"block{b}.norm2")
        linear(f"block{b}.fc1", WIDTH, HIDDEN)
        linear(f"block{b}.fc2", HIDDEN, WIDTH)
    norm("norm")
    linear("classifier", WIDTH, 10)
    return params


def layer_norm(p, name, x):
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred**2).mean(-1, keepdims=True)
    return centred / jnp.sqrt(variance + EPSILON) * p[f"{name}.weight"] + p[f"{name}.bias"]


def forward(p, image):
    def linear(name, x):
        return x @ p[f"{name}.weight"] + p[f"{name}.bias"]

    def heads(x):
        return x.reshape(-1, TOKENS, HEADS, HEAD_WIDTH).transpose(0, 2, 1, 3)

    side = 28 // PATCH
    x = ((image - mnist.MEAN) / mnist.STD).reshape(-1, side, PATCH, side, PATCH)
    x = linear("patches", x.transpose(0, 1, 3, 2, 4).reshape(-1, TOKENS, PATCH * PATCH)) + p["positions"]
    for b in range(BLOCKS):
        h = layer_norm(p, f"block{b}.norm1", x)
        q, k, v = (heads(linear(f"block{b}.{part}", h)) for part in ("query", "key", "value"))
        weights = jax.nn.softmax(q @ k.transpose(0, 1, 3, 2) / np.sqrt(HEAD_WIDTH))
        h = (weights @ v).transpose(0, 2, 1, 3).reshape(-1, TOKENS, WIDTH)
        x = x + linear(f"block{b}.out", h)
        h = layer_norm(p, f"block{b}.norm2", x)
        x = x + linear(f"block{b}.fc2", jax.nn.gelu(linear(f"block{b}.fc1", h), approximate=False))
    return linear("classifier", layer_norm(p, "norm", x).mean(1))


def export(params, path):
    on = TransformerOnnx("digits_ln", params)
    g = on.graph

    def norm(name, x):
        inputs = [x, on.parameter(f"{name}.weight"), on.parameter(f"{name}.bias")]
        return g.node("LayerNormalization", inputs, name, axis=-1, epsilon=EPSILON)

    def gelu(name, x):
        y = g.node("Div", [x, g.floats("sqrt_2", np.sqrt(2))], f"{name}.div")
        y = g.node("Add", [g.node("Erf", [y], f"{name}.erf"), g.floats("one", 1)], f"{name}.add")
        y = g.node("Mul", [x, y], f"{name}.mul")
        return g.node("Mul", [y, g.floats("half", 0.5)], name)

    def heads(name, x, batch):
        x = on.reshape(x, [batch, TOKENS, HEADS, HEAD_WIDTH], f"{name}.split")
        return g.node("Transpose", [x], f"{name}.heads", perm=[0, 2, 1, 3])

    kernel = params["patches.weight"].T.reshape(WIDTH, 1, PATCH, PATCH)
    inputs = [on.standardise(mnist.MEAN, mnist.STD), g.floats("patches.weight", kernel), on.parameter("patches.bias")]
    x = g.node("Conv", inputs, "patches.conv", kernel_shape=[PATCH] * 2, strides=[PATCH] * 2)
    x = on.reshape(x, [on.batch_of(x, "patches"), WIDTH, TOKENS], "patches.flat")
    x = g.node("Transpose", [x], "patches.tokens", perm=[0, 2, 1])
    x = g.node("Add", [x, on.parameter("positions")], "embedded")
    for b in range(BLOCKS):
        n = f"block{b}"
        h = norm(f"{n}.norm1", x)
        batch = on.batch_of(h, f"{n}.norm1")
        q, k, v = (heads(f"{n}.{p}", on.linear(f"{n}.{p}", h), batch) for p in ("query", "key", "value"))
        h = on.attention(f"{n}.attention", q, k, v, HEAD_WIDTH)
        h = on.reshape(h, [batch, TOKENS, WIDTH], f"{n}.attention.merged")
        x = g.node("Add", [x, on.linear(f"{n}.out", h)], f"{n}.residual1")
        h = gelu(f"{n}.gelu", on.linear(f"{n}.fc1", norm(f"{n}.norm2", x)))
        x = g.node("Add", [x, on.linear(f"{n}.fc2", h)], f"{n}.residual2")
    x = g.node("ReduceMean", [norm("norm", x)], "pooled", axes=[1], keepdims=0)
    weight = g.floats("classifier.weight", params["classifier.weight"].T)
    g.save(path, g.node("Gemm", [x, weight, on.parameter("classifier.bias")], "classifier.gemm", transB=1))


def main(path):
    train, held_out = mnist.load()

    def loss(params, extra, images, labels):
        return training.cross_entropy(forward(params, images), labels), extra

    params, _ = training.fit(initial(seed=4), loss, train, epochs=80, batch=50, rate=3e-3, decay=0.05, seed=5)
    print(f"held-out accuracy {training.accuracy(jax.jit(lambda x: forward(params, x)), held_out):.4f}")
    export({k: np.asarray(v) for k, v in params.items()}, path)


if __name__ == "__main__":
    main(sys.argv[1])
