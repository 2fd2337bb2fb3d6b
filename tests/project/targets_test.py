#!/usr/bin/env python3
"""The targets that tests/CMakeLists.txt runs the per_target tests under are those the binary has.

usage: targets_test.py FOLD8 TARGET...
"""
import re
import subprocess
import sys

text = subprocess.run([sys.argv[1], '--version'], capture_output=True, text=True, check=True).stdout
line = re.search(r'^targets: (.*)$', text, re.M)[1]
known = {t.split('(')[0].strip() for t in line.split(',')}
if known != set(sys.argv[2:]):
    sys.exit(f'the binary has {sorted(known)}, FOLD8_TARGETS of tests/CMakeLists.txt is {sorted(sys.argv[2:])}')
print(f'targets: {line}')
