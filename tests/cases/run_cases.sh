#!/bin/bash
# run_cases.sh FOLD8 CASES_DIR VENV_DIR: the ctest entry of run_cases.py.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
venv=$(bash "$here/../../tools/setup_venv.sh" "$3")
exec "$venv/bin/python" "$here/run_cases.py" --fold8 "$1" --cases "$2"
