#!/usr/bin/env python3
"""How long the search for a model that keeps a target takes: fold8, NNCF's accuracy-aware loop, a per-node loop over onnxruntime.

usage: search_bench.py MODEL.onnx --calib FOLDER --data FOLDER --tensor NAME --target-sqnr DB --fold8 BINARY [--limit SECONDS] [--only NAME]

All judge the same calibration samples (a folder of .npz) by the SQNR of the same tensor (the logits), with one thread. Each runs in a process of its own
that is stopped after --limit CPU seconds; CPU time of the process and its children is reported, for machines that are shared. What is found is judged on
--data, which nobody saw.
- nncf: nncf.quantize_with_accuracy_control, metric 1 - |error|^2 / |float|^2, so that the allowed drop is the target
- ort: onnxruntime.quantization.quantize_static per candidate (its default QDQ form, weights per channel): each node is left float alone, nodes are
  ranked by what that gains, then left float one after the other until the target holds
"""
import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np


def load(folder):
    return [dict(np.load(p)) for p in sorted(Path(folder).glob('*.npz'))]


def db(reference, got):
    signal = sum(float((a.astype(np.float64) ** 2).sum()) for a in reference)
    error = sum(float(((a.astype(np.float64) - b) ** 2).sum()) for a, b in zip(reference, got))
    return 10 * math.log10(signal / error) if error > 0 else math.inf


def with_tensor(path, tensor, out):
    """The model with one output, the tensor that is judged."""
    import onnx
    import onnx.version_converter

    model = onnx.load(path)
    if model.opset_import[0].version < 13:  # scales per channel
        model = onnx.version_converter.convert_version(model, 13)
    model = onnx.shape_inference.infer_shapes(model)
    known = {v.name: v for v in [*model.graph.value_info, *model.graph.output]}
    del model.graph.output[:]
    model.graph.output.append(known.get(tensor) or onnx.helper.make_tensor_value_info(tensor, onnx.TensorProto.FLOAT, None))
    onnx.save(model, out)
    return out


class Ort:
    def __init__(self, path):
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = ort.InferenceSession(str(path), options, providers=['CPUExecutionProvider'])

    def __call__(self, samples):
        return [self.session.run(None, s)[0] for s in samples]


def ort_search(model, calibration, target, work):
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.samples = iter(calibration)

        def get_next(self):
            return next(self.samples, None)

    wanted = Ort(model)(calibration)
    nodes = [n.name for n in onnx.load(model).graph.node if n.op_type in ('Conv', 'MatMul', 'Gemm', 'ConvTranspose') and n.name]

    def sqnr(excluded):
        quantize_static(model, work / 'candidate.onnx', Reader(), per_channel=True, weight_type=QuantType.QInt8, activation_type=QuantType.QUInt8,
                        nodes_to_exclude=excluded)
        return db(wanted, Ort(work / 'candidate.onnx')(calibration))

    print(f'{len(nodes)} nodes', file=sys.stderr)
    whole, excluded = sqnr([]), []
    if whole < target:
        gain = {n: sqnr([n]) for n in nodes}
        for n in sorted(nodes, key=lambda n: -gain[n]):
            excluded.append(n)
            if sqnr(excluded) >= target:
                break
    return work / 'candidate.onnx', {'left_float': len(excluded), 'of': len(nodes)}


def nncf_search(model, calibration, target, work):
    import nncf
    import openvino as ov

    core = ov.Core()
    core.set_property('CPU', {'INFERENCE_NUM_THREADS': 1})
    pairs = list(zip(calibration, Ort(model)(calibration)))

    def validate(compiled, data):  # NNCF also asks for single samples, to rank operators
        error = signal = 0.0
        for sample, wanted in data:
            wanted = wanted.astype(np.float64)
            error += float(((wanted - compiled(sample)[0]) ** 2).sum())
            signal += float((wanted ** 2).sum())
        return 1 - error / signal, None

    dataset = nncf.Dataset(pairs, lambda pair: pair[0])
    quantized = nncf.quantize_with_accuracy_control(core.read_model(model), dataset, nncf.Dataset(pairs), validate, max_drop=10 ** (-target / 10),
                                                    drop_type=nncf.DropType.ABSOLUTE, subset_size=len(calibration))
    ov.save_model(quantized, work / 'nncf.xml', compress_to_fp16=False)
    return work / 'nncf.xml', {}


def run_openvino(path, samples):
    import openvino as ov

    compiled = ov.Core().compile_model(str(path), 'CPU', {'INFERENCE_NUM_THREADS': 1})
    return [compiled(s)[0] for s in samples]


def fold8_search(args, work):
    out, facts = work / 'fold8.f8', work / 'fold8.json'
    subprocess.run([args.fold8, 'convert', args.model, '-o', out, '--calib', args.calib, '--target-sqnr', str(args.target_sqnr), '--threads', '1', '--json',
                    facts], capture_output=True)
    found = json.loads(facts.read_text())
    return out, {'float_share': round(1 - found['int8_mac_share'], 3), 'met': found['search']['met'], 'candidates': len(found['search']['steps'])}


def run_fold8(args, model, samples, work):
    """The judged tensor: an output, or an inner value that is dumped."""
    got, folder = [], work / 'run'
    subprocess.run([args.fold8, 'run', model, '--input', args.data, '--output-dir', folder, '--threads', '1', '--dump', args.tensor8], check=True, capture_output=True)
    name = args.tensor8.replace('/', '_') + '.npy'
    for path in sorted(folder.rglob(name)):
        got.append(np.load(path))
    assert len(got) == len(samples), f'{len(got)} results for {len(samples)} samples'
    return got


def one(args):
    """A single search, in this process; prints its result as JSON."""
    work = Path(tempfile.mkdtemp(prefix='search_bench_'))
    model, calibration = with_tensor(args.model, args.tensor, work / 'model.onnx'), load(args.calib)
    resource.setrlimit(resource.RLIMIT_CPU, (args.limit, resource.RLIM_INFINITY))
    begin, wall = cpu_seconds(), time.monotonic()
    if args.only == 'fold8':
        found, more = fold8_search(args, work)
    else:
        found, more = (nncf_search if args.only == 'nncf' else ort_search)(str(model), calibration, args.target_sqnr, work)
    spent = {'cpu_s': round(cpu_seconds() - begin, 1), 'wall_s': round(time.monotonic() - wall, 1)}
    resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    held_out = load(args.data)
    wanted = Ort(model)(held_out)
    got = run_fold8(args, found, held_out, work) if args.only == 'fold8' else run_openvino(found, held_out) if args.only == 'nncf' else Ort(found)(held_out)
    print(json.dumps({'search': args.only, **spent, **more, 'held_out_sqnr_db': round(db(wanted, got), 2)}))


def cpu_seconds():
    return sum(u.ru_utime + u.ru_stime for u in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('model')
    parser.add_argument('--calib', required=True)
    parser.add_argument('--data', required=True)
    parser.add_argument('--tensor', required=True, help='the judged tensor, as the .onnx file names it')
    parser.add_argument('--tensor8', help='the same in the .f8 file, if folding gave it a later name')
    parser.add_argument('--target-sqnr', type=float, required=True)
    parser.add_argument('--fold8', required=True)
    parser.add_argument('--limit', type=int, default=240, help='CPU seconds of one search')
    parser.add_argument('--only', choices=('fold8', 'nncf', 'ort'))
    args = parser.parse_args()
    args.tensor8 = args.tensor8 or args.tensor
    if args.only:
        return one(args)
    for name in ('fold8', 'nncf', 'ort'):
        done = subprocess.run([sys.executable, __file__, *sys.argv[1:], '--only', name], capture_output=True, text=True)
        last = done.stdout.strip().splitlines()[-1:]
        print(last[0] if done.returncode == 0 and last else json.dumps({'search': name, 'not_finished_in_cpu_s': args.limit, 'status': done.returncode,
                                                                         'said': done.stderr.strip()[-200:]}), flush=True)


main()
