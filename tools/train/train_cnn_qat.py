"""Fine-tunes digits_cnn.onnx with quantization in the loop. usage: train_cnn_qat.py digits_cnn.onnx OUT.onnx

The BatchNorms are folded first; then weights (s8, per channel) and activations (u8, per tensor, ranges fixed after a
calibration) are rounded in the forward pass, with straight-through gradients.
"""

import sys

import training  # first: sets up jax

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from onnx import numpy_helper

import mnist
from cnn import QdqOnnx, fold_batch_norms, network
from cnn_jax import Fake, Observe

INPUT_RANGE = (1 / (255 * mnist.STD), 33)  # every pixel code is exact, see mnist.MEAN
TAIL = 0.0005  # share of calibration values that may saturate on each side


def choose_ranges(params, images):
    """(scale, zero point) per tap from the values that `images` give in the float network; 0 is always exact."""
    on = Observe(params)
    network(on, images)
    ranges = {}
    for name, values in on.seen.items():
        low, high = np.quantile(np.asarray(values), [TAIL, 1 - TAIL])
        low, high = min(low, 0.0), max(high, 0.0)
        if name == "down":
            high = 6.0  # ReLU6: the clamp and the end of the u8 range are one
        scale = np.float32((high - low) / 255)
        ranges[name] = (float(scale), int(np.rint(-low / scale)))
    ranges["input"] = (float(np.float32(INPUT_RANGE[0])), INPUT_RANGE[1])
    return ranges


def main(source, path):
    train, held_out = mnist.load()
    arrays = {t.name: numpy_helper.to_array(t) for t in onnx.load(source).graph.initializer}
    params = {k: jnp.asarray(v) for k, v in fold_batch_norms(arrays).items() if "." in k}
    ranges = choose_ranges(params, train.images[:512])

    def loss(params, extra, images, labels):
        return training.cross_entropy(network(Fake(params, ranges), images), labels), extra

    params, _ = training.fit(params, loss, train, epochs=3, batch=50, rate=2e-4, decay=0.0, seed=3)
    predict = jax.jit(lambda x: network(Fake(params, ranges), x))
    print(f"held-out accuracy {training.accuracy(predict, held_out):.4f}")
    on = QdqOnnx({k: np.asarray(v) for k, v in params.items()}, ranges)
    on.graph.save(path, network(on, "image"))


if __name__ == "__main__":
    main(*sys.argv[1:3])
