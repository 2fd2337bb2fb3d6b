#!/bin/bash
# install_deps.sh [build|test]: installs the Debian 12 packages fold8 needs and does not find; `build` only those to
# compile the tools, `test` (the default) also those of the tests. As root, or with sudo. Safe to run again; quick then.
set -euo pipefail

# What each one is for: CONTRIBUTING.md, "Dependencies". python3-venv, unzip and the fonts serve the real networks of tests/zoo,
# chromium looks at the pages of `fold8 report --html`.
BUILD="g++ cmake ninja-build pkg-config python3
libxsimd-dev xtl-dev libdnnl-dev ocl-icd-opencl-dev libflatbuffers-dev flatbuffers-compiler libxxhash-dev
libonnx-dev libprotobuf-dev libcli11-dev libfmt-dev nlohmann-json3-dev libstb-dev zlib1g-dev libcpp-httplib-dev"
TEST="libgtest-dev libgmock-dev libbenchmark-dev git unzip file binutils python3-venv qemu-user fonts-dejavu-core fonts-liberation chromium"
OPTIONAL="ccache" # only makes the second build faster

case ${1:-test} in
  build) wanted=$BUILD optional="" ;;
  test) wanted="$BUILD $TEST" optional=$OPTIONAL ;;
  *)
    echo "usage: install_deps.sh [build|test]" >&2
    exit 2
    ;;
esac

missing_of() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null)" = "install ok installed" ] || printf '%s ' "$package"
  done
}

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "install_deps: no apt-get here; install what corresponds to these Debian packages, then go on:" >&2
  echo $wanted >&2
  exit 0
fi
missing=$(missing_of $wanted)
extra=$(missing_of $optional)
if [ -z "$missing" ]; then
  echo "install_deps: all packages are there"
  exit 0
fi

as_root=""
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install_deps: not root and no sudo; as root, run: apt-get install $missing" >&2
    exit 1
  fi
  as_root="sudo"
fi
apt() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 -qq "$@" </dev/null; }

echo "install_deps: installing $missing$extra"
apt update || echo "install_deps: the package lists could not be renewed; trying with those that are there" >&2
apt install -y --no-install-recommends $missing >/dev/null
if [ -n "$extra" ]; then
  apt install -y --no-install-recommends $extra >/dev/null || echo "install_deps: going on without $extra" >&2
fi
still=$(missing_of $missing)
if [ -n "$still" ]; then
  echo "install_deps: still missing: $still" >&2
  exit 1
fi
echo "install_deps: done"
