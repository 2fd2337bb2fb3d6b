"""Runs a zoo network on a folder of .npz samples and scores the outputs against labels or against another run.

usage: zoo_metrics.py run MODEL.onnx SAMPLES OUTDIR [--tensor NAME]     with onnxruntime, the reference
       zoo_metrics.py run MODEL SAMPLES OUTDIR --command TEMPLATE       with anything else, see CommandRunner
       zoo_metrics.py score NETWORK MODEL.onnx LABELS.json OUTDIR       label metrics as JSON
       zoo_metrics.py sqnr REFERENCE_OUTDIR OUTDIR TENSOR               SQNR of one tensor over all samples, in dB

A run leaves OUTDIR/SAMPLE/TENSOR.npy, `/` in a tensor's name written as `_`.
"""

import argparse
import glob
import itertools
import json
import os
import shlex
import subprocess

import numpy as np

FOLD8 = "fold8 run {model} --input {samples} --output-dir {out} {dumps}"


def file_name(tensor):
    return tensor.replace("/", "_") + ".npy"


def sample_names(samples):
    return sorted(os.path.basename(p)[: -len(".npz")] for p in glob.glob(f"{samples}/*.npz"))


def load(out, sample, tensor):
    return np.load(f"{out}/{sample}/{file_name(tensor)}")


class OnnxRuntime:
    """The reference runner: one thread, outputs and the extra `tensors` of an ONNX file."""

    def __init__(self, model, tensors=()):
        import onnx
        import onnxruntime

        proto = onnx.load(model)
        known = {o.name for o in proto.graph.output}
        proto.graph.output.extend(onnx.ValueInfoProto(name=t) for t in tensors if t not in known)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(
            proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self.names = [o.name for o in self.session.get_outputs()]
        self.metadata = {p.key: p.value for p in proto.metadata_props}

    def run(self, samples):
        """Yields (sample, {tensor: array}) in order."""
        for sample in sample_names(samples):
            with np.load(f"{samples}/{sample}.npz") as inputs:
                yield sample, dict(zip(self.names, self.session.run(None, dict(inputs))))

    def write(self, samples, out):
        for sample, outputs in self.run(samples):
            os.makedirs(f"{out}/{sample}", exist_ok=True)
            for tensor, array in outputs.items():
                np.save(f"{out}/{sample}/{file_name(tensor)}", array)


class CommandRunner:
    """A runtime behind a command line that runs all samples of a folder in one process.

    `template` may hold {model}, {samples}, {out} and {dumps}; the last becomes `--dump NAME` per extra tensor.
    """

    def __init__(self, template=FOLD8):
        self.template = template

    def write(self, model, samples, out, tensors=()):
        dumps = " ".join(f"--dump {shlex.quote(t)}" for t in tensors)
        quoted = {"model": model, "samples": samples, "out": out}
        command = self.template.format(dumps=dumps, **{k: shlex.quote(v) for k, v in quoted.items()})
        os.makedirs(out, exist_ok=True)
        subprocess.run(shlex.split(command), check=True)


def read_run(out, samples, tensors):
    """Yields (sample, {tensor: array}) of what a runner wrote, one sample in memory at a time."""
    for sample in sample_names(samples):
        yield sample, {t: load(out, sample, t) for t in tensors}


# ---- what the networks give


def output_of(network):
    """The tensor that the label metrics read."""
    return {
        "pplcnet_orient": "fetch_name_0",
        "mobilenetv3_cls": "save_infer_model/scale_0.tmp_1",
        "ocr_rec_v6": "fetch_name_0",
        "minilm_l3": "onnx::Shape_422",
    }[network]


def softmax_input(model):
    """The tensor that the last Softmax of an ONNX file reads: the logits where the outputs are probabilities. Behind an
    Identity it is the operator's own output: other names of the same tensor do not survive conversion."""
    import onnx

    nodes = onnx.load(model, load_external_data=False).graph.node
    renamed = {n.output[0]: n.input[0] for n in nodes if n.op_type == "Identity"}
    name = [n for n in nodes if n.op_type == "Softmax"][-1].input[0]
    while name in renamed:
        name = renamed[name]
    return name


# ---- label metrics; `outputs` iterates over arrays in the order of `labels`


def orientation(labels, outputs):
    """Accuracy of the four page orientations. The order of the network's classes is its own: the best one counts."""
    got = [int(o.argmax()) for o in outputs]
    hits = max(sum(order[k] == g for k, g in zip(labels, got)) for order in itertools.permutations(range(4)))
    return {"accuracy": hits / len(labels)}


def line_orientation(labels, outputs):
    return {"accuracy": sum(int(o.argmax()) == k for k, o in zip(labels, outputs)) / len(labels)}


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a):
        below = [i + 1]
        for j, y in enumerate(b):
            below.append(min(row[j + 1] + 1, below[j] + 1, row[j] + (x != y)))
        row = below
    return row[-1]


def recognition(labels, outputs, dictionary):
    """Character error rate and share of lines read exactly (blanks aside) after greedy CTC decoding."""
    characters = ["", *dictionary.split("\n"), " "]
    errors = exact = 0
    for text, output in zip(labels, outputs):
        best = output[0].argmax(1)
        kept = [k for k, before in zip(best, [0, *best]) if k != before and k != 0]
        read = "".join(characters[k] if k < len(characters) else " " for k in kept)
        errors += edit_distance(read, text)
        exact += read.replace(" ", "") == text.replace(" ", "")
    return {"cer": errors / sum(map(len, labels)), "exact_lines": exact / len(labels)}


def embeddings(outputs):
    """Unit vectors: the mean over the tokens of each [1, tokens, width] array."""
    means = np.array([o[0].mean(0) for o in outputs])
    return means / np.linalg.norm(means, axis=1, keepdims=True)


def sentences(labels, vectors, zoo):
    """Pearson correlation with people's similarity of Lee's documents; 10-fold accuracy of a linear polarity model."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score

    lee = vectors[[label["set"] == "lee" for label in labels]]
    people = np.loadtxt(f"{zoo}/data/similarities0-1.txt")
    n = min(len(lee), len(people))
    pairs = np.triu_indices(n, 1)
    pearson = np.corrcoef((lee @ lee.T)[:n, :n][pairs], people[:n, :n][pairs])[0, 1]
    polarity = [label["set"] == "polarity" for label in labels]
    positive = np.array([label["positive"] for label in labels if label["set"] == "polarity"])
    folds = StratifiedKFold(10, shuffle=True, random_state=0)
    model = LogisticRegression(C=10, max_iter=500)
    accuracy = cross_val_score(model, vectors[polarity], positive, cv=folds).mean()
    return {"lee_pearson": float(pearson), "polarity_accuracy": float(accuracy)}


def mean_cosine(vectors, reference):
    return float((vectors * reference).sum(1).mean())


def score(network, labels, outputs, zoo, dictionary=None):
    """The label metrics of `network`; all are shares or correlations, so one point is 0.01."""
    if network == "pplcnet_orient":
        return orientation(labels, outputs)
    if network == "mobilenetv3_cls":
        return line_orientation(labels, outputs)
    if network == "ocr_rec_v6":
        return recognition(labels, outputs, dictionary)
    return sentences(labels, embeddings(outputs), zoo)


# ---- against another run


class Sqnr:
    """10 log10(sum ref^2 / sum (ref-got)^2) over all elements of all samples, in double; None where there is no error."""

    def __init__(self):
        self.signal = self.noise = 0.0

    def add(self, reference, got):
        reference, got = np.asarray(reference, np.float64), np.asarray(got, np.float64)
        if reference.shape != got.shape:
            raise ValueError(f"shapes differ: reference {reference.shape}, got {got.shape}")
        self.signal += float((reference**2).sum())
        self.noise += float(((reference - got) ** 2).sum())

    @property
    def db(self):
        if self.noise == 0:
            return None
        return 10 * np.log10(self.signal / self.noise) if self.signal else -np.inf


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    run = commands.add_parser("run")
    for name in ("model", "samples", "out"):
        run.add_argument(name)
    run.add_argument("--tensor", action="append", default=[])
    run.add_argument("--command")
    mark = commands.add_parser("score")
    for name in ("network", "model", "labels", "out"):
        mark.add_argument(name)
    mark.add_argument("--zoo", default=".", help="folder of fetch_zoo.sh (minilm_l3 reads the human similarities)")
    ratio = commands.add_parser("sqnr")
    for name in ("reference", "out", "tensor"):
        ratio.add_argument(name)
    a = parser.parse_args()

    if a.what == "run" and a.command:
        CommandRunner(a.command).write(a.model, a.samples, a.out, a.tensor)
    elif a.what == "run":
        OnnxRuntime(a.model, a.tensor).write(a.samples, a.out)
    elif a.what == "score":
        with open(a.labels) as file:
            labels = json.load(file)
        outputs = (load(a.out, f"{i:04d}", output_of(a.network)) for i in range(len(labels)))
        dictionary = OnnxRuntime(a.model).metadata.get("character")
        print(json.dumps(score(a.network, labels, outputs, a.zoo, dictionary)))
    else:
        sqnr = Sqnr()
        for sample in sorted(os.listdir(a.reference)):
            sqnr.add(load(a.reference, sample, a.tensor), load(a.out, sample, a.tensor))
        print(sqnr.db)


if __name__ == "__main__":
    main()
