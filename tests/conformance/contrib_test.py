"""Attention and norms of the domain com.microsoft, and their plain ONNX export, against onnxruntime on random inputs.

usage: contrib_test.py --fold8 BINARY --work DIR [--venv DIR] [--only GLOB]

Each model is run by `fold8 run` and, after `fold8 fold`, by onnxruntime again: both within 1e-4 of the largest value.
"""

import argparse
import fnmatch
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from fold8_command import Checks, Fold8, enter_venv  # noqa: E402

TOLERANCE = 1e-4
B, S, H, KV, D, P = 2, 5, 4, 2, 16, 3  # samples, tokens, heads, of them for keys, size, tokens of the past


@dataclass
class Case:
    name: str
    op: str
    inputs: list  # (name, array) in order; None: absent
    attributes: dict
    outputs: int = 1
    constants: tuple = ()  # names of inputs that are initializers
    domain: str = "com.microsoft"
    valid: dict = field(default_factory=dict)  # output -> slices that count
    stands_for: object = None  # what onnxruntime runs instead: a case without what its CPU kernels lack


def cases():
    import numpy as np

    random = np.random.RandomState(7)

    def f(*shape):
        return random.standard_normal(shape).astype(np.float32)

    def i32(*values):
        return np.array(values, np.int32)

    W = H * D
    q, k, v = ("query", f(B, S, W)), ("key", f(B, S, W)), ("value", f(B, S, W))
    long_k, long_v = ("key", f(B, 7, W)), ("value", f(B, 7, W))
    bias, mask = ("bias", f(3 * W)), ("mask", np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32))
    past_k, past_v = ("past_key", f(B, H, P, D)), ("past_value", f(B, H, P, D))
    heads = {"num_heads": H}
    mha = "MultiHeadAttention"
    yield Case("mha", mha, [q, k, v], heads)
    yield Case("mha_cross", mha, [q, long_k, long_v], heads)
    yield Case("mha_scaled", mha, [q, k, v], {**heads, "scale": 0.7})
    yield Case("mha_causal", mha, [q, k, v], {**heads, "unidirectional": 1})
    yield Case("mha_wide_values", mha, [q, k, ("value", f(B, S, H * 12))], heads)
    yield Case("mha_bias", mha, [q, k, v, bias], heads, constants=("bias",))
    yield Case("mha_bias_computed", mha, [q, k, v, bias], heads)
    def packed(*parts):
        return np.stack([x[1].reshape(B, -1, H, D) for x in parts], 3)

    yield Case("mha_packed_qkv", mha, [("query", packed(q, k, v))], heads, stands_for=Case("", mha, [q, k, v], heads))
    yield Case("mha_packed_kv", mha, [q, ("key", packed(long_k, long_v))], heads,
               stands_for=Case("", mha, [q, long_k, long_v], heads))
    yield Case("mha_keys_by_head", mha, [q, ("key", f(B, H, 7, D)), ("value", f(B, H, 7, D))], heads)
    yield Case("mha_mask", mha, [q, k, v, None, mask], heads)
    yield Case("mha_mask_filter", mha, [q, k, v, None, mask], {**heads, "mask_filter_value": -5.0})
    yield Case("mha_lengths", mha, [q, k, v, None, ("mask", i32(3, 5))], heads)
    yield Case("mha_mask_3d", mha, [q, k, v, None, ("mask", (random.rand(B, S, S) < 0.7).astype(np.int32))], heads)
    yield Case("mha_attention_bias", mha, [q, k, v, None, None, ("added", f(B, H, S, S))], heads)
    yield Case("mha_attention_bias_shared", mha, [q, k, v, None, mask, ("added", f(1, 1, S, S))], heads)
    yield Case("mha_past", mha, [q, k, v, None, None, None, past_k, past_v], heads, 3)
    yield Case("mha_past_causal", mha, [q, k, v, bias, None, None, past_k, past_v], {**heads, "unidirectional": 1}, 3)
    yield Case("mha_present", mha, [q, k, v], heads, 3)

    x, w, b = ("x", f(B, S, 16)), ("w", f(16, 3 * W) * 0.3), ("b", f(3 * W))
    const = ("w", "b")
    yield Case("attention", "Attention", [x, w, b], heads, constants=const)
    yield Case("attention_causal", "Attention", [x, w, b], {**heads, "unidirectional": 1}, constants=const)
    yield Case("attention_mask", "Attention", [x, w, b, mask], heads, constants=const)
    yield Case("attention_lengths", "Attention", [x, w, b, ("mask", i32(3, 5))], heads, constants=const)
    yield Case("attention_between", "Attention", [x, w, b, ("mask", i32(4, 5, 1, 0))], heads, constants=const)
    yield Case("attention_wide_values", "Attention", [x, ("w", f(16, 2 * W + H * 12) * 0.3), ("b", f(2 * W + H * 12))],
               {**heads, "qkv_hidden_sizes": [W, W, H * 12]}, constants=const)
    yield Case("attention_past", "Attention", [x, w, b, None, ("past", f(2, B, H, P, D))], {**heads, "unidirectional": 1}, 2,
               constants=const)
    yield Case("attention_bias", "Attention", [x, w, b, None, None, ("added", f(B, H, S, S))], heads, constants=const)

    gqa = "GroupQueryAttention"
    kv = {"num_heads": H, "kv_num_heads": KV}
    gk, gv = ("key", f(B, S, KV * D)), ("value", f(B, S, KV * D))
    angles = np.outer(np.arange(32), 0.7 ** np.arange(D // 2)).astype(np.float32)
    cos, sin = ("cos", np.cos(angles)), ("sin", np.sin(angles))
    full, total = ("seqlens", i32(S - 1, S - 1)), ("total", np.array(S, np.int32))
    prompt = [None, None, full, total]
    rotary = {**kv, "do_rotary": 1}
    yield Case("gqa", gqa, [q, gk, gv, *prompt], kv, 3)
    yield Case("gqa_packed", gqa, [("query", f(B, S, (H + 2 * KV) * D)), None, None, *prompt], kv, 3)
    yield Case("gqa_packed_rotary", gqa, [("query", f(B, S, (H + 2 * KV) * D)), None, None, *prompt, cos, sin], rotary, 3)
    yield Case("gqa_rotary", gqa, [q, gk, gv, *prompt, cos, sin], rotary, 3)
    yield Case("gqa_rotary_interleaved", gqa, [q, gk, gv, *prompt, cos, sin], {**rotary, "rotary_interleaved": 1}, 3)
    yield Case("gqa_softcap", gqa, [q, gk, gv, *prompt], {**kv, "softcap": 1.5}, 3)
    yield Case("gqa_scaled", gqa, [q, gk, gv, *prompt], {**kv, "scale": 0.2}, 3)
    yield Case("gqa_window", gqa, [q, gk, gv, *prompt], {**kv, "local_window_size": 2}, 3)
    yield Case("gqa_smooth", gqa, [q, gk, gv, *prompt], {**kv, "smooth_softmax": 1}, 3)
    yield Case("gqa_sink", gqa, [q, gk, gv, *prompt, None, None, None, None, ("sink", f(H))], kv, 3)
    # Prompts of two lengths: what stands behind a sample's last token does not count.
    yield Case("gqa_ragged", gqa, [q, gk, gv, None, None, ("seqlens", i32(2, S - 1)), total, cos, sin], rotary, 3,
               valid={0: [(0, slice(0, 3)), (1, slice(0, S))]})
    pk, pv = ("past_key", f(B, KV, P, D)), ("past_value", f(B, KV, P, D))
    next_q, next_k, next_v = ("query", f(B, 1, W)), ("key", f(B, 1, KV * D)), ("value", f(B, 1, KV * D))
    grown = [pk, pv, ("seqlens", i32(P, P)), ("total", np.array(P + 1, np.int32))]
    yield Case("gqa_next", gqa, [next_q, next_k, next_v, *grown], kv, 3)
    yield Case("gqa_next_rotary", gqa, [next_q, next_k, next_v, *grown, cos, sin], rotary, 3)
    yield Case("gqa_next_window", gqa, [next_q, next_k, next_v, *grown], {**kv, "local_window_size": 2}, 3)
    yield Case("gqa_next_sink", gqa, [next_q, next_k, next_v, *grown, None, None, None, None, ("sink", f(H))], kv, 3)
    yield Case("gqa_next_ragged", gqa, [next_q, next_k, next_v, pk, pv, ("seqlens", i32(1, P)), ("total", np.array(P + 1, np.int32)), cos, sin],
               rotary, 3, valid={1: [(0, slice(None), slice(0, 2)), (1,)], 2: [(0, slice(None), slice(0, 2)), (1,)]})
    yield Case("gqa_next_bias", gqa, [next_q, next_k, next_v, *grown, None, None, None, ("added", f(B, H, 1, P + 1))], kv, 3)
    buffer_k, buffer_v = ("past_key", f(1, KV, 16, D)), ("past_value", f(1, KV, 16, D))
    one = [("query", f(1, 2, W)), ("key", f(1, 2, KV * D)), ("value", f(1, 2, KV * D))]
    rows = [(0, slice(None), slice(0, 8))]
    yield Case("gqa_buffer", gqa, [*one, buffer_k, buffer_v, ("seqlens", i32(7)), ("total", np.array(8, np.int32)), cos, sin], rotary, 3,
               valid={1: rows, 2: rows})

    ids = ("ids", np.array([[3, 4, 5, 6, 7], [0, 1, 2, 3, 4]], np.int64))
    rope = "RotaryEmbedding"
    yield Case("rotary", rope, [q, ids, cos, sin], {})
    yield Case("rotary_heads", rope, [("x", f(B, H, S, D)), ids, cos, sin], {})
    yield Case("rotary_interleaved", rope, [q, ids, cos, sin], {"interleaved": 1})
    yield Case("rotary_from", rope, [q, ("ids", np.array([2], np.int64)), cos, sin], {})
    yield Case("rotary_partial", rope, [("x", f(B, S, H * 24)), ids, cos, sin], {"num_heads": H, "rotary_embedding_dim": D})

    n = 33
    xs, skip, gamma, beta, extra = ("x", 9 + f(B, S, n)), ("skip", f(B, S, n)), ("gamma", f(n)), ("beta", f(n)), ("bias", f(n))
    fixed = ("gamma", "beta", "bias")
    for name, op in (("layer", "SkipLayerNormalization"), ("rms", "SkipSimplifiedLayerNormalization")):
        scale = [gamma] if name == "rms" else [gamma, beta]
        yield Case(f"skip_{name}", op, [xs, skip, *scale], {"epsilon": 1e-5}, constants=fixed)
        yield Case(f"skip_{name}_bias_sum", op, [xs, skip, *scale, extra], {"epsilon": 1e-5}, 4, constants=fixed)
        yield Case(f"skip_{name}_sum", op, [xs, skip, *scale], {"epsilon": 1e-5}, 4, constants=fixed)
        yield Case(f"skip_{name}_shared", op, [xs, ("skip", f(S, n)), *scale], {"epsilon": 1e-5}, 4, constants=fixed)
    yield Case("skip_layer_no_beta", "SkipLayerNormalization", [xs, skip, gamma], {"epsilon": 1e-5}, constants=fixed)
    yield Case("skip_layer_no_beta_bias", "SkipLayerNormalization", [xs, skip, gamma, None, extra], {}, 4, constants=fixed)
    yield Case("simplified_layer", "SimplifiedLayerNormalization", [xs, gamma], {"epsilon": 1e-6, "axis": -1},
               constants=fixed, domain="")


def model_of(case):
    import onnx
    from onnx import helper, numpy_helper

    inputs, constants = [], []
    for operand in filter(None, case.inputs):
        name, array = operand
        if name in case.constants:
            constants.append(numpy_helper.from_array(array, name))
        else:
            inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape))
    # Outputs 1 and 2 of the skip norms are statistics, which onnxruntime's CPU kernels do not write.
    skips = case.op.startswith("Skip") and case.outputs == 4
    names = ["y0", "", "", "y3"] if skips else [f"y{o}" for o in range(case.outputs)]
    node = helper.make_node(case.op, [o[0] if o else "" for o in case.inputs], names, domain=case.domain, **case.attributes)
    outputs = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in names if n]
    graph = helper.make_graph([node], "m", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=8)


def feed_of(case):
    return {o[0]: o[1] for o in case.inputs if o and o[0] not in case.constants}


def difference(case, names, got, want):
    """The largest, as a share of the largest wanted value."""
    import numpy as np

    worst = 0.0
    for name, a, b in zip(names, got, want):
        if a.shape != b.shape:
            return float("inf")
        for part in case.valid.get(int(name[1:]), [()]):
            a_part, b_part = a[part].astype(np.float64), b[part].astype(np.float64)
            worst = max(worst, float(np.abs(a_part - b_part).max() / max(np.abs(b_part).max(), 1e-30)))
    return worst


def run_case(case, fold8, work, checks):
    import numpy as np
    import onnx
    import onnxruntime

    folder = work / case.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    onnx.save(model_of(case), folder / "model.onnx")
    np.savez(folder / "inputs.npz", **feed_of(case))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4

    def ort(model, feed):
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return [o.name for o in session.get_outputs()], session.run(None, feed)

    truth = case.stands_for or case
    names, want = ort(model_of(truth), feed_of(truth))
    status, text = fold8.start("run", folder / "model.onnx", "--input", folder / "inputs.npz", "--output-dir", folder / "out")
    if not checks.expect(status == 0, f"{case.name}: fold8 run" + ("" if status == 0 else f" ended with {status}: {text[-500:]}")):
        return
    got = [np.load(folder / "out" / f"{n}.npy") for n in names]
    off = difference(case, names, got, want)
    checks.expect(off <= TOLERANCE, f"{case.name}: {off:.2g} from onnxruntime")
    status, text = fold8.start("fold", folder / "model.onnx", "-o", folder / "folded.onnx")
    if not checks.expect(status == 0, f"{case.name}: fold8 fold" + ("" if status == 0 else f" ended with {status}: {text[-500:]}")):
        return
    off = difference(case, names, ort(onnx.load(folder / "folded.onnx"), feed_of(case))[1], want)
    checks.expect(off <= TOLERANCE, f"{case.name}: exported, {off:.2g} from onnxruntime")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fold8", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--venv")
    parser.add_argument("--only", default="*")
    args = parser.parse_args()
    work = Path(args.work).resolve()
    enter_venv(args.venv or work / "venv")
    fold8, checks = Fold8(args.fold8), Checks()
    for case in cases():
        if fnmatch.fnmatch(case.name, args.only):
            run_case(case, fold8, work / "contrib", checks)
    checks.finish("contrib")


if __name__ == "__main__":
    main()
