"""Measuring every library as on a smaller CPU: copies whose cpuid instructions trap into cpuidmask.c, which hides features."""
import importlib.metadata
import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
MASKS = ('avx2', 'novnni')
CPUID, UD2 = b'\x0f\xa2', b'\x0f\x0b'
# The packages a worker imports, and the libraries in them that choose kernels.
PACKAGES = {'onnxruntime': ('capi/onnxruntime_pybind11_state*.so',),
            'openvino': ('libs/libopenvino.so.*', 'libs/libopenvino_intel_cpu_plugin.so', 'libs/libtbb.so.*')}


def cpuid_offsets(library):
    """Offsets in the file of its cpuid instructions; found by disassembling, the two bytes also occur inside others."""
    headers = subprocess.run(['objdump', '-h', '-w', library], capture_output=True, text=True, check=True).stdout
    sections = {m[1]: int(m[3], 16) - int(m[2], 16)
                for m in re.finditer(r'^ *\d+ (\S+) +[0-9a-f]+ +([0-9a-f]+) +[0-9a-f]+ +([0-9a-f]+)', headers, re.M)}
    shift, offsets = 0, []
    with subprocess.Popen(['objdump', '-d', '--no-show-raw-insn', library], stdout=subprocess.PIPE, text=True) as listing:
        for line in listing.stdout:
            if line.startswith('Disassembly of section '):
                shift = sections[line.split()[-1].rstrip(':')]
            elif line.rstrip().endswith('\tcpuid'):
                offsets.append(int(line.split(':')[0], 16) + shift)
    return offsets


def disarm(library):
    """Replaces each cpuid in the file by ud2."""
    code = bytearray(library.read_bytes())
    offsets = cpuid_offsets(library)
    if not offsets:
        raise SystemExit(f'{library}: no cpuid instruction found, so features cannot be hidden from it')
    for offset in offsets:
        if code[offset:offset + 2] != CPUID:
            raise SystemExit(f'{library}: no cpuid at {offset:#x}, where the disassembly has one')
        code[offset:offset + 2] = UD2
    library.write_bytes(code)


def copy_of_package(name, patterns, folder):
    """A copy of an installed package with disarmed libraries; kept for as long as its version is installed."""
    version = importlib.metadata.version(name)
    target, done = folder / name, folder / f'{name}-{version}.complete'
    if done.exists():
        return
    print(f'copying {name} {version} with its cpuid instructions replaced (a minute)', file=sys.stderr, flush=True)
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(pathlib.Path(importlib.util.find_spec(name).origin).parent, target)
    for pattern in patterns:
        for library in sorted(target.glob(pattern)):
            disarm(library)
    done.touch()


def copy_of_library(library, folder):
    """The same for libfold8_runtime; returns the copy."""
    target = folder / 'libfold8_runtime.so.0'   # the name the worker is linked with
    if not target.exists() or target.stat().st_mtime < library.stat().st_mtime:
        unfinished = folder / 'unfinished.so'
        shutil.copyfile(library, unfinished)
        disarm(unfinished)
        unfinished.rename(target)
    return target


def build_shim(folder):
    source, shim = HERE / 'cpuidmask.c', folder / 'cpuidmask.so'
    if not shim.exists() or shim.stat().st_mtime < source.stat().st_mtime:
        # initfirst: the handler must be there before constructors of other libraries ask for features
        subprocess.run(['cc', '-O2', '-Wall', '-Wextra', '-shared', '-fPIC', '-Wl,-z,initfirst', '-o', shim, source], check=True)
    return shim


def prepare(folder, library):
    """Everything masked runs need, in `folder`; returns the disarmed copy of fold8's library."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, patterns in PACKAGES.items():
        copy_of_package(name, patterns, folder)
    build_shim(folder)
    return copy_of_library(library, folder)


def environment(folder, mask):
    """What a worker's environment gets; folder also goes in front of PYTHONPATH."""
    return {'CPUID_MASK': mask, 'LD_PRELOAD': str(folder / 'cpuidmask.so')}
