"""Trains digits_cnn.onnx: float CNN with unfolded BatchNorm. usage: train_cnn.py OUT.onnx"""

import sys

import training  # first: sets up jax

import jax
import jax.numpy as jnp
import numpy as np

import mnist
from cnn import CONVS, FEATURES, FloatOnnx, network
from cnn_jax import Float


def initial(seed):
    rng = np.random.default_rng(seed)
    params, running = {}, {}

    def normal(shape):
        return jnp.asarray(rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:])), jnp.float32)

    for name, conv in CONVS.items():
        params[f"{name}.weight"] = normal(conv.weight_shape)
        params[f"{name}.bn.gamma"], params[f"{name}.bn.beta"] = jnp.ones(conv.cout), jnp.zeros(conv.cout)
        running[f"{name}.bn.mean"], running[f"{name}.bn.variance"] = jnp.zeros(conv.cout), jnp.ones(conv.cout)
    params["classifier.weight"], params["classifier.bias"] = normal((10, FEATURES)), jnp.zeros(10)
    return params, running


def loss(params, running, images, labels):
    on = Float(params, running, training=True)
    return training.cross_entropy(network(on, images), labels), on.running


def main(path):
    train, held_out = mnist.load()
    params, running = initial(seed=1)
    params, running = training.fit(
        params, loss, train, epochs=20, batch=50, rate=4e-3, decay=0.02, seed=2, extra=running
    )
    predict = jax.jit(lambda x: network(Float(params, running, training=False), x))
    print(f"held-out accuracy {training.accuracy(predict, held_out):.4f}")
    on = FloatOnnx({k: np.asarray(v) for k, v in {**params, **running}.items()})
    on.graph.save(path, network(on, "image"))


if __name__ == "__main__":
    main(sys.argv[1])
