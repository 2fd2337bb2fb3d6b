#!/usr/bin/env python3
"""fold8 INT8 and float next to onnxruntime FP32 on the zoo's networks, one thread, interleaved; prints a Markdown table.

    python bench/zoo_speed.py --fold8 build/bin/fold8 --zoo build/zoo [--rounds 9] [--target avx2] [NETWORK...]

Needs the packages of tools/setup_venv.sh. Each round times every variant for a short while, one after another, so that a
busy machine disturbs all alike; a ratio is the median over the rounds of the ratios inside a round.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime as ort

ROOT = pathlib.Path(__file__).resolve().parent.parent
NETWORKS = ('pplcnet_orient', 'mobilenetv3_cls', 'ocr_rec_v6', 'minilm_l3')


class OnnxRuntime:
    def __init__(self, model, feed):
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = ort.InferenceSession(str(model), options, providers=['CPUExecutionProvider'])
        self.feed = {i.name: feed[i.name] for i in self.session.get_inputs()}
        for _ in range(3):
            self.session.run(None, self.feed)

    def milliseconds(self, seconds):
        times, end = [], time.perf_counter() + seconds
        while time.perf_counter() < end or len(times) < 3:
            begin = time.perf_counter()
            self.session.run(None, self.feed)
            times.append((time.perf_counter() - begin) * 1e3)
        return statistics.median(times)


class Fold8:
    def __init__(self, fold8, model, sample, env):
        self.command = [fold8, 'bench', model, '--input', sample, '--threads', '1', '--json', '-', '--seconds']
        self.env = env

    def milliseconds(self, seconds):
        done = subprocess.run([*map(str, self.command), str(seconds)], capture_output=True, check=True, env=self.env)
        return json.loads(done.stdout)['latency_ms']['median']


def samples(zoo, work, network):
    """Calibration samples of one seed, an evaluation sample of another."""
    tool = [sys.executable, ROOT / 'tools/zoo/zoo_data.py', zoo]
    subprocess.run([*tool, work / 'calib', network, '--seed', '1234', '--count', '32'], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([*tool, work / 'eval', network, '--count', '4'], check=True, stdout=subprocess.DEVNULL)
    return work / 'calib', sorted((work / 'eval').glob('*.npz'))[0]


def measure(args, network, env):
    model = args.zoo / 'models' / f'{network}.onnx'
    with tempfile.TemporaryDirectory(prefix='fold8-speed-') as folder:
        work = pathlib.Path(folder)
        calib, sample = samples(args.zoo, work, network)
        convert = [args.fold8, 'convert', model, '-o']
        subprocess.run([*convert, work / 'float.f8', '--float'], check=True, capture_output=True, env=env)
        subprocess.run([*convert, work / 'int8.f8', '--calib', calib], check=True, capture_output=True, env=env)
        variants = {'ort': OnnxRuntime(model, dict(np.load(sample))), 'float': Fold8(args.fold8, work / 'float.f8', sample, env),
                    'int8': Fold8(args.fold8, work / 'int8.f8', sample, env)}
        rounds = [{name: v.milliseconds(args.seconds) for name, v in variants.items()} for _ in range(args.rounds)]
    return rounds


def ratio(rounds, a, b):
    return statistics.median(r[a] / r[b] for r in rounds)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--fold8', required=True, type=lambda s: pathlib.Path(s).resolve())
    p.add_argument('--zoo', required=True, type=pathlib.Path)
    p.add_argument('--rounds', type=int, default=9)
    p.add_argument('--seconds', type=float, default=0.3)
    p.add_argument('--target', help='instruction set of fold8 (FOLD8_TARGET); onnxruntime always uses the CPU\'s best')
    p.add_argument('networks', nargs='*', default=NETWORKS)
    args = p.parse_args()
    env = dict(os.environ, **({'FOLD8_TARGET': args.target} if args.target else {}))
    version = subprocess.run([args.fold8, '--version'], capture_output=True, text=True, check=True, env=env).stdout.splitlines()
    print(f'{version[1]}; target {args.target or "the best"}; {version[0]}; onnxruntime {ort.__version__}; {args.rounds} interleaved rounds\n')
    print('| network | onnxruntime FP32 ms | fold8 float ms | fold8 INT8 ms | INT8 / onnxruntime | INT8 / float | float / onnxruntime |')
    print('|---|---|---|---|---|---|---|')
    slower = []
    for network in args.networks:
        rounds = measure(args, network, env)
        ms = {k: statistics.median(r[k] for r in rounds) for k in rounds[0]}
        against_ort, against_float = ratio(rounds, 'int8', 'ort'), ratio(rounds, 'int8', 'float')
        print(f'| {network} | {ms["ort"]:.2f} | {ms["float"]:.2f} | {ms["int8"]:.2f} | **{against_ort:.2f}** | {against_float:.2f} | '
              f'{ratio(rounds, "float", "ort"):.2f} |', flush=True)
        if max(against_ort, against_float) >= 1:
            slower.append(network)
    if slower:
        print(f'\nINT8 is not faster on: {", ".join(slower)}', file=sys.stderr)
    return 1 if slower else 0


if __name__ == '__main__':
    sys.exit(main())
