"""The node tests of the installed ONNX package, through `fold8 run`: results within ONNX's own tolerance.

usage: onnx_nodes_test.py --fold8 BINARY --work DIR [--venv DIR] [--only GLOB] [FAMILY...]

FAMILY: a module of onnx.backend.test.case.node (default: FAMILIES). Every test of a family counts, the functions ONNX
expands operators into too. What fold8 does not take must end with status 4 and a reason, and be in REFUSED.
"""

import argparse
import fnmatch
import importlib
import shutil
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from fold8_command import Checks, Fold8, enter_venv  # noqa: E402

FAMILIES = ("attention", "rotaryembedding", "layernormalization", "rmsnormalization", "groupnormalization",
            "instance_normalization", "batch_normalization")
REFUSED = ()  # globs
# Where f16 or bf16 numbers are rounded at other places than the expected ones were.
STEPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}


def node_tests(families):
    warnings.simplefilter("ignore")
    from onnx.backend.test.case import node

    for family in families:
        importlib.import_module(f"onnx.backend.test.case.node.{family}")
    return node._NodeTestCases


def through_f32(model):
    """The same model with f32 in place of bf16 inputs and outputs, which .npy files do not know."""
    import onnx
    from onnx import TensorProto, helper

    model = onnx.ModelProto.FromString(model.SerializeToString())
    graph, front, back = model.graph, [], []
    inner = {v.name for v in [*graph.input, *graph.output] if v.type.tensor_type.elem_type == TensorProto.BFLOAT16}
    for n in graph.node:
        for names in (n.input, n.output):
            for i, name in enumerate(names):
                if name in inner:
                    names[i] = name + "_bf16"
    for v in [*graph.input, *graph.output]:
        if v.name in inner:
            v.type.tensor_type.elem_type = TensorProto.FLOAT
    for v in graph.input:
        if v.name in inner:
            front.append(helper.make_node("Cast", [v.name], [v.name + "_bf16"], to=TensorProto.BFLOAT16))
    for v in graph.output:
        if v.name in inner:
            back.append(helper.make_node("Cast", [v.name + "_bf16"], [v.name], to=TensorProto.FLOAT))
    nodes = [*front, *graph.node, *back]
    del graph.node[:]
    graph.node.extend(nodes)
    return model


def as_numpy(values):
    import numpy as np
    from onnx import numpy_helper

    arrays = [numpy_helper.to_array(v) if hasattr(v, "raw_data") else np.asarray(v) for v in values]
    return [(a.astype(np.float32) if a.dtype.name == "bfloat16" else a, a.dtype.name) for a in arrays]


def close(got, want, dtype, case):
    import numpy as np

    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
    if want.dtype.kind not in "f":
        return "" if np.array_equal(got, want) else "other values"
    step = STEPS.get(dtype, 0)
    a, b = got.astype(np.float64), want.astype(np.float64)
    ok = np.isclose(a, b, rtol=max(case.rtol, step), atol=max(case.atol, step * float(np.nanmax(np.abs(b), initial=0))),
                    equal_nan=True)
    return "" if ok.all() else f"off by {np.nanmax(np.abs(a - b)):.3g} at {int((~ok).sum())} of {ok.size}"


def run_case(fold8, case, work):
    """('ok' | 'refused' | 'wrong', why)"""
    import numpy as np
    import onnx

    folder = work / case.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    onnx.save(through_f32(case.model), folder / "model.onnx")
    inputs, outputs = case.data_sets[0]
    np.savez(folder / "inputs.npz", **{v.name: a for v, (a, _) in zip(case.model.graph.input, as_numpy(inputs))})
    status, text = fold8.start("run", folder / "model.onnx", "--input", folder / "inputs.npz", "--output-dir", folder / "out")
    if status == 4:
        return "refused", text.strip()
    if status != 0:
        return "wrong", f"ended with {status}: {text.strip()[-300:]}"
    for v, (want, dtype) in zip(case.model.graph.output, as_numpy(outputs)):
        why = close(np.load(folder / "out" / f"{v.name.replace('/', '_')}.npy"), want, dtype, case)
        if why:
            return "wrong", f"{v.name}: {why}"
    return "ok", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", metavar="FAMILY")
    parser.add_argument("--fold8", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--venv")
    parser.add_argument("--only", default="*")
    args = parser.parse_args()
    work = Path(args.work).resolve()
    enter_venv(args.venv or work / "venv")
    fold8, checks = Fold8(args.fold8), Checks()
    cases = [c for c in node_tests(args.families or FAMILIES) if fnmatch.fnmatch(c.name, args.only)]
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda c: run_case(fold8, c, work / "onnx_nodes"), cases))
    counts = {"ok": 0, "refused": 0, "wrong": 0}
    for case, (verdict, why) in zip(cases, results):
        counts[verdict] += 1
        listed = any(fnmatch.fnmatch(case.name, g) for g in REFUSED)
        if verdict == "wrong" or (verdict == "refused") != listed:
            checks.expect(False, f"{case.name}: {verdict} {why}")
    checks.expect(counts["ok"] > 0, ", ".join(f"{n} {verdict}" for verdict, n in counts.items()))
    checks.finish("onnx_nodes")


if __name__ == "__main__":
    main()
