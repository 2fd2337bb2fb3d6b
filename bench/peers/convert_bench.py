#!/usr/bin/env python3
"""What conversion costs: fold8 beside onnxruntime's quantize_static (MinMax) and NNCF, on the same 32 samples.

    build/peers/bin/python bench/peers/convert_bench.py --fold8 build/release/bin/fold8 --models build/bench_models [--only resnet50] [--rounds 3]

CPU time (user and system, all threads) and peak resident memory. fold8 is timed from start to exit, one thread, one pass
(--smooth off --no-search), and with the default flags. Of the peers only the call itself counts, after imports and, for
onnxruntime, after quant_pre_process; their threads are left at one too. Rounds are interleaved, the least time counts.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from peers import convert, models  # noqa: E402

MODELS = ('mobilenetv2', 'resnet50', 'bert_base4')
FOLD8 = {'fold8, one pass': ['--smooth', 'off', '--no-search'], 'fold8, default': []}
PEERS = ('quantize_static', 'nncf.quantize')


def peer(folder, name):
    """In a process of its own: prints seconds of CPU time."""
    model = models.load(folder)
    with tempfile.TemporaryDirectory() as work:
        target = pathlib.Path(work) / 'out.onnx'
        if name == 'quantize_static':
            source = pathlib.Path(work) / 'prepared.onnx'
            convert.prepared_for_ort(model, source)
            begin = time.process_time()
            convert.ort_static(model, source, target)
        else:
            import nncf  # noqa: F401
            import openvino as ov
            ov.Core().set_property('CPU', {'INFERENCE_NUM_THREADS': 1})
            begin = time.process_time()
            convert.quantized_by_nncf(model, 'ov_int8', target)
        print(json.dumps({'cpu': time.process_time() - begin}))


def run(command):
    """CPU seconds and peak bytes of one process, and what it printed last."""
    code = ('import json,resource,subprocess,sys;r=subprocess.run(sys.argv[1:],stdout=subprocess.PIPE,stderr=subprocess.PIPE,text=True);'
            'u=resource.getrusage(resource.RUSAGE_CHILDREN);'
            'print(json.dumps([r.returncode,u.ru_utime+u.ru_stime,u.ru_maxrss*1024,r.stdout[-400:],r.stderr[-400:]]))')
    env = dict(os.environ, OMP_NUM_THREADS='1', PYTHONWARNINGS='ignore')
    done = subprocess.run(['taskset', '-c', str(max(os.sched_getaffinity(0))), sys.executable, '-c', code, *map(str, command)],
                          capture_output=True, text=True, check=True, env=env)
    status, cpu, peak, out, err = json.loads(done.stdout)
    if status:
        sys.exit(f'{command}: status {status}: {err}')
    return cpu, peak, out


def measure(args, model, what, work):
    folder = args.models / model
    if what in FOLD8:
        data = ['--calib', work / 'calib.npz', '--stacked']
        cpu, peak, _ = run([args.fold8, 'convert', folder / 'model.onnx', '-o', work / 'm.f8', *data, '--threads', 1, *FOLD8[what]])
        return cpu, peak
    _, peak, text = run([sys.executable, __file__, '--peer', what, '--models', folder, '--fold8', args.fold8])
    return json.loads(text.strip().splitlines()[-1])['cpu'], peak


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--fold8', type=pathlib.Path, required=True)
    p.add_argument('--models', type=pathlib.Path, required=True)
    p.add_argument('--only', default=','.join(MODELS))
    p.add_argument('--rounds', type=int, default=3)
    p.add_argument('--skip', default='', help='variants left out, by name, with commas')
    p.add_argument('--peer', help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.peer:
        return peer(args.models, args.peer)
    variants = [v for v in (*FOLD8, *PEERS) if v not in args.skip.split(',')]
    print('| model | file MB | ' + ' | '.join(f'{v}: CPU s, peak MB' for v in variants) + ' |\n|' + '---|' * (len(variants) + 2))
    for model in args.only.split(','):
        best = {}
        with tempfile.TemporaryDirectory() as folder:
            work = pathlib.Path(folder)
            np.savez(work / 'calib.npz', **models.load(args.models / model).data('calib'))
            for _ in range(args.rounds):
                for v in variants:
                    cpu, peak = measure(args, model, v, work)
                    best[v] = min(best.get(v, (cpu, peak)), (cpu, peak))
        size = (args.models / model / 'model.onnx').stat().st_size / 1e6
        print(f'| {model} | {size:.0f} | ' + ' | '.join(f'{best[v][0]:.2f}, {best[v][1] / 1e6:.0f}' for v in variants) + ' |', flush=True)


if __name__ == '__main__':
    sys.exit(main())
