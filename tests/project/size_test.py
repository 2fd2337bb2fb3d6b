#!/usr/bin/env python3
"""How large the runtime library is that a service ships: stripped, as `cmake --install --component runtime --strip` leaves it.

usage: size_test.py LIBRARY STRIP NM
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

LIMIT = 3_000_000  # bytes
ADVICE = '''Most of it is kernels, once per instruction set. What grew shows in the listing below and in
  nm -S -C --size-sort --reverse-sort {library} | head -50
Usual causes: a template that is instantiated per operator, type or tile height where only its innermost loop need be; an
epilogue or a rare case written out in every tile (epilogue_simd.h and store_f32_simd.h have shared ones); a file of planning
code that is not listed as small (fold8_small in tools/cmake/Fold8Library.cmake).'''


def families(nm, library):
    """Bytes by function template, largest first."""
    bytes_of = {}
    for line in subprocess.run([nm, '-S', '-C', library], capture_output=True, text=True, check=True).stdout.splitlines():
        found = re.match(r'[0-9a-f]+ ([0-9a-f]+) [a-zA-Z] (.*)', line)
        if found:
            name = re.sub(r'^(void|auto|bool) ', '', re.split(r'[(<]', found[2])[0])
            bytes_of[name] = bytes_of.get(name, 0) + int(found[1], 16)
    return sorted(bytes_of.items(), key=lambda item: -item[1])


def main():
    library, strip, nm = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        stripped = Path(folder) / 'stripped.so'
        subprocess.run([strip, '-s', '-o', stripped, library], check=True)
        size = stripped.stat().st_size
    print(f'{library}: {size} bytes stripped, limit {LIMIT}')
    if size <= LIMIT:
        return 0
    print(ADVICE.format(library=library))
    for name, count in families(nm, library)[:20]:
        print(f'{count:9} {name}')
    return 1


if __name__ == '__main__':
    sys.exit(main())
