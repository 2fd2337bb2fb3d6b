"""What the Python tests share: the test environment, the fold8 command, targets, and checks that are counted, not raised."""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / 'tests/data'
SKIPPED = 77


def enter_venv(venv):
    """Continues this script under the Python of tools/setup_venv.sh (numpy, onnx, onnxruntime)."""
    if Path(sys.prefix) == Path(venv).resolve():
        return
    if subprocess.run([ROOT / 'tools/setup_venv.sh', venv], stdout=subprocess.DEVNULL).returncode != 0:
        skip(f'the Python environment {venv} could not be made')
    python = Path(venv).resolve() / 'bin/python'
    os.execv(python, [str(python), *sys.argv])


def command_line(doc):
    """--fold8, --work and --venv, under the Python of tools/setup_venv.sh."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--fold8', required=True)
    parser.add_argument('--work', required=True, type=Path)
    parser.add_argument('--venv', required=True)
    a = parser.parse_args()
    enter_venv(a.venv)
    return a


def zoo_command_line(doc, *name, **how):
    """The same for tests of real networks, behind one argument of their own; `zoo` is the cache of fetch_zoo.sh."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(*name, **how)
    parser.add_argument('--fold8', required=True)
    parser.add_argument('--work', required=True, type=Path)
    parser.add_argument('--venv', type=Path, help='default: WORK/venv')
    a = parser.parse_args()
    enter_venv(a.venv or a.work / 'venv')
    sys.path.insert(0, str(ROOT / 'tools/zoo'))
    a.zoo = Path(os.environ.get('FOLD8_ZOO_DIR') or a.work / 'zoo').resolve()
    return a


def empty_folder(path):
    """The folder, made anew, as an absolute path."""
    path = Path(path).resolve()
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def skip(why):
    if os.environ.get('FOLD8_REQUIRE_ZOO') == '1':
        print(f'FAILED: {why} (and FOLD8_REQUIRE_ZOO=1)')
        sys.exit(1)
    print(f'SKIPPED: {why}')
    sys.exit(SKIPPED)


class Checks:
    """Prints each check; the test fails at the end if one failed."""

    def __init__(self):
        self.failed = 0

    def expect(self, ok, text):
        print(f'  {"ok    " if ok else "FAILED"} {text}', flush=True)
        self.failed += not ok
        return ok

    def at_least(self, what, got, floor):
        return self.expect(got is not None and got >= floor, f'{what}: {got if got is None else f"{got:.5g}"} >= {floor}')

    def finish(self, name):
        print(f'{name}: {self.failed} checks failed' if self.failed else f'{name}: passed')
        sys.exit(1 if self.failed else 0)


class Fold8:
    def __init__(self, binary):
        self.binary = str(Path(binary).resolve())

    def start(self, *args, target=None, prefix=(), limit=600, **more):
        """Exit status and what was said; `prefix` is a command to run it under."""
        env = {k: v for k, v in os.environ.items() if k != 'FOLD8_TARGET'}
        if target:
            env['FOLD8_TARGET'] = target
        done = subprocess.run([*prefix, self.binary, *map(str, args)], capture_output=True, env=env, timeout=limit, stdin=subprocess.DEVNULL, **more)
        return done.returncode, (done.stdout + done.stderr).decode(errors='replace')

    def __call__(self, *args, **how):
        """As start(), for what must succeed."""
        print('  $ fold8', *args, *(f'[{k} {v}]' for k, v in how.items()), flush=True)
        status, text = self.start(*args, **how)
        if status != 0:
            print(f'FAILED: fold8 {" ".join(map(str, args))}\n  ended with {status} ({how}): {text.strip()[-1000:]}')
            sys.exit(1)
        return text

    def facts(self, json_file, *args, **how):
        """The JSON result of a command."""
        self(*args, '--json', json_file, **how)
        return json.loads(Path(json_file).read_text())

    def run(self, model, inputs, out, *args, **how):
        """The arrays that `fold8 run` writes, by file name."""
        import numpy as np

        shutil.rmtree(out, ignore_errors=True)
        self('run', model, '--input', inputs, '--output-dir', out, *args, **how)
        return {p.relative_to(out).with_suffix('').as_posix(): np.load(p) for p in Path(out).rglob('*.npy')}

    def targets(self):
        """Those this CPU can run."""
        line = re.search(r'^targets: (.*)$', self('--version'), re.M)[1]
        return [t.strip() for t in line.split(',') if 'not on this CPU' not in t]

