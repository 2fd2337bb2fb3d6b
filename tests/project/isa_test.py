#!/usr/bin/env python3
"""Instruction sets stay where they belong, read from the object files of a build.

usage: isa_test.py BUILD_DIR SOURCE_DIR

- Outside runtime/kernels/targets no object uses YMM or ZMM registers: it would fault on a CPU without them before fold8 could say so.
- A weak symbol of an object in targets/ carries the name of its instruction set. One that does not (an inline function of a
  header that others include too) may be the copy the linker keeps for everybody.
- No object of the numeric path calls the C library's exp, log, pow, sin ...: their bits differ between libraries (SPEC 5a).
"""
import concurrent.futures
import os
import re
import subprocess
import sys
from pathlib import Path

WIDE = re.compile(r'%[yz]mm\d')
ARCH = re.compile(r'avx|fma3|vnni|reference|Arch', re.I)
NUMERIC = ('runtime/', 'quant/', 'fusion/', 'tools/onnx/', 'tools/data/')
LIBM = re.compile(r'^(exp|exp2|exp10|expm1|log|log2|log10|log1p|pow|sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh|asinh|acosh|'
                  r'atanh|erf|erfc|tgamma|lgamma|cbrt|hypot|sincos)[fl]?$')
# Reviewed: std::normal_distribution for the `random:` constants of a graph's text form, which only tests write.
LIBM_ALLOWED = {'runtime/graph/CMakeFiles/fold8_graph.dir/text_parse.cc.o': {'log'}}


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, errors='replace').stdout


def first_wide_instruction(path):
    """Name and text of the first instruction on wide registers. Streams: a large object is never held as text."""
    function = '?'
    with subprocess.Popen(['objdump', '-d', '--no-show-raw-insn', path], stdout=subprocess.PIPE, text=True, errors='replace') as dump:
        for line in dump.stdout:
            if line.endswith('>:\n'):
                function = line.split('<', 1)[1][:-3]
            elif WIDE.search(line):
                dump.kill()
                return f'{line.split(":", 1)[1].strip()} in {function}'
    return None


def check(build, path):
    name = path.relative_to(build).as_posix()
    problems = []
    if '/targets/' in name:
        for line in output_of('nm', '-C', '--defined-only', path).splitlines():
            kind, symbol = line[17:18], line[19:]
            if kind in 'WVwv' and not ARCH.search(symbol) and not symbol.startswith('DW.ref.'):
                problems.append(f'{name}: weak symbol without an instruction set in its name: {symbol}')
    else:
        wide = first_wide_instruction(path)
        if wide:
            problems.append(f'{name}: {wide}')
    if name.startswith(NUMERIC):
        used = {line.split()[-1].split('@')[0] for line in output_of('nm', '--undefined-only', path).splitlines()}
        problems += [f'{name}: calls {f} of the C library' for f in sorted(used - LIBM_ALLOWED.get(name, set())) if LIBM.match(f)]
    return problems


def objects_of(build, source):
    """Object files of the build whose source still exists (a build folder keeps those of removed files)."""
    for path in sorted(build.rglob('*.o')):
        name = path.relative_to(build).as_posix()
        folder, _, file = name.partition('/CMakeFiles/')
        if not name.startswith(('runtime/', 'quant/', 'fusion/', 'tools/')) or '.dir/' not in file:
            continue
        written = source / folder / file.split('.dir/', 1)[1][:-2]
        if written.exists():
            yield path


def main():
    build, source = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    objects = list(objects_of(build, source))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = [p for found in pool.map(lambda o: check(build, o), objects) for p in found]
    print('\n'.join(problems) if problems else f'{len(objects)} objects: instruction sets only in targets/, no libm')
    targets = [o for o in objects if '/targets/' in o.as_posix()]
    if len(targets) < 2 or len(objects) < 50:
        problems.append('too few objects')
        print(f'only {len(objects)} objects, {len(targets)} of targets/: is this a build folder?')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
