#!/bin/sh
# headers_test.sh API_FOLDER: each installed header compiles alone, in every language standard it promises, without warnings.
set -eu
api=$1
cc=${CC:-cc}; cxx=${CXX:-c++}
flags="-Wall -Wextra -Wpedantic -Werror -fsyntax-only -I$api"
for standard in c99 c11 c17; do echo '#include "fold8.h"' | $cc -std=$standard $flags -x c -; done
for standard in c++17 c++20; do
  for header in fold8.h fold8.hpp; do printf '#include "%s"\n#include "%s"\n' $header $header | $cxx -std=$standard $flags -x c++ -; done
done
if grep -hE '^ *#include' "$api"/fold8.h "$api"/fold8.hpp | grep -E '"' | grep -v '"fold8.h"'; then
  echo "an installed header includes something of ours"; exit 1
fi
