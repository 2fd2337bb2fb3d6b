#!/bin/bash
# setup_venv.sh [DIR]: a Python environment for the tests that compare with onnxruntime; default build/venv.
# Prints its path as the only line on stdout. Nothing is done when it is there and complete. PYTHON=... picks the interpreter.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
DIR=${1:-$ROOT/build/venv}
PY=${PYTHON:-python3}

PACKAGES="numpy==2.4.6
onnx==1.23.2
onnxruntime==1.32.0
jsonschema==4.26.0
pillow==13.0.0
tokenizers==0.23.3
scikit-learn==1.9.1
scipy==1.17.1"

mkdir -p "$DIR"
DIR=$(cd "$DIR" && pwd)
exec 9>"$DIR/.lock" # tests may ask for it at once
flock 9

if [ "$(cat "$DIR/.complete" 2>/dev/null)" != "$PACKAGES" ] || ! "$DIR/bin/python" -c '' 2>/dev/null; then
  echo "setup_venv: installing $(echo $PACKAGES) into $DIR" >&2
  rm -f "$DIR/.complete"
  "$PY" -m venv "$DIR" || {
    echo "setup_venv: '$PY -m venv' failed; on Debian: apt-get install python3-venv" >&2
    exit 1
  }
  echo "$PACKAGES" >"$DIR/requirements.txt"
  "$DIR/bin/pip" install -q --disable-pip-version-check -r "$DIR/requirements.txt" >&2
  echo "$PACKAGES" >"$DIR/.complete"
fi
echo "$DIR"
