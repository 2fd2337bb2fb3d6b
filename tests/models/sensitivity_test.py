#!/usr/bin/env python3
"""`fold8 report --sensitivity` against brute force: alone and gain by one conversion per layer, on whole runs.

usage: sensitivity_test.py NETWORK --fold8 BINARY --work DIR --venv DIR       NETWORK: digits_cnn, or one of the zoo (mobilenetv3_cls)
Exit status: 0 passed, 1 failed, 77 skipped because the network or its data could not be had.
"""
import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / 'support'), str(Path(__file__).resolve().parents[2] / 'tools/zoo')]
from fold8_command import DATA, ROOT, Checks, Fold8, enter_venv, skip  # noqa: E402

SAMPLES = 8
FIRST = 5               # the ranking's first ones must be the same, in the same order
NEAR_DB = 0.05          # of the brute force, for nearly all layers
CALIBRATION_SEED = 1000
# One set of choices for all conversions: what the samples would decide differs from one to the next. Streams in f32: as u8
# a layer's neighbours round with it, and brute force would measure them together.
FIXED = ('--no-search', '--no-equalize', '--smooth', 'off', '--streams', 'f32', '--attention', 'int8', '--method', 'minmax')


def digits(work):
    import numpy as np

    for name in ('calib', 'eval'):
        np.savez(work / f'{name}.npz', image=np.load(DATA / f'digits_{name}.npz')['image'][:SAMPLES if name == 'eval' else 64])
    return DATA / 'digits_cnn.onnx', (work / 'calib.npz', '--stacked'), (work / 'eval.npz', '--stacked')


def zoo(name, work):
    import zoo_data

    folder = Path(os.environ.get('FOLD8_ZOO_DIR', work.parent / 'zoo'))
    fetch = [ROOT / 'tools/zoo/fetch_zoo.sh', folder, name, 'texts']
    if subprocess.run(fetch, env={**os.environ, 'PYTHON': sys.executable}).returncode != 0:
        skip(f'{name} could not be fetched into {folder}')
    try:
        zoo_data.write(folder, work / 'calib', name, CALIBRATION_SEED, 16)
        zoo_data.write(folder, work / 'eval', name, None, SAMPLES)
    except FileNotFoundError as e:
        skip(f'the samples could not be made: {e}')
    return folder / f'models/{name}.onnx', (work / 'calib',), (work / 'eval',)


class Brute:
    """SQNR of the worst output with some layers float."""

    def __init__(self, fold8, model, calibration, evaluation, work):
        self.fold8, self.model, self.calibration, self.evaluation, self.work = fold8, model, calibration, evaluation, work
        self.int8 = work / 'int8.f8'

    def convert(self, output, keep):
        more = ('--keep-float', *keep) if keep else ()
        status, text = self.fold8.start('convert', self.model, '-o', output, '--calib', *self.calibration, *FIXED, *more)
        if status != 0:
            raise SystemExit(f'convert failed: {text}')

    def report(self, model, *more):
        return self.fold8.facts(self.work / 'report.json', 'report', self.work / 'float.f8', model, '--data', *self.evaluation, *more)

    def sqnr(self, keep):
        self.convert(self.work / 'brute.f8', keep)
        values = [o['sqnr_db'] for o in self.report(self.work / 'brute.f8', '--outputs-only')['outputs']]
        return min((v for v in values if v is not None), default=None)


def compare(checks, what, got, brute, most_first):
    def ranking(values):
        return sorted((name for name in values if values[name] is not None), key=lambda n: -values[n] if most_first else values[n])

    for name in ranking(brute)[:FIRST + 3]:
        print(f'    {what} {name}: {got[name]:.3f} dB, brute force {brute[name]:.3f} dB')
    checks.expect(ranking(got)[:FIRST] == ranking(brute)[:FIRST], f'{what}: the first {FIRST} layers are those of brute force')
    near = [abs(got[n] - brute[n]) <= NEAR_DB for n in got if got[n] is not None and brute[n] is not None]
    checks.expect(sum(near) >= 0.9 * len(near), f'{what}: {sum(near)} of {len(near)} layers within {NEAR_DB} dB of brute force')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('network')
    parser.add_argument('--fold8', required=True)
    parser.add_argument('--work', type=Path, required=True)
    parser.add_argument('--venv', default=ROOT / 'build/venv')
    args = parser.parse_args()
    enter_venv(args.venv)
    work = args.work / f'sensitivity_{args.network}'
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    model, calibration, evaluation = digits(work) if args.network == 'digits_cnn' else zoo(args.network, work)
    checks, fold8 = Checks(), Fold8(args.fold8)
    fold8('convert', model, '-o', work / 'float.f8', '--float')
    brute = Brute(fold8, model, calibration, evaluation, work)
    brute.convert(brute.int8, ())
    report = brute.report(brute.int8, '--sensitivity')
    layers = {l['name']: l for l in report['layers'] if l['int8'] and ('conv' in l['op'] or l['op'] == 'linear')}
    checks.expect(len(layers) >= FIRST, f'{len(layers)} INT8 layers')
    for layer in layers.values():
        checks.expect('sensitivity_missing' not in layer, f'{layer["name"]}: {layer.get("sensitivity_missing", "probed")}')
    whole = min(o['sqnr_db'] for o in report['outputs'] if o['sqnr_db'] is not None)
    alone = {name: brute.sqnr([other for other in layers if other != name]) for name in layers}
    gain = {name: brute.sqnr([name]) - whole for name in layers}
    compare(checks, 'alone', {n: l['alone_db'] for n, l in layers.items()}, alone, most_first=False)
    compare(checks, 'gain', {n: l['gain_db'] for n, l in layers.items()}, gain, most_first=True)
    checks.finish(f'sensitivity of {args.network}')


main()
