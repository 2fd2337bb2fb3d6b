#!/bin/bash
# test.sh [--full]: installs what is missing, builds everything, runs the whole test suite and ends with ctest's summary.
# From any folder, twice in a row, without questions. --full first runs the unit tests under the address and
# undefined-behaviour sanitizers too. Environment:
#   FOLD8_BUILD_DIR    where to build (default build/test)         FOLD8_ZOO_DIR  cache of the real networks
#   FOLD8_REQUIRE_ZOO  1: a real network that cannot be fetched is a failure, not a skipped test
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD=${FOLD8_BUILD_DIR:-$ROOT/build/test}
JOBS=$(nproc)
full=no
case ${1:-} in
  "") ;;
  --full) full=yes ;;
  *)
    echo "usage: test.sh [--full]" >&2
    exit 2
    ;;
esac
exec </dev/null

say() { printf '\n== %s\n' "$*"; }

configure_and_build() { # DIR, then options of CMake
  local dir=$1
  shift
  local options=(-DFOLD8_BUILD_TESTS=ON -DFOLD8_WERROR=ON -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "$@")
  if command -v ninja >/dev/null; then options+=(-G Ninja); fi
  if command -v ccache >/dev/null; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  if [ -f "$dir/CMakeCache.txt" ] && ! grep -qx "CMAKE_HOME_DIRECTORY:INTERNAL=$ROOT" "$dir/CMakeCache.txt"; then
    rm -rf "$dir" # the checkout was moved
  fi
  cmake -S "$ROOT" -B "$dir" "${options[@]}" >"$dir.configure.log" 2>&1 || {
    tail -40 "$dir.configure.log"
    echo "test.sh: configuring failed" >&2
    return 1
  }
  cmake --build "$dir" -j "$JOBS"
}

say "Packages"
"$ROOT/tools/install_deps.sh" test
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$ROOT} CCACHE_NOHASHDIR=1
mkdir -p "$BUILD"
BUILD=$(cd "$BUILD" && pwd)

if [ $full = yes ]; then
  say "Unit tests with the address and undefined-behaviour sanitizers"
  configure_and_build "$BUILD-sanitized" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DFOLD8_SANITIZE=address,undefined
  ctest --test-dir "$BUILD-sanitized" -j "$JOBS" -L unit -LE project --output-on-failure
fi

say "Build (Release, $JOBS jobs) in $BUILD"
configure_and_build "$BUILD" -DCMAKE_BUILD_TYPE=Release

say "Python environment and trial cases of the tests"
"$ROOT/tools/setup_venv.sh" "$BUILD/venv"
rm -rf "$BUILD/cases" # unit tests read them too
"$BUILD/venv/bin/python" "$ROOT/tests/cases/make_cases.py" "$BUILD/cases" >/dev/null

say "Tests"
"$BUILD/bin/fold8" --version
ctest --test-dir "$BUILD" -j "$JOBS" --output-on-failure
