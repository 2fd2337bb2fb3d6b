#!/bin/bash
# quickstart.sh: from a bare machine to a running INT8 model. Installs what is missing, builds the fold8 command, converts a
# trained network kept in this repository (tests/data/digits_cnn.onnx), compares it with its float version on 1000 held-out
# images, and times both. Writes to ./out. Exit status 0 only if INT8 loses at most 0.5 points of accuracy.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD=${FOLD8_BUILD_DIR:-$ROOT/build/quickstart}
OUT=$PWD/out
DATA=$ROOT/tests/data
MAX_LOSS=0.005
exec </dev/null

say() { printf '\n== %s\n' "$*"; }
run() {
  echo "\$ $*"
  "$@"
}

say "1. Packages"
"$ROOT/tools/install_deps.sh" build

say "2. Build (Release, tools only) in $BUILD"
mkdir -p "$BUILD" "$OUT"
options=(-DCMAKE_BUILD_TYPE=Release -DFOLD8_BUILD_TESTS=OFF)
if [ ! -f "$BUILD/CMakeCache.txt" ] && command -v ninja >/dev/null; then options+=(-G Ninja); fi
if command -v ccache >/dev/null; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
cmake -S "$ROOT" -B "$BUILD" "${options[@]}" >"$BUILD/configure.log" 2>&1 || {
  tail -40 "$BUILD/configure.log"
  exit 1
}
cmake --build "$BUILD" --target fold8 -j "$(nproc)"
fold8=$BUILD/bin/fold8
"$fold8" --version

say "3. Convert: once as it is, once to INT8 with 256 calibration images"
run "$fold8" convert "$DATA/digits_cnn.onnx" -o "$OUT/digits_float.f8" --float
run "$fold8" convert "$DATA/digits_cnn.onnx" -o "$OUT/digits_int8.f8" --calib "$DATA/digits_calib.npz" --stacked --json "$OUT/convert.json"

say "4. Report: INT8 against float on 1000 held-out images"
run "$fold8" report "$OUT/digits_float.f8" "$OUT/digits_int8.f8" --data "$DATA/digits_eval.npz" --stacked \
  --labels "$DATA/digits_eval_labels.npy" --json "$OUT/report.json" --html "$OUT/report.html"

say "5. Bench: one image, one thread, float and INT8 in turns"
for round in 1 2 3 4 5; do
  for model in float int8; do
    "$fold8" bench "$OUT/digits_$model.f8" --seconds 0.5 --threads 1 --json "$OUT/bench_${model}_$round.json" >/dev/null
  done
done

say "Summary"
status=0
python3 - "$OUT" "$MAX_LOSS" <<'PYTHON' || status=$?
import json, statistics, sys
out, max_loss = sys.argv[1], float(sys.argv[2])
read = lambda name: json.load(open(f'{out}/{name}.json'))
report, convert = read('report'), read('convert')
rounds = {m: [read(f'bench_{m}_{r}') for r in range(1, 6)] for m in ('float', 'int8')}
median = {m: statistics.median(s for b in rounds[m] for s in b['latency_ms']['samples']) for m in rounds}
accuracy, logits = report['accuracy'], report['outputs'][0]
db = 'exact' if logits['exact'] else f"{logits['sqnr_db']:.1f} dB"
print(f"CPU             {rounds['int8'][0]['cpu']}, target {rounds['int8'][0]['target']}")
print(f"accuracy        float {accuracy['reference']:.2%}, INT8 {accuracy['other']:.2%} on {accuracy['samples']} images (int8_mac_share {report['int8_mac_share']:.3f})")
print(f"SQNR of logits  {db}")
print(f"BatchNorm left  {convert['batch_norms_left']}")
print(f"latency         float {median['float']:.3f} ms, INT8 {median['int8']:.3f} ms: {median['float'] / median['int8']:.2f} times as fast (ratio of medians)")
loss = accuracy['reference'] - accuracy['other']
ok = loss <= max_loss + 1e-9
print(f"{'OK' if ok else 'FAILED'}: INT8 loses {100 * loss:.2f} points of accuracy, {100 * max_loss:.1f} are allowed")
sys.exit(0 if ok else 1)
PYTHON
echo "Models and reports are in $OUT (open report.html in a browser); next: README.md, \"Your own model\"."
exit $status
