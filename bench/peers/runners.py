"""What is measured: the variants, their processes, and how fold8's files come about."""
import dataclasses
import json
import os
import pathlib
import subprocess
import sys

import numpy as np

from peers import convert, mask

STALE_SECONDS = 120     # a build writes the library and the command within this time, or did not write one of them
BENCH_DIR = pathlib.Path(__file__).resolve().parent.parent


@dataclasses.dataclass(frozen=True)
class Variant:
    """A runtime with a model file."""
    name: str
    file: str                   # inside the model's folder
    is_float: bool = False
    target: str | None = None   # of fold8: its instruction set, else the best

    @property
    def is_fold8(self):
        return self.name.startswith('fold8')


BASE = Variant('ort_fp32', 'model.onnx', is_float=True)
PEERS = (BASE, *(Variant(name, file, is_float=name == 'ov_fp32') for name, file in convert.FILES.items()))
FOLD8 = (Variant('fold8_int8', 'fold8_int8.f8'), Variant('fold8_float', 'fold8_float.f8', is_float=True),
         Variant('fold8_int8_avx2', 'fold8_int8.f8', target='avx2'))


@dataclasses.dataclass(frozen=True)
class Setup:
    """Where and how processes run."""
    fold8: pathlib.Path         # the command
    library: pathlib.Path       # libfold8_runtime.so
    work: pathlib.Path          # compiled helpers go here
    core: int                   # everything measured is pinned to it
    target: str | None          # of every fold8 variant that does not name its own
    mask: str | None            # what CPU features are hidden from every measured process: a name of mask.MASKS
    worker: pathlib.Path | None = None

    @property
    def masked(self):
        return self.work / 'masked'

    def environment(self, target=None):
        env = dict(os.environ, PYTHONPATH=str(BENCH_DIR), PYTHONWARNINGS='ignore', OMP_NUM_THREADS='1')
        if target := target or self.target:
            env['FOLD8_TARGET'] = target
        if self.mask:
            env |= mask.environment(self.masked, self.mask)
            env['PYTHONPATH'] = f'{self.masked}{os.pathsep}{BENCH_DIR}'
        return env


def runtime_library(fold8):
    """libfold8_runtime near the command, in a build folder or where it was installed; it is what is measured."""
    for folder in ('.', '../runtime/api', '../lib', '../lib/x86_64-linux-gnu', '../lib64'):
        path = fold8.parent / folder / 'libfold8_runtime.so.0'
        if path.exists():
            if fold8.stat().st_mtime - path.stat().st_mtime > STALE_SECONDS:
                print(f'warning: {path} is much older than {fold8}: build fold8_runtime, too', file=sys.stderr)
            return path.resolve()
    raise SystemExit(f'no libfold8_runtime.so.0 near {fold8}: name it with --library')


def build_worker(setup):
    """The setup with model_bench_worker.c compiled against the library; again whenever one of them is newer."""
    if setup.mask:
        setup = dataclasses.replace(setup, library=mask.prepare(setup.masked, setup.library))
    source = BENCH_DIR / 'model_bench_worker.c'
    worker = (setup.masked if setup.mask else setup.work) / 'model_bench_worker'
    newest = max(source.stat().st_mtime, setup.library.stat().st_mtime)
    if not worker.exists() or worker.stat().st_mtime < newest:
        setup.work.mkdir(parents=True, exist_ok=True)
        subprocess.run(['cc', '-O2', '-std=gnu11', '-Wall', '-Wextra', '-o', worker, source, f'-I{BENCH_DIR.parent}/runtime/api',
                        setup.library, f'-Wl,-rpath,{setup.library.parent}'], check=True)
    return dataclasses.replace(setup, worker=worker)


def write_raw_inputs(model):
    """eval_<input>.raw: the evaluation samples' bytes without a header, for the C worker."""
    files = {}
    for name, array in model.data('eval').items():
        files[name] = model.dir / f'eval_{name}.raw'
        array.tofile(files[name])
    return files


def convert_fold8(model, setup):
    """fold8_int8.f8 and fold8_float.f8 with default flags, unless they are younger than the command; returns the failures."""
    calib, failed = model.dir / 'fold8_calib.npz', {}
    if not calib.exists():
        np.savez(calib, **model.data('calib'))
    for name, options in (('fold8_float', ['--float']), ('fold8_int8', ['--calib', calib, '--stacked'])):
        path = model.dir / f'{name}.f8'
        if path.exists() and path.stat().st_mtime > setup.fold8.stat().st_mtime:
            continue
        path.unlink(missing_ok=True)
        done = subprocess.run([setup.fold8, 'convert', model.onnx, '-o', path, *options], capture_output=True, text=True)
        (model.dir / f'convert_{name}.log').write_text(done.stdout + done.stderr)
        if done.returncode:
            failed[name] = f'fold8 convert: status {done.returncode}: {(done.stderr or done.stdout).strip()}'
    return failed


def inspect_fold8(model, setup):
    """What `fold8 inspect` says about the INT8 file."""
    command = [setup.fold8, 'inspect', model.dir / 'fold8_int8.f8', '--json', '-']
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


class Worker:
    """One variant's process, pinned and alive between its blocks; `info` is what it said when it had loaded and run."""

    def __init__(self, model, variant, setup, raw_inputs):
        if variant.is_fold8:
            samples = len(model.samples('eval'))
            command = [setup.worker, model.dir / variant.file, samples, *(f'{n}={f}' for n, f in raw_inputs.items())]
        else:
            command = [sys.executable, '-m', 'peers.peer_worker', model.dir, variant.file]
        self.errors = open(model.dir / f'worker_{variant.name}.log', 'w+')
        self.process = subprocess.Popen(['taskset', '-c', str(setup.core), *map(str, command)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors, text=True, env=setup.environment(variant.target))
        self.info = self.answer()

    def answer(self):
        while line := self.process.stdout.readline():
            if line.startswith('{'):    # a library may print, too
                return json.loads(line)
        self.process.wait()
        self.errors.seek(0)
        raise RuntimeError(f'the process ended with {self.process.returncode}: {self.errors.read().strip()[-400:]}')

    def ask(self, command):
        try:
            self.process.stdin.write(command + '\n')
            self.process.stdin.flush()
        except BrokenPipeError:
            pass    # answer() says how it ended
        return self.answer()

    def close(self):
        try:
            self.process.stdin.close()  # the worker's end of commands
        except BrokenPipeError:
            pass
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()
