"""A folder of benchmark models, as make_models.py writes it:

    DIR/<model>/model.onnx           float32, static shapes, batch 1
    DIR/<model>/calib_<input>.npy    calibration samples stacked on axis 0
    DIR/<model>/eval_<input>.npy     evaluation samples, disjoint from them
    DIR/<model>/meta.json            kind, inputs, outputs, mask

Converted models and raw results are written beside them.
"""
import dataclasses
import json
import pathlib

import numpy as np

# Only these are in the geometric means; the order is that of the tables.
GROUPS = {
    'CNN and OCR': ('resnet50', 'mobilenetv2', 'ocr_det', 'ocr_rec', 'ocr_cls'),
    'transformer': ('bert_base4', 'vit_s16', 'llama_block', 'minilm_real'),
}
# Weights from a training; the SQNR of the others only ranks methods, random networks amplify noise.
TRAINED = ('ocr_det', 'ocr_rec', 'ocr_cls', 'minilm_real')


@dataclasses.dataclass(frozen=True)
class Model:
    """One model of the folder and its data."""
    name: str
    dir: pathlib.Path
    kind: str               # cnn, transformer or ocr: chooses the peers' recipes
    inputs: tuple           # names, in the model's order
    mask: str | None        # the input that says which positions of the output count, if any

    @property
    def onnx(self):
        return self.dir / 'model.onnx'

    def data(self, which):
        """Arrays of all samples by input; which is 'calib' or 'eval'."""
        return {name: np.load(self.dir / f'{which}_{name}.npy') for name in self.inputs}

    def samples(self, which):
        """One feed of batch 1 per sample."""
        arrays = self.data(which)
        count = len(next(iter(arrays.values())))
        return [{name: np.ascontiguousarray(a[i:i + 1]) for name, a in arrays.items()} for i in range(count)]


def load(folder):
    """The model in this folder."""
    folder = pathlib.Path(folder)
    meta = json.loads((folder / 'meta.json').read_text())
    return Model(folder.name, folder, meta['kind'], tuple(meta['inputs']), meta['mask'])


def find(root, only=None):
    """The models under root in the tables' order, or those named; a name that is not there is an error."""
    there = {f.parent.name for f in pathlib.Path(root).glob('*/meta.json')}
    known = [name for group in GROUPS.values() for name in group]
    names = only or [n for n in known if n in there] + sorted(there - set(known))
    if missing := [n for n in names if n not in there]:
        raise SystemExit(f'{root} has no {", ".join(missing)}; write them with bench/peers/make_models.py')
    if not names:
        raise SystemExit(f'{root} holds no models; write them with bench/peers/make_models.py --out {root}')
    return [load(pathlib.Path(root) / n) for n in names]
