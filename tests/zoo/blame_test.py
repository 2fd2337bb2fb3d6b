"""Real networks with one thing broken on purpose: the report must rank the right layer first and name the cause, and
the first fix it proposes, pasted behind the same `fold8 convert`, must restore the network.

usage: blame_test.py CASE --fold8 BINARY --work DIR [--venv DIR]

Restored: at least 90 % of the decibels between the broken and the sound network, with at most 3 more layers and 10 %
of the multiply-adds left float. The zoo is cached in $FOLD8_ZOO_DIR (default WORK/zoo). Exit status: 0 passed,
1 failed, 77 skipped because the network, its fonts or the Python packages could not be had; with FOLD8_REQUIRE_ZOO=1
that is a failure too.
"""

import copy
import shlex
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from fold8_command import Checks, Fold8, skip, zoo_command_line  # noqa: E402

CALIBRATION, EVALUATION = 16, 8  # samples
RESTORED = 0.9
CLASSIFIERS = ("pplcnet_orient", "mobilenetv3_cls")
MOST_LAYERS, MOST_MACS = 3, 0.1


class Network:
    """Samples of a zoo network, on disk as .npz and in memory."""

    def __init__(self, name, zoo, work):
        import onnx
        import zoo_metrics

        self.name, self.zoo, self.work = name, zoo, work
        self.model = onnx.load(zoo / "models" / f"{name}.onnx")
        self.logits = zoo_metrics.softmax_input(zoo / "models" / f"{name}.onnx") if name in CLASSIFIERS else None
        self.calibration = self.samples("calib", CALIBRATION, 1000)
        self.evaluation = self.samples("eval", EVALUATION, 2000)

    def samples(self, folder, count, seed):
        import numpy as np
        import zoo_data

        folder = self.work / folder
        if self.name != "picodet_layout":
            zoo_data.write(self.zoo, folder, self.name, seed=seed, count=count)
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        draw = zoo_data.Renderer(self.zoo, "/usr/share/fonts", self.name, seed)
        for i in range(count // 4):
            page = np.asarray(draw.page(i).resize((608, 800)), np.float32) / 255
            page = (page - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
            np.savez(folder / f"{i:04d}.npz", image=page.transpose(2, 0, 1)[None].astype(np.float32))
        return folder

    def range(self, tensor):
        """Smallest and largest value of a tensor on the calibration samples."""
        import numpy as np
        import onnxruntime

        model = copy.deepcopy(self.model)
        del model.graph.output[:]
        model.graph.output.add().name = tensor
        session = onnxruntime.InferenceSession(model.SerializeToString())
        values = [session.run(None, dict(np.load(f)))[0] for f in sorted(self.calibration.glob("*.npz"))]
        return min(float(v.min()) for v in values), max(float(v.max()) for v in values)


class Case:
    """What is broken, which layers may be blamed for it, and by which name."""

    network, kind = "", ""
    layers = ()  # their results, or the tensor that is rounded
    arguments = ()  # of every convert

    def models(self, network):
        """(reference, broken, sound): ONNX models. `sound` is what nothing was done to."""
        raise NotImplementedError


class ScaleTooSmall(Case):
    network, kind = "pplcnet_orient", "scale_too_small"
    tensor = "p2o.pd_op.hardswish.10.0"
    layers = (tensor, "p2o.pd_op.hardswish.11.0")

    def models(self, network):
        import breaks

        reference, broken = breaks.scale_too_small(network.model, self.tensor, *network.range(self.tensor))
        return reference, broken, network.model


class OutlierChannel(Case):
    network, kind = "minilm_l3", "outlier_channel"
    arguments = ("--smooth", "off", "--rotate", "off")  # either would mend it
    block = "/model/model.0/auto_model/encoder/layer.1/"
    layers = (f"{block}intermediate/intermediate_act_fn/Mul_1_output_0",)

    def models(self, network):
        import breaks

        norm = "0.auto_model.encoder.layer.1.attention.output.LayerNorm"
        names = {t.name[-len(norm) - 7 :]: t.name for t in network.model.graph.initializer}
        gamma, beta = names[f"{norm}.weight"], next(v for k, v in names.items() if v.endswith(f"{norm[2:]}.bias"))
        reference, broken = breaks.outlier_channel(network.model, gamma, beta, f"{self.block}output/Add", channel=100)
        return reference, broken, network.model


class MixedRanges(Case):
    network, kind = "picodet_layout", "mixed_ranges"
    arguments = ("--activations", "float")  # this detector's scores hardly survive INT8 convolutions as it is
    layers = ("detections",)

    def models(self, network):
        import breaks

        network.model = breaks.mixed_head(network.model, "transpose_7.tmp_0", "transpose_6.tmp_0")
        reference, broken = breaks.pair_with_range(network.model, "detections", *network.range("detections"))
        return reference, broken, network.model


class DeadChannel(Case):
    network, kind = "mobilenetv3_cls", "dead_channel"
    arguments = ("--smooth", "off")
    layers = ("relu_4.tmp_0", "batch_norm_6.tmp_2")

    def models(self, network):
        import breaks

        names = ("conv3_depthwise_bn_scale", "conv3_depthwise_bn_offset", "conv3_linear_weights")
        reference, broken = breaks.dead_channel(breaks.with_initializers(network.model, names), *names, channel=5)
        return reference, broken, network.model


class SaturatingGelu(Case):
    network, kind = "minilm_l3", "clipped"
    block = "/model/model.0/auto_model/encoder/layer.1/"
    tensor = f"{block}intermediate/intermediate_act_fn/Mul_1_output_0"
    layers = (tensor, f"{block}output/Add_output_0", f"{block}output/dense/Add_output_0")

    def models(self, network):
        import breaks

        reference, broken = breaks.saturating(network.model, self.tensor, *network.range(self.tensor))
        return reference, broken, network.model


class WrongPreprocessing(Case):
    """Pictures in 0..1, where the network wants ImageNet's mean and deviation taken out."""

    network, kind = "pplcnet_orient", "wrong_preprocessing"
    layers = ("x", "p2o.pd_op.hardswish.0.0")


CASES = {
    "scale_too_small": ScaleTooSmall,
    "outlier_channel": OutlierChannel,
    "mixed_ranges": MixedRanges,
    "dead_channel": DeadChannel,
    "saturating_gelu": SaturatingGelu,
    "wrong_preprocessing": WrongPreprocessing,
}


def worst_db(report, logits):
    """Of the outputs; of the logits where a Softmax, which saturates, gives the output."""
    values = [l["accumulated"]["sqnr_db"] for l in report["layers"] if l["name"] == logits]
    values = values or [o["sqnr_db"] for o in report["outputs"]]
    return min((v for v in values if v is not None), default=100.0)


def check_advice(checks, report, case):
    """The first fix, or None."""
    if not checks.expect(bool(report["what_to_do"]), "the report has something to say"):
        return None
    first = report["what_to_do"][0]
    named = [first["layer"], first["tensor"], *first["also"]]
    checks.expect(first["layer"] in case.layers or first["tensor"] in case.layers, f"blames one of {case.layers}: {named[:3]}")
    checks.expect(first["cause_kind"] == case.kind, f"cause {first['cause_kind']}, {case.kind} expected: {first['cause']}")
    layer = next((l for l in report["layers"] if l["name"] == first["layer"]), None)
    if layer:
        checks.expect(layer["cause"] == first["cause"] and layer["fixes"] == first["fixes"], "layers[] says the same")
    if not checks.expect(bool(first["fixes"]), "there is a fix"):
        return None
    print(f"    {first['cause']}\n    try {first['fixes'][0]['flag']}: {first['fixes'][0]['text']}")
    return first["fixes"][0]["flag"]


def check_restored(checks, sound, broken, fixed):
    lost = sound - broken
    checks.expect(lost >= 3, f"sound {sound:.1f} dB, broken {broken:.1f} dB: something was lost")
    checks.expect(fixed >= broken + RESTORED * lost, f"fixed {fixed:.1f} dB: at least {RESTORED:.0%} of the {lost:.1f} dB lost")


def check_cost(checks, before, after):
    more = len(after["float_layers"]) - len(before["float_layers"])
    checks.expect(more <= MOST_LAYERS, f"{more} more float layers <= {MOST_LAYERS}")
    macs = before["int8_mac_share"] - after["int8_mac_share"]
    checks.expect(macs <= MOST_MACS, f"{macs:.1%} of the multiply-adds left float <= {MOST_MACS:.0%}")


def test_case(checks, fold8, case, network, work):
    import onnx

    models = dict(zip(("reference", "broken", "sound"), case.models(network)))
    for name, model in models.items():
        onnx.save(model, work / f"{name}.onnx")

    def converted(name, out, *more):
        arguments = ["--calib", network.calibration, *case.arguments, *more]
        return fold8.facts(work / f"{out}.json", "convert", work / f"{name}.onnx", "-o", work / f"{out}.f8", *arguments)

    def reported(reference, other):
        return fold8.facts(work / "report.json", "report", work / reference, work / other, "--data", network.evaluation)

    converted("sound", "sound")
    before = converted("broken", "broken")
    report = reported("reference.onnx", "broken.f8")
    flag = check_advice(checks, report, case)
    if flag is None:
        return
    after = converted("broken", "fixed", *shlex.split(flag))
    fixed = reported("reference.onnx", "fixed.f8")
    sound = reported("sound.onnx", "sound.f8")
    check_restored(checks, *(worst_db(r, network.logits) for r in (sound, report, fixed)))
    check_cost(checks, before, after)
    # A compiled float reference says the same.
    fold8("convert", work / "reference.onnx", "-o", work / "reference.f8", "--float")
    again = reported("reference.f8", "broken.f8")["what_to_do"]
    checks.expect(bool(again) and again[0]["layer"] == report["what_to_do"][0]["layer"], "with a .f8 as reference too")


def test_preprocessing(checks, fold8, case, network, work):
    """The truth is the network on pictures prepared as it wants them; everything else sees raw ones."""
    import numpy as np
    import onnx
    import zoo_metrics

    model = work / "sound.onnx"
    onnx.save(network.model, model)
    mean, std = ([np.array(v, np.float32)[:, None, None] for v in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
    raw = {}
    for folder in (network.calibration, network.evaluation):
        raw[folder] = work / f"{folder.name}_raw"
        shutil.rmtree(raw[folder], ignore_errors=True)
        raw[folder].mkdir()
        for file in folder.glob("*.npz"):
            np.savez(raw[folder] / file.name, x=(np.load(file)["x"] * std + mean).astype(np.float32))
    reference = zoo_metrics.OnnxRuntime(model, [])
    truth = [outputs for _, outputs in reference.run(network.evaluation)]

    def db(f8, data):
        sqnr = zoo_metrics.Sqnr()
        for wanted, file in zip(truth, sorted(data.glob("*.npz"))):
            got = fold8.run(f8, file, work / "out")
            for name in reference.names:
                sqnr.add(wanted[name], got[name])
        return sqnr.db

    def converted(out, data, *more):
        return fold8.facts(work / f"{out}.json", "convert", model, "-o", work / f"{out}.f8", "--calib", data, *more)

    converted("sound", network.calibration)
    before = converted("broken", raw[network.calibration])
    report = fold8.facts(work / "report.json", "report", model, work / "broken.f8", "--data", raw[network.evaluation])
    flag = check_advice(checks, report, case)
    if flag is None:
        return
    after = converted("fixed", raw[network.calibration], *shlex.split(flag))
    check_restored(checks, db(work / "sound.f8", network.evaluation), db(work / "broken.f8", raw[network.evaluation]),
                   db(work / "fixed.f8", raw[network.evaluation]))
    check_cost(checks, before, after)


def main():
    a = zoo_command_line(__doc__, "case", choices=CASES)
    work = (a.work / f"blame_{a.case}").resolve()
    work.mkdir(parents=True, exist_ok=True)
    case, checks, fold8 = CASES[a.case](), Checks(), Fold8(a.fold8)
    from zoo_test import fetch

    fetch((case.network, "texts", *(["tokenizer"] if case.network == "minilm_l3" else [])), a.zoo)
    try:
        network = Network(case.network, a.zoo, work)
    except FileNotFoundError as missing:
        skip(str(missing))
    test = test_preprocessing if isinstance(case, WrongPreprocessing) else test_case
    test(checks, fold8, case, network, work)
    checks.finish(a.case)


if __name__ == "__main__":
    main()
