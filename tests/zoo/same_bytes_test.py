"""Real networks give the same bytes on every target this CPU can run, with 1 to 3 threads, alone and beside other samples.

usage: same_bytes_test.py [NETWORK...] --fold8 BINARY --work DIR [--venv DIR]

NETWORK: a name of the zoo (default: all of NETWORKS), or the path of an .onnx file, e.g. one of bench/peers/make_models.py.
Inputs are random pictures, for calibration too: the values do not matter, only that all targets agree on them. The plain
reference computes one sample of each network, because it is slow. Exit status and cache as in zoo_test.py.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from fold8_command import DATA, ROOT, Checks, Fold8, skip, zoo_command_line  # noqa: E402

BATCH = 3
THREADS = (1, 2, 3)
FLOAT = ("--float",)


@dataclass(frozen=True)
class Network:
    size: tuple = (224, 224)  # for dynamic height and width
    variants: tuple = ((),)  # flags of convert beside the calibration's; with FLOAT there is none


NETWORKS = {
    "digits_cnn": Network(),
    "pplcnet_orient": Network(),
    "mobilenetv3_cls": Network((48, 192), ((), ("--streams", "u8", "--activations", "dynamic"), FLOAT)),
    "ocr_rec_v6": Network((48, 104), ((), FLOAT)),
    "ocr_det_v4": Network((96, 160), ((), ("--streams", "f32"))),
    "resnet50thin": Network(),
    "picodet_layout": Network(),
}


def locate(name, zoo):
    """The .onnx file of a name."""
    if name.endswith(".onnx"):
        return Path(name).resolve()
    if (DATA / f"{name}.onnx").exists():
        return DATA / f"{name}.onnx"
    fetch = [ROOT / "tools/zoo/fetch_zoo.sh", zoo, name]
    if subprocess.run(fetch, env={**os.environ, "PYTHON": sys.executable}, stdin=subprocess.DEVNULL).returncode != 0:
        skip(f"{name} could not be fetched into {zoo}")
    return zoo / "models" / f"{name}.onnx"


def pictures(shape, seed):
    """Something between noise and a picture: random blocks with a little noise, about -2 to 2."""
    import numpy as np

    random = np.random.RandomState(seed)
    axes = [i for i in range(1, len(shape)) if shape[i] > 16]
    coarse = random.uniform(-2, 2, [(n + 7) // 8 if i in axes else n for i, n in enumerate(shape)])
    for i in axes:
        coarse = coarse.repeat(8, axis=i).take(range(shape[i]), axis=i)
    return (coarse + random.normal(0, 0.1, shape)).astype(np.float32)


def batch_for(onnx_file, size):
    """Input name -> BATCH samples, or one if the graph says so."""
    import onnx

    graph = onnx.load(onnx_file, load_external_data=False).graph
    constants = {t.name for t in graph.initializer}
    batch = {}
    for i, value in enumerate(v for v in graph.input if v.name not in constants):
        if value.type.tensor_type.elem_type != onnx.TensorProto.FLOAT:
            sys.exit(f"{onnx_file}: input {value.name} is no float tensor; this test makes pictures only")
        dims, free = [d.dim_value for d in value.type.tensor_type.shape.dim], list(size)
        shape = [dims[0] if dims[0] > 0 else BATCH]
        for axis, n in enumerate(dims[1:], 1):
            shape.append(n if n > 0 else free[-min(len(free), len(dims) - axis)])
        batch[value.name] = pictures(shape, i)
    return batch


class Comparison:
    """Runs one .f8 file under many conditions against its first outputs."""

    def __init__(self, fold8, model, batch, work):
        self.fold8, self.model, self.batch, self.work = fold8, model, batch, work
        self.rows = len(next(iter(batch.values())))
        self.targets = fold8.targets()
        self.first = self.run(self.targets[0], 1)
        self.different = []

    def run(self, target, threads, rows=slice(None)):
        import numpy as np

        np.savez(self.work / "in.npz", **{k: v[rows] for k, v in self.batch.items()})
        return self.fold8.run(self.model, self.work / "in.npz", self.work / "out", "--threads", threads, target=target)

    def check(self, target, threads, rows=slice(None)):
        got = self.run(target, threads, rows)
        for name, wanted in self.first.items():
            if got[name].tobytes() != (wanted if self.rows == 1 else wanted[rows]).tobytes():
                self.different.append(f"{name} on {target} with {threads} threads, rows {rows}")

    def run_all(self):
        vector = [t for t in self.targets if t != "reference"]
        for i, target in enumerate(vector):
            for threads in THREADS:
                self.check(target, threads)
            if self.rows > 1:
                row = i % self.rows
                self.check(target, THREADS[i % len(THREADS)], slice(row, row + 1))
        self.check("reference", 2, slice(self.rows - 1, self.rows))
        return self.different


def test(name, network, fold8, checks, work, zoo):
    import numpy as np

    onnx_file = locate(name, zoo)
    work = work / onnx_file.stem
    work.mkdir(parents=True, exist_ok=True)
    batch = batch_for(onnx_file, network.size)
    np.savez(work / "calib.npz", **batch)
    model = work / "model.f8"
    for flags in network.variants:
        calibration = () if flags == FLOAT else ("--calib", work / "calib.npz", "--stacked", "--no-search")
        facts = fold8.facts(work / "facts.json", "convert", onnx_file, "-o", model, *calibration, *flags)
        if flags != FLOAT:
            checks.expect(len(facts["quantized_layers"]) > 0, f"{name} {flags}: {len(facts['quantized_layers'])} INT8 layers")
        comparison = Comparison(fold8, model, batch, work)
        different = comparison.run_all()
        sizes = {k: v.shape for k, v in comparison.first.items()}
        spread = min(float(np.ptp(v.astype(np.float64))) for v in comparison.first.values())
        checks.expect(spread > 0, f"{name} {flags}: outputs {sizes} are not constant")
        checks.expect(not different, f"{name} {flags}: same bytes on {', '.join(comparison.targets)} {different}")
    shutil.rmtree(work)


def main():
    a = zoo_command_line(__doc__, "networks", nargs="*", metavar="NETWORK", default=list(NETWORKS))
    checks = Checks()
    for name in a.networks:
        test(name, NETWORKS.get(name, Network()), Fold8(a.fold8), checks, (a.work / "zoo_same_bytes").resolve(), a.zoo)
    checks.finish("same_bytes")


if __name__ == "__main__":
    main()
