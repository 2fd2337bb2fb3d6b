#!/bin/bash
# train_all.sh [DATADIR]: trains the four digit networks and writes everything in tests/data anew (about 10 minutes).
# A rerun on one kind of CPU gives the same files; another CPU may round XLA's sums differently and give other weights
# of the same quality.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
ROOT=$(cd ../.. && pwd)
DATA=$(realpath "${1:-$ROOT/tests/data}")
VENV=${FOLD8_TRAIN_VENV:-$ROOT/build/venv-train}

if [ ! -e "$VENV/.complete" ]; then
  python3 -m venv "$VENV"
  "$VENV/bin/pip" install -q --disable-pip-version-check -r requirements.txt
  "$VENV/bin/pip" install -q --disable-pip-version-check --no-deps -r requirements-data.txt
  touch "$VENV/.complete"
fi
export OMP_NUM_THREADS=1
mkdir -p "$DATA/expected"
run() { echo "== $*"; "$VENV/bin/python" "$@"; }
run train_cnn.py "$DATA/digits_cnn.onnx"
run train_cnn_qat.py "$DATA/digits_cnn.onnx" "$DATA/digits_cnn_qat.onnx"
run train_ln.py "$DATA/digits_ln.onnx"
run train_rms.py "$DATA/digits_rms.onnx"
run make_data.py "$DATA"
