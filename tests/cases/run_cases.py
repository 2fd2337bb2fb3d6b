#!/usr/bin/env python3
"""Run the trial cases (make_cases.py) through the fold8 command and judge the answers.

    python run_cases.py --fold8 build/bin/fold8 --cases build/cases [--only 'bn_*'] [--targets avx2,reference] [--verbose]

Writes the cases if the folder is empty. Runs every kind; the exit status counts only the kinds named in required_kinds.txt.
A case passes when every check of README.md holds: messages and statuses, numbers within the tolerance, the same bytes for
every target and for 1, 2 and 4 threads, float within float_tolerance, BatchNorms left, share of INT8 multiply-adds.
"""
import argparse
import collections
import concurrent.futures
import fnmatch
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
THREADS = (1, 2, 4)
ERROR_SECONDS, ERROR_BYTES = 1.0, 64 << 20       # what a refused model may cost at most


def words(path):
    """The names of a list file: one a line, '#' begins a comment."""
    lines = [line.split('#')[0].strip() for line in path.read_text().splitlines()]
    return [line for line in lines if line]


def reasons(path):
    """`name: reason` lines of a reviewed list."""
    return dict(map(str.strip, line.split(':', 1)) for line in words(path))


class Failure(Exception):
    pass


def require(condition, message):
    if not condition:
        raise Failure(message)


class Runner:
    def __init__(self, fold8, targets, mac_exceptions):
        self.fold8, self.targets, self.mac_exceptions = fold8, targets, mac_exceptions

    def command(self, *args, target=None, limit=120):
        env = dict(os.environ)
        env.pop('FOLD8_TARGET', None)
        if target:
            env['FOLD8_TARGET'] = target
        begin = time.monotonic()
        try:
            done = subprocess.run([self.fold8, *map(str, args)], capture_output=True, env=env, timeout=limit)
        except subprocess.TimeoutExpired:
            raise Failure(f'{args[0]}: no answer within {limit} s')
        return done.returncode, (done.stdout + done.stderr).decode(errors='replace'), time.monotonic() - begin

    def convert(self, folder, meta, out, *extra):
        calib = folder / 'calib'
        data = calib if calib.is_dir() else folder / 'inputs.npz'
        return self.command('convert', folder / 'model.onnx', '-o', out, '--calib', data, *meta['convert_args'], *extra)

    def check(self, folder, work):
        meta = json.loads((folder / 'case.json').read_text())
        out = work / 'm.f8'
        status, text, seconds = self.convert(folder, meta, out, '--json', work / 'convert.json')
        if meta['expect'] == 'error':
            return self.check_error(meta, status, text, seconds, out)
        require(status == 0, f'convert ended with {status}: {text.strip()[-400:]}')
        if meta['expect'] == 'warning':
            self.check_words(meta, text)
        self.check_answers(folder, meta, out, work)
        if meta['float_tolerance'] is not None:
            self.check_float(folder, meta, work)
        self.check_facts(meta, out, work)
        for what in meta['checks']:
            self.check_special(what, folder, meta, out, work)

    def check_words(self, meta, text):
        lower = text.lower()
        for needed in meta['error_contains']:
            require(needed.lower() in lower, f'the message lacks {needed!r}: {text.strip()[-300:]}')
        for any_of in meta['error_any']:
            require(any(w.lower() in lower for w in any_of), f'the message has none of {any_of}: {text.strip()[-300:]}')

    def check_error(self, meta, status, text, seconds, out):
        require(status in meta['exit_status'], f'status {status}, expected one of {meta["exit_status"]}: {text.strip()[-300:]}')
        self.check_words(meta, text)
        require(not list(out.parent.glob('m.f8*')), 'a file was left behind')
        require(seconds <= 10 * ERROR_SECONDS, f'took {seconds:.1f} s')    # wall time on a busy machine

    def run_model(self, model, inputs, out, target=None, threads=1):
        shutil.rmtree(out, ignore_errors=True)
        status, text, _ = self.command('run', model, '--input', inputs, '--output-dir', out, '--threads', threads, target=target)
        require(status == 0, f'run ({target}, {threads} threads) ended with {status}: {text.strip()[-300:]}')
        return {p.stem: np.load(p) for p in out.glob('*.npy')}

    def check_answers(self, folder, meta, model, work):
        expected = dict(np.load(folder / 'expected.npz'))
        first = None
        for target in self.targets:
            for threads in THREADS:
                got = self.run_model(model, folder / 'inputs.npz', work / 'out', target, threads)
                if first is None:
                    first = got
                    self.judge(folder, meta, expected, got)
                for name in got:
                    require(got[name].tobytes() == first[name].tobytes(), f'{name}: other bytes on {target} with {threads} threads')

    def named(self, expected, got):
        for name, e in expected.items():
            file = name.replace('/', '_')
            require(file in got, f'no output {name!r}; there are {sorted(got)}')
            yield name, e, got[file]

    def judge(self, folder, meta, expected, got):
        limits = dict(np.load(folder / 'tolerance.npz')) if meta['tolerance_file'] else {}
        for name, e, g in self.named(expected, got):
            require(g.shape == e.shape, f'{name}: shape {g.shape}, expected {e.shape}')
            require(g.dtype == e.dtype, f'{name}: type {g.dtype}, expected {e.dtype}')
            if e.dtype.kind == 'f':
                require(np.isfinite(g).all() or not np.isfinite(e).all(), f'{name}: not finite')
            if not e.size:
                continue
            error = np.abs(g.astype(float) - e.astype(float))
            limit = limits.get(name, meta['tolerance'])
            if limit is not None:
                worst = np.nanmax(error - limit)
                require(worst <= 0, f'{name}: error {np.nanmax(error):.6g}, allowed {np.max(limit):.6g}')
            if meta['min_sqnr_db'] is not None and error.any():
                db = 10 * np.log10((e.astype(float) ** 2).sum() / (error ** 2).sum())
                require(db >= meta['min_sqnr_db'], f'{name}: {db:.1f} dB, at least {meta["min_sqnr_db"]} wanted')
            if meta['min_cosine'] is not None:
                a, b = e.astype(float).ravel(), g.astype(float).ravel()
                cosine = a @ b / np.sqrt((a @ a) * (b @ b))
                require(cosine >= meta['min_cosine'], f'{name}: cosine {cosine:.5f}, at least {meta["min_cosine"]} wanted')

    def check_float(self, folder, meta, work):
        out = work / 'float.f8'
        status, text, _ = self.command('convert', folder / 'model.onnx', '-o', out, '--float')
        require(status == 0, f'convert --float ended with {status}: {text.strip()[-300:]}')
        got = self.run_model(out, folder / 'inputs.npz', work / 'float_out')
        for name, e, g in self.named(dict(np.load(folder / 'expected.npz')), got):
            if e.dtype.kind != 'f' or not e.size:
                continue
            error, largest = np.abs(g.astype(float) - e.astype(float)).max(), np.abs(e.astype(float)).max()
            require(error <= meta['float_tolerance'] * largest, f'float {name}: error {error:.3g}, allowed {meta["float_tolerance"] * largest:.3g}')

    def check_facts(self, meta, model, work):
        status, text, _ = self.command('inspect', model, '--json', work / 'inspect.json')
        require(status == 0, f'inspect ended with {status}: {text.strip()[-200:]}')
        facts = json.loads((work / 'inspect.json').read_text())
        if meta['bn_left'] is not None:
            require(facts['batch_norms_left'] <= meta['bn_left'], f'{facts["batch_norms_left"]} BatchNorms left, at most {meta["bn_left"]} allowed')
        share = facts['int8_mac_share']
        if share is not None and meta['name'] not in self.mac_exceptions:
            require(share >= 0.95, f'int8_mac_share {share:.3f}: {facts["float_layers"]}')

    def check_special(self, what, folder, meta, model, work):
        if what == 'rows_independent':
            self.check_rows(folder, model, work)
        elif what == 'memory_flat':
            self.check_memory(folder, meta, work)
        elif what.startswith('blames '):
            self.check_blame(what.split()[1], folder, meta, model, work)
        else:
            raise Failure(f'unknown check {what!r}')

    def check_rows(self, folder, model, work):
        inputs = dict(np.load(folder / 'inputs.npz'))
        whole = self.run_model(model, folder / 'inputs.npz', work / 'whole')
        for row in range(len(next(iter(inputs.values())))):
            np.savez(work / 'row.npz', **{k: v[row:row + 1] for k, v in inputs.items()})
            for name, g in self.run_model(model, work / 'row.npz', work / 'row').items():
                require(g.tobytes() == whole[name][row:row + 1].tobytes(), f'{name}: row {row} depends on the others')

    def peak_bytes(self, *args):
        """Peak memory of one fold8 process, from a child that runs nothing else."""
        code = ('import resource,subprocess,sys;r=subprocess.run(sys.argv[1:],capture_output=True);'
                'print(r.returncode,resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss*1024)')
        status, peak = subprocess.run([sys.executable, '-c', code, self.fold8, *map(str, args)], capture_output=True, text=True).stdout.split()
        require(status == '0', f'{args[0]} ended with {status}')
        return int(peak)

    def check_memory(self, folder, meta, work):
        few = work / 'few'
        few.mkdir()
        for sample in sorted((folder / 'calib').iterdir())[:4]:
            shutil.copy(sample, few)
        sizes = [self.peak_bytes('convert', folder / 'model.onnx', '-o', work / 'mem.f8', '--calib', data, *meta['convert_args'])
                 for data in (few, folder / 'calib')]
        require(sizes[1] - sizes[0] <= 16 << 20, f'{(sizes[1] - sizes[0]) >> 20} MiB more with all samples than with four')

    def check_blame(self, node, folder, meta, model, work):
        status, text, _ = self.command('convert', folder / 'model.onnx', '-o', work / 'ref.f8', '--float')
        require(status == 0, text[-200:])
        status, text, _ = self.command('report', work / 'ref.f8', model, '--data', folder / 'inputs.npz', '--json', work / 'report.json')
        require(status == 0, f'report ended with {status}: {text.strip()[-200:]}')
        report = json.loads((work / 'report.json').read_text())
        layers = report['layers']
        ranked = sorted((l for l in layers if l['own']['sqnr_db'] is not None), key=lambda l: l['own']['sqnr_db'])
        require(ranked and node in (ranked[0]['node'], ranked[0]['name']), f'blames {ranked[0]["node"] if ranked else None}, not {node}')
        self.check_advice(node, report, folder, meta, work)

    def check_advice(self, node, report, folder, meta, work):
        """The report's first advice is about this node, and its first fix wins 20 dB, pasted behind the same convert."""
        advice = report['what_to_do']
        require(advice, 'the report advises nothing')
        blamed = next((l for l in report['layers'] if l['name'] == advice[0]['layer']), {})
        require(node in (advice[0]['layer'], blamed.get('node')), f'advises about {advice[0]["layer"]}, not {node}')
        require(advice[0]['fixes'], f'no fix for {node}')
        flag, out = advice[0]['fixes'][0]['flag'], work / 'fixed.f8'
        status, text, _ = self.convert(folder, meta, out, *shlex.split(flag))
        require(status == 0, f'convert {flag} ended with {status}: {text.strip()[-200:]}')
        status, text, _ = self.command('report', work / 'ref.f8', out, '--data', folder / 'inputs.npz', '--json', work / 'fixed.json')
        require(status == 0, f'report ended with {status}: {text.strip()[-200:]}')
        before, after = (min(o['sqnr_db'] for o in r['outputs'] if o['sqnr_db'] is not None)
                         for r in (report, json.loads((work / 'fixed.json').read_text())))
        require(after >= before + 20, f'{flag} gives {after:.1f} dB, {before:.1f} dB before: at least 20 dB more wanted')


def available_targets(fold8):
    text = subprocess.run([fold8, '--version'], capture_output=True, text=True, check=True).stdout
    line = re.search(r'^targets: (.*)$', text, re.M).group(1)
    return [t.strip() for t in line.split(',') if 'not on this CPU' not in t]


def listed_total():
    """What make_cases.py --list says: kinds with their counts."""
    text = subprocess.run([sys.executable, HERE / 'make_cases.py', '--list'], capture_output=True, text=True, check=True).stdout
    return {kind: int(count) for kind, count in re.findall(r'^(\w+) \((\d+)\):', text, re.M)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--fold8', required=True)
    p.add_argument('--cases', type=pathlib.Path, required=True)
    p.add_argument('--only', default='*')
    p.add_argument('--targets')
    p.add_argument('--jobs', type=int, default=os.cpu_count())
    p.add_argument('--verbose', action='store_true')
    args = p.parse_args()
    if not args.cases.is_dir() or not any(args.cases.iterdir()):
        subprocess.run([sys.executable, HERE / 'make_cases.py', args.cases], check=True, stdout=subprocess.DEVNULL)
    targets = args.targets.split(',') if args.targets else available_targets(args.fold8)
    required = words(HERE / 'required_kinds.txt')
    runner = Runner(os.path.abspath(args.fold8), targets, reasons(HERE / 'mac_share_exceptions.txt'))
    folders = sorted(f for f in args.cases.iterdir() if (f / 'case.json').exists() and fnmatch.fnmatch(f.name, args.only))
    kinds = {f.name: json.loads((f / 'case.json').read_text())['kind'] for f in folders}

    def one(folder):
        with tempfile.TemporaryDirectory(prefix='fold8-case-') as work:
            try:
                runner.check(folder, pathlib.Path(work))
            except Failure as e:
                return folder.name, str(e)
        return folder.name, None

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        results = dict(pool.map(one, folders))
    total, failed = collections.Counter(kinds.values()), collections.Counter(kinds[n] for n, e in results.items() if e)
    for name, error in results.items():
        if error and (args.verbose or kinds[name] in required):
            print(f'FAILED {kinds[name]}/{name}: {error}')
    problems = []
    for kind in sorted(total):
        print(f'{kind:12} {total[kind] - failed[kind]:4} of {total[kind]:4} pass{"" if kind in required else "   (not required yet)"}')
        if kind in required and failed[kind]:
            problems.append(f'{failed[kind]} cases of {kind} fail')
    print(f'targets: {", ".join(targets)}; {len(folders)} cases')
    if args.only == '*':
        listed = listed_total()
        if sum(listed.values()) != len(folders):
            problems.append(f'{len(folders)} cases on disk, make_cases.py lists {sum(listed.values())}')
        problems += [f'unknown kind {k}' for k in total if k not in listed]
        problems += [f'required kind {k} has no cases' for k in required if not total[k]]
    print('\n'.join(problems) if problems else 'all required kinds pass')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
