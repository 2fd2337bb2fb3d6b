#!/usr/bin/env python3
"""Who includes whom: runtime executes, quant chooses numbers, fusion rewrites graphs, tools talk to people; nothing points back.

usage: layering_test.py SOURCE_DIR      Reads the include lines only. Exit status 1 names every line that breaks a rule.
"""
import fnmatch
import re
import sys
from pathlib import Path

CORE, KERNELS, GRAPH = 'runtime/core', 'runtime/kernels', 'runtime/graph'
OPS, FORMAT, EXEC = 'runtime/ops', 'runtime/format', 'runtime/exec'

# A folder may include itself and these. kernels and graph never see each other; ops is where they meet.
MAY_INCLUDE = {
    CORE: [],
    KERNELS: [CORE],
    GRAPH: [CORE],
    OPS: [CORE, KERNELS, GRAPH],
    FORMAT: [CORE, GRAPH],
    EXEC: [CORE, KERNELS, GRAPH, OPS, FORMAT],
    'runtime/api': [CORE, EXEC],
    'runtime/onednn': [CORE, KERNELS, GRAPH, OPS, EXEC],
    'quant': [CORE, GRAPH, OPS, EXEC, FORMAT],
    'fusion': [CORE, GRAPH, OPS, EXEC, FORMAT, 'quant'],
    'tools/onnx': [CORE, GRAPH, OPS, EXEC, FORMAT],
    'tools/data': [CORE, GRAPH, 'quant', 'tools/onnx'],
    'tools/report': [CORE, GRAPH, EXEC, 'quant', 'fusion'],
    'tools/cli': [CORE, KERNELS, GRAPH, EXEC, FORMAT, 'quant', 'fusion', 'tools/onnx', 'tools/data', 'tools/report'],
    'bench': [CORE, KERNELS, GRAPH, OPS, EXEC, FORMAT, 'quant', 'fusion', 'tools/onnx', 'tools/data'],
}

# Single headers that may be seen from farther away, and why.
ALSO = [
    ('quant/*', f'{KERNELS}/math_double.h'),      # exp, log, pow that give the same bits everywhere
    ('fusion/*', f'{KERNELS}/math_double.h'),
    ('tools/onnx/*', f'{KERNELS}/math_double.h'),
    ('fusion/passes/pack_weights.cc', f'{KERNELS}/pack_*.h'),
]

# Foreign headers: where alone they may appear.
LIBRARIES = {
    'xsimd': [f'{KERNELS}/*'],
    'immintrin.h': [f'{KERNELS}/*', 'bench/*'],
    'dnnl': ['runtime/onednn/*', 'tests/*', 'bench/*'],
    'oneapi/dnnl': ['runtime/onednn/*', 'tests/*', 'bench/*'],
    'omp.h': ['runtime/onednn/*', 'bench/*'],
    'flatbuffers': [f'{FORMAT}/*', 'quant/statistics.cc'],
    'xxhash.h': [f'{FORMAT}/*'],
    'google/protobuf': ['tools/onnx/*', 'tests/onnx/*'],
    'onnx/': ['tools/onnx/*', 'tests/onnx/*'],
    'nlohmann': ['tools/*', 'tests/*'],
    'fmt/': ['tools/*'],
    'CLI/': ['tools/cli/*'],
    'stb_': ['tools/data/*', 'tests/data/*'],
    'zlib.h': ['tools/data/*', 'tests/data/*'],
    'httplib': ['tools/serve/*'],
    'gtest': ['tests/*'],
    'gmock': ['tests/*'],
    'benchmark/': ['bench/*'],
}

# Headers with vector code: no source file outside targets/ may reach one, however many headers lie between.
ISA_ONLY = ('*_simd.h', '*_avx2.h', '*_avx512.h', '*_vnni.h', 'arch.h', 'all_simd.h')
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def folder_of(path):
    parts = path.split('/')
    return '/'.join(parts[:2]) if parts[0] in ('runtime', 'tools') else parts[0]


def matches(path, patterns):
    return any(fnmatch.fnmatch(path, p) for p in patterns)


def is_isa_only(path):
    return path.startswith(f'{KERNELS}/') and matches(path.rsplit('/', 1)[1], ISA_ONLY)


def why_not_ours(path, included):
    here, there = folder_of(path), folder_of(included)
    if path.startswith('tests/') and there in ('tests', *MAY_INCLUDE):
        return None
    if here == there or any(fnmatch.fnmatch(path, f) and fnmatch.fnmatch(included, i) for f, i in ALSO):
        return None
    if here not in MAY_INCLUDE:
        return f'{here} has no line in MAY_INCLUDE of tests/project/layering_test.py'
    return None if there in MAY_INCLUDE[here] else f'{here} may not include {there}'


def why_not_library(path, name):
    for prefix, allowed in LIBRARIES.items():
        if name.startswith(prefix) and not matches(path, allowed):
            return f'only {", ".join(allowed)} may'
    if path.startswith('runtime/api/') and path.endswith(('.h', '.hpp')) and '/' in name:
        return 'an installed header includes the standard library only'
    return None


def ours_in(root, path):
    found = (INCLUDE.match(line) for line in (root / path).read_text(errors='replace').splitlines())
    return [m[2] for m in found if m and m[1] == '"' and '/' in m[2] and (root / m[2]).exists()]


def isa_leaks(root, files):
    """Sources outside targets/ that reach a header with vector code, with the way they reach it."""
    includes = {path: ours_in(root, path) for path in files}
    for source in files:
        if not source.endswith('.cc') or source.startswith((f'{KERNELS}/targets/', 'tests/', 'bench/')):
            continue
        ways, seen = [[source]], {source}
        while ways:
            way = ways.pop()
            if is_isa_only(way[-1]):
                yield f'{source}: reaches vector code, compiled only in runtime/kernels/targets: {" > ".join(way[1:])}'
                break
            for name in includes.get(way[-1], []):
                if name not in seen:
                    seen.add(name)
                    ways.append([*way, name])


def check_file(root, path):
    for number, line in enumerate((root / path).read_text(errors='replace').splitlines(), 1):
        found = INCLUDE.match(line)
        if not found:
            continue
        quote, name = found.groups()
        ours = quote == '"' and '/' in name and (root / name).exists()
        why = why_not_ours(path, name) if ours else why_not_library(path, name)
        if quote == '"' and '/' in name and not ours and not name.endswith(('_generated.h', 'version.h')):
            why = why or 'no such file'
        if why:
            yield f'{path}:{number}: {name}: {why}'


def main():
    root = Path(sys.argv[1]).resolve()
    files = [f.relative_to(root).as_posix() for top in ('runtime', 'quant', 'fusion', 'tools', 'bench', 'tests')
             for f in sorted((root / top).rglob('*')) if f.suffix in ('.h', '.hpp', '.cc', '.c', '.cpp', '.inc')]
    files = [f for f in files if not f.startswith('tools/examples/')]   # stand alone, against an installed fold8
    broken = [problem for path in files for problem in check_file(root, path)]
    broken += isa_leaks(root, files)
    print('\n'.join(broken) if broken else f'{len(files)} files: every include points the right way')
    return 1 if broken or len(files) < 50 else 0


if __name__ == '__main__':
    sys.exit(main())
