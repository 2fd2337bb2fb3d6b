#!/usr/bin/env bash
# Fetches oneDNN 3.2 (PyPI's onednn-cpu-gomp) into a folder, for systems whose packages have 2.x only:
#   tools/get_onednn3.sh PREFIX
#   cmake -S . -B build-onednn3 -DFOLD8_ONEDNN_ROOT=PREFIX
# PIP names another pip than "python3 -m pip". Does nothing if PREFIX has it already.
set -euo pipefail
if [ $# -ne 1 ]; then
  echo "usage: $0 PREFIX" >&2
  exit 2
fi
prefix=$1
version=2023.2.0
if [ -e "$prefix/lib/libdnnl.so.3" ] && [ -e "$prefix/include/oneapi/dnnl/dnnl.hpp" ]; then
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Not pip install --target: it leaves out what lies in a wheel's .data folder, the libraries too.
${PIP:-python3 -m pip} download --quiet --disable-pip-version-check --no-deps --dest "$work" \
  "onednn-cpu-gomp==$version" "onednn-devel-cpu-gomp==$version"
mkdir -p "$prefix"
python3 - "$work" "$prefix" <<'PYTHON'
import pathlib
import sys
import zipfile

work, prefix = map(pathlib.Path, sys.argv[1:])
for wheel in sorted(work.glob('*.whl')):
    with zipfile.ZipFile(wheel) as archive:
        for item in archive.infolist():
            _, inside, path = item.filename.partition('.data/data/')
            if not inside or item.is_dir():
                continue
            target = prefix / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.read(item))
PYTHON
# The wheel holds the library three times.
cd "$prefix/lib"
real=$(ls libdnnl.so.3.* | sort | tail -1)
ln -sf "$real" libdnnl.so.3
ln -sf libdnnl.so.3 libdnnl.so
echo "oneDNN: $(pwd)/$real"
