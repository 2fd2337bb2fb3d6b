#!/usr/bin/env python3
"""Every header compiles alone, first in a file, without warnings.

usage: headers_test.py SOURCE_DIR BUILD_DIR [COMPILER]

Headers with vector code are compiled with the flags of the widest target: nothing includes them without. The installed
headers have a stricter test of their own (tests/api/headers_test.sh).
"""
import concurrent.futures
import os
import subprocess
import sys
from pathlib import Path

from layering_test import INCLUDE, is_isa_only

ISA = ['-mavx2', '-mfma', '-mf16c', '-mavx512f', '-mavx512cd', '-mavx512dq', '-mavx512bw', '-mavx512vl', '-mavx512vnni', '-mavxvnni']
FLAGS = ['-std=c++20', '-fsyntax-only', '-ffp-contract=off', '-Wall', '-Wextra', '-Werror', '-Wno-missing-field-initializers',
         '-DONNX_ML=1', '-DONNX_NAMESPACE=onnx', '-x', 'c++', '-']
QUIET_ISA = ['-Wno-uninitialized', '-Wno-maybe-uninitialized']   # the compiler's own AVX-512 headers


def needs_isa(root, header, seen):
    """Vector code in the header or in what it includes."""
    if is_isa_only(header):
        return True
    seen.add(header)
    found = (INCLUDE.match(line) for line in (root / header).read_text().splitlines())
    return any(needs_isa(root, m[2], seen) for m in found if m and m[2] not in seen and (root / m[2]).exists())


def compile_alone(root, build, compiler, header):
    isa = ISA + QUIET_ISA if needs_isa(root, header, set()) else []
    # Generated headers lie in the same place of the build folder and are included by name alone.
    done = subprocess.run([compiler, f'-I{root}', f'-I{build}', f'-I{(build / header).parent}', *isa, *FLAGS],
                          input=f'#include "{header}"\n#include "{header}"\n', capture_output=True, text=True)
    return None if done.returncode == 0 else f'{header}\n{done.stderr[:1500]}'


def main():
    root, build = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    compiler = sys.argv[3] if len(sys.argv) > 3 else 'c++'
    headers = [f.relative_to(root).as_posix() for top in ('runtime', 'quant', 'fusion', 'tools', 'tests/support')
               for f in sorted((root / top).rglob('*.h'))]
    headers = [h for h in headers if h != 'runtime/onednn/api.h' or os.path.exists('/usr/include/oneapi/dnnl/dnnl.hpp')]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        failed = [e for e in pool.map(lambda h: compile_alone(root, build, compiler, h), headers) if e]
    print('\n'.join(failed) if failed else f'{len(headers)} headers compile alone')
    return 1 if failed or len(headers) < 50 else 0


if __name__ == '__main__':
    sys.exit(main())
