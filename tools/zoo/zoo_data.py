"""Samples with labels for four networks of the zoo, one .npz a sample (keys: the network's inputs).

usage: zoo_data.py ZOODIR OUTDIR NETWORK [--seed S] [--count N] [--fonts DIR]
ZOODIR is what fetch_zoo.sh made; OUTDIR gets 0000.npz, 0001.npz, ...; OUTDIR.labels.json gets one label a sample.

  pplcnet_orient   a rendered page turned by 0, 90, 180, 270 degrees (four samples a page); label: quarter turns
  mobilenetv3_cls  a rendered text line, upright and upside down (two samples a line); label: half turns
  ocr_rec_v6       a rendered text line; label: its text
  minilm_l3        a text; label: {"set": "lee"} (50 documents), then {"set": "polarity", "positive": bool} (200)

Without --seed these are the evaluation samples: the same ones on every machine with the same fonts (DejaVu and
Liberation, Debian's fonts-dejavu-core and fonts-liberation). With --seed: others, for calibration; minilm_l3 then draws
from the Lee background corpus, which the evaluation does not use.
"""

import argparse
import glob
import json
import os
import random
import shutil

import numpy as np
from PIL import Image, ImageDraw, ImageFont

EVALUATION_SEEDS = {"pplcnet_orient": 7, "mobilenetv3_cls": 5, "ocr_rec_v6": 3, "minilm_l3": 0}
EVALUATION_COUNTS = {"pplcnet_orient": 240, "mobilenetv3_cls": 200, "ocr_rec_v6": 100, "minilm_l3": 250}
MAX_TOKENS = 128


class Renderer:
    """Draws text of the Lee background corpus. `seed` None: the evaluation's pictures."""

    def __init__(self, zoo, fonts, network, seed):
        evaluation = seed is None
        self.random = random.Random(EVALUATION_SEEDS[network] if evaluation else seed)
        self.first = 0 if evaluation else 10_000 + seed  # moves both the documents and the noise
        with open(f"{zoo}/data/lee_background.cor", errors="replace") as text:
            self.documents = [line.strip() for line in text]
        found = glob.glob(f"{fonts}/**/*.ttf", recursive=True)
        found = [f for f in found if "dejavu" in f.lower() or "liberation" in f.lower()]
        self.fonts = sorted(found, key=os.path.basename)
        if not self.fonts:
            raise FileNotFoundError(
                f"no DejaVu or Liberation fonts under {fonts}; on Debian: apt-get install fonts-dejavu-core fonts-liberation"
            )

    def noisy(self, image, amplitude, i):
        noise = np.random.RandomState(i).randint(-amplitude, amplitude + 1, (image.size[1], image.size[0], 1))
        return Image.fromarray((np.asarray(image, np.int16) + noise).clip(0, 255).astype(np.uint8))

    def page(self, i):
        """A page of one document, left-aligned, on a light ground."""
        r, i = self.random, i + self.first
        width, height = r.choice([(480, 640), (600, 800), (640, 480)])
        image = Image.new("RGB", (width, height), tuple(r.randint(225, 255) for _ in range(3)))
        draw = ImageDraw.Draw(image)
        font = ImageFont.truetype(r.choice(self.fonts), r.randint(14, 24))
        color = tuple(r.randint(0, 80) for _ in range(3))
        y, line = 10, ""
        for word in [*self.documents[i % len(self.documents)].split(), None]:
            if word is not None and draw.textlength(f"{line} {word}", font=font) <= width - 20:
                line = f"{line} {word}".strip()
                continue
            if line:
                draw.text((10, y), line, font=font, fill=color)
            y += font.size + r.randint(3, 10)
            line = word
            if y > height - 30:
                break
        return self.noisy(image, 12, i)

    def line(self, i):
        """(picture, text) of two to four words of a document."""
        r = self.random
        words = r.choice(self.documents).split()
        start = r.randint(0, max(0, len(words) - 5))
        text = " ".join(words[start : start + r.randint(2, 4)])
        text = "".join(c for c in text if 32 <= ord(c) < 127)
        font = ImageFont.truetype(r.choice(self.fonts), r.randint(24, 36))
        left, top, right, bottom = font.getbbox(text)
        ground = tuple(r.randint(200, 255) for _ in range(3))
        image = Image.new("RGB", (right - left + 16, bottom - top + 12), ground)
        color = tuple(r.randint(0, 90) for _ in range(3))
        ImageDraw.Draw(image).text((8 - left, 6 - top), text, font=font, fill=color)
        return self.noisy(image, 18, i + self.first), text


def prepare_page(image):
    """[1,3,224,224]: shorter side to 256, centre crop, ImageNet mean and deviation."""
    width, height = image.size
    scale = 256 / min(width, height)
    image = image.resize((round(width * scale), round(height * scale)), Image.BILINEAR)
    left, top = (image.size[0] - 224) // 2, (image.size[1] - 224) // 2
    x = np.asarray(image.crop((left, top, left + 224, top + 224)), np.float32) / 255
    x = (x - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    return x.transpose(2, 0, 1)[None].astype(np.float32)


def prepare_line(image):
    """[1,3,48,W]: height 48, BGR, values in -1..1."""
    width, height = image.size
    resized = image.resize((max(48, int(round(48 * width / height))), 48), Image.BILINEAR)
    x = (np.asarray(resized, np.float32)[:, :, ::-1] / 255 - 0.5) / 0.5
    return np.ascontiguousarray(x.transpose(2, 0, 1)[None])


def pages(zoo, fonts, network, seed, count):
    draw = Renderer(zoo, fonts, network, seed)
    for i in range((count + 3) // 4):
        page = draw.page(i)
        for turns in range(4):
            yield {"x": prepare_page(page.rotate(90 * turns, expand=True))}, turns


def turned_lines(zoo, fonts, network, seed, count):
    draw = Renderer(zoo, fonts, network, seed)
    for i in range((count + 1) // 2):
        line, _ = draw.line(i)
        for turns in range(2):
            x = prepare_line(line.rotate(180 * turns))[..., :192]
            yield {"x": np.pad(x, ((0, 0), (0, 0), (0, 0), (0, 192 - x.shape[3])))}, turns


def lines(zoo, fonts, network, seed, count):
    draw = Renderer(zoo, fonts, network, seed)
    for i in range(count):
        line, text = draw.line(i)
        yield {"x": prepare_line(line)}, text


def texts(zoo, fonts, network, seed, count):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(f"{zoo}/models/minilm_l6_hf/tokenizer.json")
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)

    def read(name):
        with open(f"{zoo}/data/{name}", errors="replace") as file:
            return list(file)

    if seed is None:
        labelled = [(text, {"set": "lee"}) for text in read("lee.cor")]
        for row in read("pang_lee_polarity.cor"):
            label, text = row.split(" ", 1)
            labelled.append((text, {"set": "polarity", "positive": label.endswith("pos")}))
    else:
        drawn = random.Random(seed).sample(read("lee_background.cor"), count)
        labelled = [(text, {"set": "background"}) for text in drawn]
    for text, label in labelled:
        ids = np.array([tokenizer.encode(text).ids], np.int64)
        yield {"input_ids": ids, "attention_mask": np.ones_like(ids)}, label


SAMPLES = {"pplcnet_orient": pages, "mobilenetv3_cls": turned_lines, "ocr_rec_v6": lines, "minilm_l3": texts}


def write(zoo, out, network, seed=None, count=None, fonts="/usr/share/fonts"):
    """Makes the folder `out` and its labels file anew; returns the labels."""
    count = count or (EVALUATION_COUNTS[network] if seed is None else 32)
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    labels = []
    for inputs, label in SAMPLES[network](zoo, fonts, network, seed, count):
        if len(labels) == count:
            break
        np.savez(f"{out}/{len(labels):04d}.npz", **inputs)
        labels.append(label)
    with open(f"{out}.labels.json", "w") as file:
        json.dump(labels, file)
    return labels


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("zoo")
    parser.add_argument("out")
    parser.add_argument("network", choices=SAMPLES)
    parser.add_argument("--seed", type=int, help="draw other samples than the evaluation's")
    parser.add_argument("--count", type=int, help="default: all for evaluation, 32 with --seed")
    parser.add_argument("--fonts", default="/usr/share/fonts")
    a = parser.parse_args()
    print(len(write(a.zoo, a.out.rstrip("/"), a.network, a.seed, a.count, a.fonts)), "samples")


if __name__ == "__main__":
    main()
