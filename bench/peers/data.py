"""Calibration and evaluation data, drawn from what scikit-learn brings along: two photos and its data sets' descriptions."""
import functools
import json
import pathlib

import numpy as np
import sklearn.datasets
from PIL import Image, ImageDraw, ImageFont
from tokenizers import Tokenizer

CALIBRATION, EVALUATION = 32, 16
SKLEARN = pathlib.Path(sklearn.datasets.__file__).parent
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
UNIT = ((0.5,) * 3, (0.5,) * 3)         # pixels to -1..1


def pair(draw):
    """(calibration, evaluation) data: draw(count) twice from one generator, so they are disjoint draws."""
    return draw(CALIBRATION), draw(EVALUATION)


def crops(count, height, width, rng, normalization=IMAGENET):
    """Random crops of the photos, mirrored and brightened at random: float32 [count, 3, height, width]."""
    mean, std = normalization
    photos = [Image.open(SKLEARN / 'images' / name).convert('RGB') for name in ('china.jpg', 'flower.jpg')]
    drawn = ((crop(photos[i % 2], height, width, rng) - mean) / std for i in range(count))
    return np.stack([c.transpose(2, 0, 1).astype(np.float32) for c in drawn])


def crop(photo, height, width, rng):
    """One crop, [height, width, 3] in 0..1."""
    share = rng.uniform(0.35, 1.0)
    crop_height = int(min(photo.size[1], photo.size[1] * share))
    crop_width = int(min(photo.size[0], crop_height * width / height))
    left = rng.integers(0, photo.size[0] - crop_width + 1)
    top = rng.integers(0, photo.size[1] - crop_height + 1)
    part = photo.crop((left, top, left + crop_width, top + crop_height)).resize((width, height), Image.BILINEAR)
    pixels = np.asarray(part, np.float32) / 255
    if rng.random() < 0.5:
        pixels = pixels[:, ::-1]
    return np.clip(pixels * rng.uniform(0.8, 1.2), 0, 1)


@functools.cache
def words():
    return ' '.join(f.read_text(encoding='utf8') for f in sorted((SKLEARN / 'descr').glob('*.rst'))).split()


def text(rng, shortest, longest):
    """A run of words."""
    count = int(rng.integers(shortest, longest))
    begin = int(rng.integers(0, len(words()) - count))
    return ' '.join(words()[begin:begin + count])


def tokens(count, rng, tokenizer_file, length):
    """BERT's three inputs, int64 [count, length]: WordPiece ids of texts of 20 to 119 words, padded."""
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.no_padding()
    tokenizer.enable_truncation(length)
    ids, mask = np.zeros((count, length), np.int64), np.zeros((count, length), np.int64)
    for i, sample in enumerate([text(rng, 20, 120) for _ in range(count)]):
        encoded = tokenizer.encode(sample).ids
        ids[i, :len(encoded)], mask[i, :len(encoded)] = encoded, 1
    return {'input_ids': ids, 'attention_mask': mask, 'token_type_ids': np.zeros_like(ids)}


def page(height, width, rng, lines):
    """Printed text over a photo that shines through, [height, width, 3] in 0..1; lines 1: a large line."""
    photo = crops(1, height, width, rng, ((0, 0, 0), (1, 1, 1)))[0].transpose(1, 2, 0)
    paper, several = rng.uniform(0.75, 1), lines > 1
    shine = rng.uniform(0, 0.5 if several else 0.2)
    image = Image.fromarray(((photo * shine + paper * (1 - shine)) * 255).clip(0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    for i in range(lines):
        size = int(rng.uniform(14, 34) if several else rng.uniform(26, 36))
        y = int(i * height / lines) + 4 if several else int(rng.uniform(0, height - size - 4))
        x = int(rng.uniform(4, 60 if several else 12))
        words_here, ink = text(rng, 3, 8), rng.integers(0, 90, 3)
        draw.text((x, y), words_here, fill=tuple(int(c) for c in ink), font=ImageFont.load_default(size))
    return np.asarray(image, np.float32) / 255


def pages(count, height, width, rng, lines, normalization):
    mean, std = normalization
    drawn = ((page(height, width, rng, lines) - mean) / std for _ in range(count))
    return np.stack([p.transpose(2, 0, 1).astype(np.float32) for p in drawn])


def save(folder, calibration, evaluation, kind, mask=None):
    """The data and meta.json of a model; see models.py."""
    folder.mkdir(parents=True, exist_ok=True)
    for which, arrays in (('calib', calibration), ('eval', evaluation)):
        for name, array in arrays.items():
            np.save(folder / f'{which}_{name}.npy', array)
    (folder / 'meta.json').write_text(json.dumps({'kind': kind, 'inputs': list(calibration), 'mask': mask}, indent=1))
