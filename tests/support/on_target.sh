#!/bin/sh
# on_target.sh TARGET FOLD8 COMMAND...: runs a test with FOLD8_TARGET=TARGET; 77 (skipped) where this CPU lacks the target.
set -eu
target=$1 fold8=$2
shift 2
known=$("$fold8" --version | sed -n 's/^targets: //p' | tr ',' '\n' | sed 's/^ *//')
if printf '%s\n' "$known" | grep -qx "$target (not on this CPU)"; then
  echo "SKIPPED: this CPU cannot run $target"
  exit 77
fi
printf '%s\n' "$known" | grep -qx "$target" || { echo "$fold8 knows no target $target"; exit 1; }
FOLD8_TARGET=$target exec "$@"
