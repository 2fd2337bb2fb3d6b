"""jax backends of the digits CNN: float with BatchNorm, and fake-quantized with folded BatchNorm. NHWC inside."""

import jax
import jax.numpy as jnp

import mnist
from cnn import CONVS, EPSILON

BATCH_NORM_MOMENTUM = 0.9


def convolve(name, x, w):
    """Conv of CONVS[name]; x NHWC, w in ONNX order."""
    c = CONVS[name]
    pad = c.kernel // 2
    if c.groups == 1:
        return jax.lax.conv_general_dilated(
            x, w.transpose(2, 3, 1, 0), (c.stride, c.stride), [(pad, pad)] * 2,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )  # fmt: skip
    # Depthwise as shifted products: XLA's CPU gradient of a grouped convolution takes minutes.
    height, width = x.shape[1:3]
    x = jnp.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    taps = [(i, j) for i in range(c.kernel) for j in range(c.kernel)]
    return sum(x[:, i : i + height : c.stride, j : j + width : c.stride] * w[:, 0, i, j] for i, j in taps)


class Float:
    """Training (batch statistics; `running` collects the new ones) or inference (running statistics)."""

    def __init__(self, params, running, training):
        self.params, self.running, self.training = params, dict(running), training

    def tap(self, name, x):
        return x

    def standardise(self, image):
        return (image.transpose(0, 2, 3, 1) - mnist.MEAN) / mnist.STD

    def conv(self, name, x):
        x = convolve(name, x, self.params[f"{name}.weight"])
        mean, variance = self.running[f"{name}.bn.mean"], self.running[f"{name}.bn.variance"]
        if self.training:
            old, m = (mean, variance), BATCH_NORM_MOMENTUM
            mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
            for key, was, now in zip(("mean", "variance"), old, (mean, variance)):
                self.running[f"{name}.bn.{key}"] = m * was + (1 - m) * jax.lax.stop_gradient(now)
        s = self.params[f"{name}.bn.gamma"] / jnp.sqrt(variance + EPSILON)
        return x * s + (self.params[f"{name}.bn.beta"] - mean * s)

    def relu(self, name, x):
        return jax.nn.relu(x)

    def relu6(self, name, x):
        return jnp.clip(x, 0, 6)

    def hard_swish(self, name, x):
        return x * jnp.clip(x / 6 + 0.5, 0, 1)

    def add(self, name, a, b):
        return a + b

    def pool(self, name, x):
        return x.mean((1, 2))

    def dense(self, name, x):
        return x @ self.params[f"{name}.weight"].T + self.params[f"{name}.bias"]


def _straight_through(x, rounded):
    """`rounded` forwards, the gradient of x backwards."""
    return x + jax.lax.stop_gradient(rounded - x)


def fake_weight(w):
    axes = tuple(range(1, w.ndim))
    scale = jnp.maximum(jnp.abs(w).max(axis=axes, keepdims=True) / 127, 1e-8)
    return _straight_through(w, jnp.round(w / scale).clip(-127, 127) * scale)


class Fake(Float):
    """The folded network with weights and taps rounded as the exported QDQ network rounds them."""

    def __init__(self, params, ranges):
        self.params, self.ranges = params, ranges

    def tap(self, name, x):
        scale, zero_point = self.ranges[name]
        inside = x.clip((0 - zero_point) * scale, (255 - zero_point) * scale)  # no gradient where it saturates
        codes = (jnp.round(x / scale) + zero_point).clip(0, 255)
        return _straight_through(inside, (codes - zero_point) * scale)

    def conv(self, name, x):
        return convolve(name, x, fake_weight(self.params[f"{name}.weight"])) + self.params[f"{name}.bias"]

    def dense(self, name, x):
        return x @ fake_weight(self.params[f"{name}.weight"]).T + self.params[f"{name}.bias"]


class Observe(Fake):
    """The folded float network; records every tap for calibration."""

    def __init__(self, params):
        self.params, self.seen = params, {}

    def tap(self, name, x):
        self.seen[name] = x
        return x

    def conv(self, name, x):
        return convolve(name, x, self.params[f"{name}.weight"]) + self.params[f"{name}.bias"]

    def dense(self, name, x):
        return x @ self.params[f"{name}.weight"].T + self.params[f"{name}.bias"]
