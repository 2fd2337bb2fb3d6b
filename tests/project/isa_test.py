#!/usr/bin/env python3
"""Instruction sets stay where they belong, read from the object files of a build.

usage: isa_test.py BUILD_DIR SOURCE_DIR

- Outside runtime/kernels/targets no object uses YMM or ZMM registers: it would fault on a CPU without them before fold8 could say so.
- A weak symbol of an object in targets/ carries the name of its instruction set. One that does not (an inline function of a
  header that others include too) may be the copy the linker keeps for everybody. A set that only adds VNNI to another may share
  names with it (types of vectors, mostly) where no VNNI instruction is in the code of that name.
- No object of the numeric path calls the C library's exp, log, pow, sin ...: their bits differ between libraries (SPEC 5a).
"""
import concurrent.futures
import os
import re
import subprocess
import sys
from pathlib import Path

WIDE = re.compile(r'%[yz]mm\d')
# By object library: what the name of a weak symbol contains.
OWN_NAMES = {
    'fold8_kernels': re.compile(r'reference'),
    'fold8_kernels_avx2': re.compile(r'\bAvx2\b|\bavx2\b'),
    'fold8_kernels_avx_vnni': re.compile(r'\bAvxVnni\b|\bavx_vnni::'),
    'fold8_kernels_avx512': re.compile(r'\bAvx512\b|\bavx512bw\b|\bavx512::'),
    'fold8_kernels_avx512_vnni': re.compile(r'\bAvx512Vnni\b|\bavx512_vnni::'),
}
WITHOUT_VNNI = {'fold8_kernels_avx_vnni': 'fold8_kernels_avx2', 'fold8_kernels_avx512_vnni': 'fold8_kernels_avx512'}
VNNI = re.compile(r'\bvpdp\w+')
NUMERIC = ('runtime/', 'quant/', 'fusion/', 'tools/onnx/', 'tools/data/')
# Reviewed: loops of `fold8 bench` that measure the peak of a target the CPU has been found to run; of internal linkage.
# And loops of conversion with one version a set, which ask the CPU first.
WIDE_ALLOWED = {'tools/cli/CMakeFiles/fold8.dir/bench_peak.cc.o': re.compile(r'^fold8::cli::\(anonymous namespace\)::(int8|f32)_avx\w+\('),
                'quant/CMakeFiles/fold8_quant.dir/wide_loops.cc.o': re.compile(r'^fold8::quant::\(anonymous namespace\)::(subtract|add)_avx\w+\(')}
# The same for loops that are handed over: quant/wide.h flattens them into one function a set, of a type of its own for each loop.
WIDE_LOOPS = re.compile(r'^void fold8::quant::wide_detail::in_avx(2|512)<')
LIBM = re.compile(r'^(exp|exp2|exp10|expm1|log|log2|log10|log1p|pow|sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh|asinh|acosh|'
                  r'atanh|erf|erfc|tgamma|lgamma|cbrt|hypot|sincos)[fl]?$')
# Reviewed: std::normal_distribution for the `random:` constants of a graph's text form, which only tests write.
LIBM_ALLOWED = {'runtime/graph/CMakeFiles/fold8_graph.dir/text_parse.cc.o': {'log'}}


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, errors='replace').stdout


def functions_with(path, instruction):
    """Function and text of each instruction that matches. Streams: a large object is never held as text."""
    function = '?'
    with subprocess.Popen(['objdump', '-dC', '--no-show-raw-insn', path], stdout=subprocess.PIPE, text=True, errors='replace') as dump:
        for line in dump.stdout:
            if line.endswith('>:\n'):
                function = line.split('<', 1)[1][:-3]
            elif instruction.search(line):
                yield function, line.split(':', 1)[1].strip()
        dump.kill()


def check_target(name, path):
    """The weak symbols of an object in targets/."""
    library = name.split('/CMakeFiles/', 1)[1].split('.dir/', 1)[0]
    own, shared = OWN_NAMES.get(library), OWN_NAMES.get(WITHOUT_VNNI.get(library))
    if own is None:
        return [f'{name}: {library} is not in OWN_NAMES of isa_test.py']
    symbols = [(line[17:18], line[19:]) for line in output_of('nm', '-C', '--defined-only', path).splitlines()]
    weak = {s for kind, s in symbols if kind in 'WVwv' and not s.startswith('DW.ref.') and not own.search(s)}
    foreign = sorted(s for s in weak if not (shared and shared.search(s)))
    problems = [f'{name}: weak symbol without its instruction set in its name: {s}' for s in foreign]
    if weak and shared:
        used = {function: text for function, text in functions_with(path, VNNI) if function in weak}
        problems += [f'{name}: {text} in {function}, whose name {WITHOUT_VNNI[library]} has too' for function, text in used.items()]
    return problems


def check(build, path):
    name = path.relative_to(build).as_posix()
    problems = []
    if '/targets/' in name:
        problems += check_target(name, path)
    else:
        allowed = WIDE_ALLOWED.get(name)
        loops = WIDE_LOOPS if name.startswith('quant/') else None
        reviewed = [pattern for pattern in (allowed, loops) if pattern]
        wide = next((found for found in functions_with(path, WIDE) if not any(p.search(found[0]) for p in reviewed)), None)
        if wide:
            problems.append(f'{name}: {wide[1]} in {wide[0]}')
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
