#!/usr/bin/env python3
"""README.md and CONTRIBUTING.md name only what exists: sub-commands and options of the binary, files of the repository.

usage: docs_test.py SOURCE_DIR FOLD8
"""
import re
import subprocess
import sys
from pathlib import Path

COMMAND = re.compile(r'fold8 ([a-z]+) ([^`\n]*)')
OPTION = re.compile(r'(?<!\S)(--?[a-z][a-z0-9-]*)')
PATH = re.compile(r'`((?:runtime|quant|fusion|tools|tests|bench|\.ci)/[\w./*-]*)`')


def help_of(fold8, command):
    done = subprocess.run([fold8, command, '--help'], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def main():
    root, fold8 = Path(sys.argv[1]).resolve(), sys.argv[2]
    problems, seen, helps = [], 0, {}
    top = subprocess.run([fold8, '--help'], capture_output=True, text=True).stdout
    for document in ('README.md', 'CONTRIBUTING.md'):
        text = (root / document).read_text().replace('\\\n', ' ')
        for command, rest in COMMAND.findall(text):
            if not re.search(rf'^ +{command} ', top, re.M):
                continue    # prose: "fold8 turns a network into ..."
            helps.setdefault(command, help_of(fold8, command))
            seen += 1
            known = OPTION.findall(helps[command].replace(',', ' ').replace('[', ' '))
            problems += [f'{document}: fold8 {command} has no option {o}' for o in OPTION.findall(rest) if o not in known]
        problems += [f'{document}: {path} does not exist' for path in PATH.findall(text)
                     if not list(root.glob(path.rstrip('/')))]
    print('\n'.join(problems) if problems else f'{seen} commands in the documents are as the binary has them')
    return 1 if problems or seen == 0 else 0


if __name__ == '__main__':
    sys.exit(main())
