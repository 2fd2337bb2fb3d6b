"""One real network through the whole of fold8: fetch, convert with default flags, run, report, bench, and judge.

usage: zoo_test.py NETWORK --fold8 BINARY --work DIR [--venv DIR]

The zoo is cached in $FOLD8_ZOO_DIR (default WORK/zoo). Exit status: 0 passed, 1 failed, 77 skipped because the network,
its fonts or the Python packages could not be had; with FOLD8_REQUIRE_ZOO=1 that is a failure too.
Started with any Python 3, it continues in the environment that tools/setup_venv.sh makes.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from fold8_command import ROOT, Checks, Fold8, skip, zoo_command_line  # noqa: E402

CALIBRATION_SEED = 1000
CALIBRATION_SAMPLES = 32
REPORT_SAMPLES = 12  # the report walks every layer of both networks
FLOAT_TOLERANCE = 1e-4  # of the largest absolute value of an output: other summation order than onnxruntime's, no more
POINT = 0.01
MIN_MAC_SHARE = 0.95
SAME_DB = 100  # of every tensor that a float network and its smoothed form share


@dataclass(frozen=True)
class Network:
    files: tuple  # names of fetch_zoo.sh
    min_sqnr_db: float | None = None  # at the tensor that the last Softmax reads
    min_cosine: float | None = None  # mean over the sentences
    folds_all: bool = False  # no BatchNorm may be left
    smooths: bool = False  # smoothed, it is compared with the original


NETWORKS = {
    "pplcnet_orient": Network(("pplcnet_orient", "texts"), min_sqnr_db=30, folds_all=True),
    "mobilenetv3_cls": Network(("mobilenetv3_cls", "texts"), min_sqnr_db=21, folds_all=True),
    "ocr_rec_v6": Network(("ocr_rec_v6", "texts"), min_sqnr_db=23),
    "minilm_l3": Network(("minilm_l3", "tokenizer", "texts"), min_cosine=0.995, smooths=True),
}


def fetch(names, zoo):
    command = [ROOT / "tools/zoo/fetch_zoo.sh", zoo, *names]
    if subprocess.run(command, env={**os.environ, "PYTHON": sys.executable}).returncode != 0:
        skip(f"{', '.join(names)} could not be fetched into {zoo}")


def run_samples(fold8, model, samples, out, *arguments):
    shutil.rmtree(out, ignore_errors=True)
    fold8("run", model, "--input", samples, "--output-dir", out, "--threads", 1, *arguments)


def subset(samples, count, folder):
    """A folder of links to the first `count` samples."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for file in sorted(samples.glob("*.npz"))[:count]:
        (folder / file.name).symlink_to(file.resolve())
    return folder


def check_float(checks, reference, samples, got):
    """The float .f8 against onnxruntime: every output of every sample."""
    import numpy as np
    import zoo_metrics

    worst = {}
    for sample, outputs in reference.run(samples):
        for name in reference.outputs:
            a, b = zoo_metrics.load(got, sample, name), outputs[name]
            if a.shape != b.shape:
                checks.expect(False, f"float: {name} of sample {sample} has shape {a.shape}, expected {b.shape}")
                return
            a, b = a.astype(np.float64), b.astype(np.float64)
            error = float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30))
            worst[name] = max(worst.get(name, 0.0), error if np.isfinite(error) else np.inf)
    for name, error in worst.items():
        checks.expect(error <= FLOAT_TOLERANCE, f"float: max error of {name} {error:.2e} <= {FLOAT_TOLERANCE} of its maximum")


def convert(checks, fold8, network, model, calibration, work):
    """Default flags; returns (float .f8, INT8 .f8)."""
    float8, int8 = work / "float.f8", work / "int8.f8"
    fold8("convert", model, "-o", float8, "--float")
    facts = fold8.facts(work / "convert.json", "convert", model, "-o", int8, "--calib", calibration)
    checks.at_least("int8_mac_share", facts["int8_mac_share"], MIN_MAC_SHARE)
    if network.folds_all:
        checks.expect(facts["batch_norms_left"] == 0, f"batch_norms_left: {facts['batch_norms_left']} == 0")
    inspected = fold8.facts(work / "inspect.json", "inspect", int8, "--verify")
    for key in ("int8_mac_share", "batch_norms_left"):
        checks.expect(inspected[key] == facts[key], f"inspect and convert agree on {key}")
    return float8, int8


def report_and_bench(checks, fold8, float8, int8, samples, work):
    few = subset(samples, REPORT_SAMPLES, work / "few")
    report = fold8.facts(work / "report.json", "report", float8, int8, "--data", few)
    checks.at_least("report: int8_mac_share", report["int8_mac_share"], MIN_MAC_SHARE)
    checks.expect(len(report["layers"]) > 0 and len(report["outputs"]) > 0, "report: has layers and outputs")
    median = {}
    for model in (float8, int8):
        first = min(samples.glob("*.npz"))
        bench = fold8.facts(work / f"bench_{model.stem}.json", "bench", model, "--input", first, "--seconds", 1, "--threads", 1)
        median[model] = bench["latency_ms"]["median"]
    checks.expect(median[int8] > 0, f"bench: float {median[float8]:.2f} ms, INT8 {median[int8]:.2f} ms")


def smooth(checks, fold8, model, calibration, samples, work):
    """SmoothQuant leaves every float tensor what it was: by a report of the smoothed network against the original."""
    smoothed = work / "smoothed.onnx"
    fold8("fold", model, "-o", smoothed, "--smooth", 0.5, "--calib", calibration, "--max-samples", 8)
    few = subset(samples, 3, work / "few")
    for other in (smoothed, smoothed.with_suffix(".f8")):
        if other != smoothed:
            fold8("convert", smoothed, "-o", other, "--float")
        report = fold8.facts(work / "smoothed.json", "report", model, other, "--data", few)
        for key in ("own", "accumulated"):
            worst = min((layer[key]["sqnr_db"] or 999, layer["name"]) for layer in report["layers"])
            checks.at_least(f"{other.name}, {key} error of the worst of {len(report['layers'])} layers ({worst[1]})", worst[0], SAME_DB)


def judge(checks, name, network, reference, samples, labels, got, zoo):
    """Label metrics of the INT8 run within a point of onnxruntime's float ones; SQNR or cosine above the floor."""
    import zoo_metrics

    scored, logits = zoo_metrics.output_of(name), reference.logits
    sqnr, wanted, seen = zoo_metrics.Sqnr(), [], []
    for sample, outputs in reference.run(samples):
        wanted.append(outputs[scored])
        seen.append(zoo_metrics.load(got, sample, scored))
        if logits:
            sqnr.add(outputs[logits], zoo_metrics.load(got, sample, logits))
    dictionary = reference.metadata.get("character")
    before = zoo_metrics.score(name, labels, wanted, zoo, dictionary)
    after = zoo_metrics.score(name, labels, seen, zoo, dictionary)
    for metric, value in before.items():
        loss = after[metric] - value if metric == "cer" else value - after[metric]
        checks.expect(loss <= POINT + 1e-9, f"{metric}: float {value:.4f}, INT8 {after[metric]:.4f}, within a point")
    if network.min_sqnr_db is not None:
        db = float("inf") if sqnr.db is None else sqnr.db  # None: no error at all
        checks.at_least(f"SQNR of {logits} in dB", db, network.min_sqnr_db)
    if network.min_cosine is not None:
        cosine = zoo_metrics.mean_cosine(zoo_metrics.embeddings(seen), zoo_metrics.embeddings(wanted))
        checks.at_least("mean cosine of the embeddings", cosine, network.min_cosine)


def test(name, fold8, work, zoo):
    import zoo_data
    import zoo_metrics

    network = NETWORKS[name]
    fetch(network.files, zoo)
    samples, calibration = work / "eval", work / "calib"
    try:
        labels = zoo_data.write(zoo, samples, name)
        zoo_data.write(zoo, calibration, name, seed=CALIBRATION_SEED, count=CALIBRATION_SAMPLES)
    except FileNotFoundError as missing:
        skip(str(missing))

    checks, model = Checks(), zoo / "models" / f"{name}.onnx"
    logits = zoo_metrics.softmax_input(model) if network.min_sqnr_db is not None else None
    reference = zoo_metrics.OnnxRuntime(model, [logits] if logits else [])
    reference.logits = logits
    reference.outputs = [n for n in reference.names if n != logits]

    float8, int8 = convert(checks, fold8, network, model, calibration, work)
    got = work / "outputs"
    run_samples(fold8, float8, samples, got)
    check_float(checks, reference, samples, got)
    run_samples(fold8, int8, samples, got, *(["--dump", logits] if logits else []))
    judge(checks, name, network, reference, samples, labels, got, zoo)
    shutil.rmtree(got)  # hundreds of MB of class scores
    report_and_bench(checks, fold8, float8, int8, samples, work)
    if network.smooths:
        smooth(checks, fold8, model, calibration, samples, work)
    return checks


def main():
    a = zoo_command_line(__doc__, "network", choices=NETWORKS)
    work = (a.work / f"zoo_test_{a.network}").resolve()
    work.mkdir(parents=True, exist_ok=True)
    test(a.network, Fold8(a.fold8), work, a.zoo).finish(a.network)


if __name__ == "__main__":
    main()
