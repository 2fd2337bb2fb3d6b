#!/usr/bin/env python3
"""Compiler flags that the numeric contract rests on, read from the build's own commands.

usage: flags_test.py BUILD_DIR      Exit status 77 (skipped) if the build folder does not tell its commands.
"""
import json
import shutil
import subprocess
import sys
from pathlib import Path

FORBIDDEN = ('-ffast-math', '-Ofast', '-funsafe-math-optimizations', '-ffinite-math-only', '-fassociative-math',
             '-freciprocal-math', '-march=', '-mtune=native', '-ffp-contract=fast', '-ffp-contract=on')
OURS = ('runtime/', 'quant/', 'fusion/', 'tools/')


def commands(build):
    listed = build / 'compile_commands.json'
    if (build / 'build.ninja').exists() and shutil.which('ninja'):
        return json.loads(subprocess.run(['ninja', '-C', build, '-t', 'compdb'], capture_output=True, text=True, check=True).stdout)
    return json.loads(listed.read_text()) if listed.exists() else None


def main():
    build = Path(sys.argv[1]).resolve()
    source = Path(__file__).resolve().parents[2]
    listed = commands(build)
    if listed is None:
        print('SKIPPED: no build.ninja and no compile_commands.json (configure with -DCMAKE_EXPORT_COMPILE_COMMANDS=ON)')
        return 77
    problems, seen = [], set()
    for entry in listed:
        file = (Path(entry['directory']) / entry['file']).resolve()
        if file.suffix not in ('.cc', '.c') or not file.is_relative_to(source) or file.is_relative_to(build):
            continue
        name = file.relative_to(source).as_posix()
        flags = entry.get('command', '').split() or entry['arguments']
        seen.add(name)
        problems += [f'{name}: compiled with {f}' for f in flags if f.startswith(FORBIDDEN)]
        if '-ffp-contract=off' not in flags:
            problems.append(f'{name}: compiled without -ffp-contract=off')
        if name.startswith(OURS) and '/targets/' not in name:
            problems += [f'{name}: compiled with {f}, which only runtime/kernels/targets may' for f in flags
                         if f.startswith(('-mavx', '-mfma', '-mf16c', '-msse4', '-mbmi'))]
        if '/targets/' in name and name.startswith('runtime/') and not any(f in ('-O2', '-O3') for f in flags):
            problems.append(f'{name}: compiled without optimization: templates would leak into other objects')
    print('\n'.join(problems) if problems else f'{len(seen)} files: flags as they must be')
    return 1 if problems or len(seen) < 50 else 0


if __name__ == '__main__':
    sys.exit(main())
