#!/bin/sh
# installed_test.sh BUILD SOURCE WRITE_SAMPLE: installs fold8 into an empty prefix, builds the examples against it with
# find_package and with pkg-config, and runs them.
set -eu
build=$1; source=$2; write_sample=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

cmake --install "$build" --component runtime --prefix "$prefix" > "$work/install.log"
"$write_sample" "$work/model.f8"

cmake -S "$source/tools/examples" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" > "$work/configure.log"
cmake --build "$work/cmake" > "$work/build.log"
c=$("$work/cmake/classify_c" "$work/model.f8")
cpp=$("$work/cmake/classify_cpp" "$work/model.f8")
echo "find_package: $c, $cpp"
[ "$c" = "$cpp" ] || { echo "C and C++ disagree"; exit 1; }
case $c in "class "[0-9]*) ;; *) echo "unexpected output '$c'"; exit 1;; esac

pc=$(dirname "$(find "$prefix" -name fold8.pc)")
export PKG_CONFIG_PATH=$pc
libdir=$(pkg-config --define-variable=prefix="$prefix" --variable=libdir fold8)
flags=$(pkg-config --define-variable=prefix="$prefix" --cflags --libs fold8)
cc -std=gnu99 -Wall -Wextra -Werror "$source/tools/examples/classify.c" -o "$work/classify" $flags -lpthread -Wl,-rpath,"$libdir"
[ "$("$work/classify" "$work/model.f8")" = "$c" ] || { echo "pkg-config build disagrees"; exit 1; }

# Errors reach the user, not a crash.
if "$work/classify" "$work/none.f8" 2> "$work/error.log"; then echo "a missing file was accepted"; exit 1; fi
grep -q none.f8 "$work/error.log"

# An installation may be moved: nothing in it knows the prefix it was made in, pkg-config's variable excepted.
mv "$prefix" "$work/moved"
cmake -S "$source/tools/examples" -B "$work/cmake2" -DCMAKE_PREFIX_PATH="$work/moved" > "$work/configure2.log"
cmake --build "$work/cmake2" > "$work/build2.log"
[ "$("$work/cmake2/classify_c" "$work/model.f8")" = "$c" ]
