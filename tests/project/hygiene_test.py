#!/usr/bin/env python3
"""What does not belong into the repository.

usage: hygiene_test.py SOURCE_DIR      Looks at the files git tracks (all files, where there is no git).
"""
import re
import subprocess
import sys
from pathlib import Path

MAX_BYTES = 1 << 20
SOURCE = ('.cc', '.h', '.hpp', '.c', '.cpp', '.inc', '.py', '.sh', '.txt', '.cmake', '.md', '.in', '.fbs', '.json', '')
# Spelled so that this file does not find itself.
UNFINISHED = re.compile(r'\b(TO' r'DO|FIX' r'ME|XX' r'X)\b')
HOME = re.compile(r'(?<![\w.$}])/(?:home|root|Users|work)/[A-Za-z0-9_.-]+')
SKIPPED = re.compile(r'\bGTEST_SK' r'IP\(\)|\bDISAB' r'LED_')
# A skip that says what this machine lacks is honest; anything else is a test that does not run. The trial cases are there
# under tools/test.sh, which writes them first.
MAY_SKIP = re.compile(r'cannot run|CPU|target|root|oneDNN|no cases', re.I)
MAX_README_LINES = 40


def tracked(root):
    listed = subprocess.run(['git', '-C', root, 'ls-files', '-z'], capture_output=True)
    if listed.returncode == 0 and listed.stdout:
        names = listed.stdout.decode().split('\0')
        return [n for n in names if n and (root / n).is_file()]
    return [f.relative_to(root).as_posix() for f in root.rglob('*')
            if f.is_file() and not f.relative_to(root).as_posix().startswith(('.git/', 'build', 'out/'))]


def check_text(name, lines):
    for number, line in enumerate(lines, 1):
        if UNFINISHED.search(line):
            yield f'{name}:{number}: unfinished: {line.strip()[:100]}'
        if HOME.search(line):
            yield f'{name}:{number}: a path of one machine: {line.strip()[:100]}'
        if SKIPPED.search(line) and not MAY_SKIP.search(' '.join(lines[number - 1:number + 1])):
            yield f'{name}:{number}: a test that does not run: {line.strip()[:100]}'


def check(root, name):
    path = root / name
    if path.stat().st_size > MAX_BYTES:
        yield f'{name}: {path.stat().st_size} bytes, at most {MAX_BYTES} are allowed'
    if path.suffix not in SOURCE or name == 'LICENSE':
        return
    text = path.read_bytes()
    if b'\0' in text:
        return
    lines = text.decode(errors='replace').splitlines()
    yield from check_text(name, lines)
    if name.endswith('/README.md') and len(lines) > MAX_README_LINES and name != 'tests/cases/README.md':
        yield f'{name}: {len(lines)} lines, a folder\'s README has at most {MAX_README_LINES}'
    if text.startswith(b'#!') and not path.stat().st_mode & 0o100:
        yield f'{name}: begins with #! but is not executable'


def main():
    root = Path(sys.argv[1]).resolve()
    names = tracked(root)
    problems = [p for name in names for p in check(root, name)]
    problems += [f'{name} is missing' for name in ('README.md', 'CONTRIBUTING.md', 'LICENSE', '.ci/run', 'tools/test.sh', 'tools/quickstart.sh')
                 if not (root / name).is_file()]
    print('\n'.join(problems) if problems else f'{len(names)} files: nothing that does not belong')
    return 1 if problems or len(names) < 50 else 0


if __name__ == '__main__':
    sys.exit(main())
