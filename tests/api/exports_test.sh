#!/bin/sh
# exports_test.sh LIBRARY: it exports fold8_* and nothing else, and needs no library of oneDNN, protobuf or FlatBuffers.
set -eu
library=$1
exported=$(nm -D --defined-only "$library" | awk '{print $3}' | sed 's/@.*//' | sort -u)
strange=$(printf '%s\n' "$exported" | grep -v '^fold8_' || true)
if [ -n "$strange" ]; then
  echo "exported without the prefix fold8_:"; echo "$strange"; exit 1
fi
for name in fold8_version fold8_model_load fold8_session_run; do
  printf '%s\n' "$exported" | grep -qx "$name" || { echo "$name is not exported"; exit 1; }
done
if objdump -p "$library" | grep NEEDED | grep -E 'dnnl|protobuf|onnx|flatbuffers'; then
  echo "needs a library it should not"; exit 1
fi
objdump -p "$library" | grep -q 'SONAME *libfold8_runtime.so.0$' || { echo "wrong soname"; exit 1; }
