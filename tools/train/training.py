"""AdamW with a cosine schedule, and the loop all four networks are trained with. Deterministic: one thread, fixed seeds."""

import os
import time

# One core, hence one thread: XLA splits its sums by the number of cores it sees. Before jax is imported.
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import jax
import jax.numpy as jnp
import numpy as np

import mnist


def cross_entropy(logits, labels):
    return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(len(labels)), labels])


def _adamw(params, grads, state, rate, decay):
    """One step; decay applies to matrices and kernels only, not to biases, scales and shifts."""
    count, first, second = state
    count = count + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
    second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, second, grads)
    m_scale, v_scale = 1 / (1 - 0.9**count), 1 / (1 - 0.99**count)

    def move(p, m, v):
        step = m * m_scale / (jnp.sqrt(v * v_scale) + 1e-8)
        return p - rate * (step + (decay * p if p.ndim > 1 else 0))

    return jax.tree.map(move, params, first, second), (count, first, second)


def fit(params, loss, data, *, epochs, batch, rate, decay, seed, extra=None):
    """Minimises loss(params, extra, images, labels) -> (scalar, extra) over augmented epochs of `data`.

    `extra` is whatever the network updates without a gradient (running statistics). Returns (params, extra).
    """
    rng = np.random.default_rng(seed)
    steps = len(data.labels) // batch
    zeros = jax.tree.map(jnp.zeros_like, params)
    state = (jnp.float32(0), zeros, zeros)

    @jax.jit
    def update(params, extra, state, rate, images, labels):
        (value, extra), grads = jax.value_and_grad(loss, has_aux=True)(params, extra, images, labels)
        params, state = _adamw(params, grads, state, rate, decay)
        return params, extra, state, value

    for epoch in range(epochs):
        began, total = time.time(), 0.0
        order = rng.permutation(len(data.labels))
        images = mnist.augment(data.images, rng)
        for step in range(steps):
            progress = (epoch * steps + step) / (epochs * steps)
            now = rate * min(1.0, 20 * progress + 0.01) * 0.5 * (1 + np.cos(np.pi * progress))
            rows = order[step * batch : (step + 1) * batch]
            params, extra, state, value = update(
                params, extra, state, jnp.float32(now), images[rows], data.labels[rows]
            )
            total += float(value)
        print(f"epoch {epoch + 1}/{epochs}: loss {total / steps:.4f}, {time.time() - began:.1f} s", flush=True)
    return params, extra


def accuracy(predict, data, batch=250):
    """Share of `data` that predict(images) -> logits classifies rightly."""
    right = 0
    for at in range(0, len(data.labels), batch):
        rows = slice(at, at + batch)
        right += int((np.asarray(predict(data.images[rows])).argmax(1) == data.labels[rows]).sum())
    return right / len(data.labels)
