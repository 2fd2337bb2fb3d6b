"""The tables of model_bench, as Markdown."""
import importlib.metadata
import math
import platform
import statistics
import subprocess

from peers import models, runners
from peers.measure import USABLE_DB, best_peer, median_ms, ratios

BASE = runners.BASE.name
ALL = tuple(v.name for v in (*runners.PEERS, *runners.FOLD8))


def cpu_name():
    with open('/proc/cpuinfo') as info:
        facts = dict(line.split(':', 1) for line in info.read().split('\n\n')[0].splitlines() if ':' in line)
    facts = {k.strip(): v.strip() for k, v in facts.items()}
    return f'{facts["model name"]} (family {facts["cpu family"]}, model {facts["model"]})'


def version_of(package):
    try:
        return f'{package} {importlib.metadata.version(package)}'
    except importlib.metadata.PackageNotFoundError:
        return f'{package} not installed'


def heading(setup, args, results):
    fold8 = subprocess.run([setup.fold8, '--version'], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    targets = {name: target for r in results for name, target in r['targets'].items()}
    loads = [x for r in results for x in r['load_average']]
    lines = [f'- CPU: {cpu_name()}; Linux {platform.release()}; mask: {args.mask or "none"}',
             f'- fold8: {fold8}, default flags, 32 calibration samples; target ' + ', '.join(f'{n} {t}' for n, t in targets.items()),
             '- peers: ' + ', '.join(map(version_of, ('onnxruntime', 'openvino', 'nncf'))),
             f'- {args.rounds} interleaved rounds, {args.seconds} s a block, one thread pinned to core {args.core}, CPU time per '
             f'inference, load average {min(loads):.1f} to {max(loads):.1f}']
    return lines


def cells(*values):
    return '| ' + ' | '.join(str(v) for v in values) + ' |'


def table(head, rows):
    return [cells(*head), '|' + '---|' * len(head), *(cells(*row) for row in rows), '']


def judged(values, line, digits=2):
    """'**0.85** (8 of 9)': the median over the rounds and how many are at most `line`; bold where 7 of 9 are, and the median."""
    median, met = statistics.median(values), sum(v <= line for v in values)
    stars = '**' if median <= line and 9 * met >= 7 * len(values) else ''
    return f'{stars}{median:.{digits}f}{stars} ({met} of {len(values)})'


def present(results, key):
    """The variants that any of the results has under this key, in the tables' order."""
    return [n for n in ALL if any(n in r[key] for r in results)]


def against_ort(results):
    """Time of every variant as a ratio to ORT FP32, and its SQNR."""
    def cell(r, name):
        if name not in r['rounds_ms']:
            return 'failed' if name in r['errors'] else '–'
        ratio, sqnr = statistics.median(ratios(r, name, BASE)), r['accuracy'][name]['sqnr']
        return f'{ratio:.2f}, {sqnr:.0f} dB' if sqnr < 60 else f'{ratio:.2f}'

    names = [n for n in present(results, 'rounds_ms') if n != BASE]
    rows = [[r['model'], f'{median_ms(r, BASE):.3f}', *(cell(r, n) for n in names)] for r in results]
    return ['### Time / time of ONNX Runtime FP32, SQNR of the output against it (none given: above 60 dB)', '',
            *table(['model', f'{BASE} ms', *names], rows)]


def fold8_row(r, line):
    """fold8 against the fastest peer and the fastest float peer of one model."""
    def judge(peer, name='fold8_int8'):
        return judged(ratios(r, name, peer), line) if {name, peer} <= r['rounds_ms'].keys() else '–'

    def ms(name):
        return f'{median_ms(r, name):.3f}' if name in r['rounds_ms'] else 'failed'

    best, best_float, share = best_peer(r, 'any'), best_peer(r, 'float'), r['int8_mac_share']
    return [r['model'], ms('fold8_int8'), judge(BASE), f'{best} {ms(best)}', judge(best), f'{best_float} {ms(best_float)}',
            judge(best_float), judge(best_float, 'fold8_float'), judge('fold8_float'), '–' if share is None else f'{share:.3f}']


def against_peers(results, line):
    head = ['model', 'fold8 INT8 ms', '/ ORT FP32', f'fastest peer (≥ {USABLE_DB:.0f} dB), ms', 'fold8 INT8 / it',
            'best float peer, ms', 'fold8 INT8 / it', 'fold8 float / it', 'fold8 INT8 / fold8 float', 'int8_mac_share']
    return ['### fold8 against the fastest peer', '',
            f"Medians of the rounds' ratios, and in how many rounds the ratio is at most {line}; bold: in at least 7 of 9.", '',
            *table(head, [fold8_row(r, line) for r in results])]


def geometric_means(results, rival):
    """fold8 INT8's ratio to each model's rival, one geometric mean over the models a round."""
    by_model = [ratios(r, 'fold8_int8', rival(r)) for r in results]
    return [math.exp(statistics.fmean(map(math.log, of_round))) for of_round in zip(*by_model)]


def means(results, line):
    rivals = {'fold8 INT8 / ORT FP32': lambda r: BASE, '/ fastest peer': lambda r: best_peer(r, 'any'),
              '/ best float peer': lambda r: best_peer(r, 'float'), '/ fold8 float': lambda r: 'fold8_float'}
    rows = []
    for group, members in models.GROUPS.items():
        inside = [r for r in results if r['model'] in members and {'fold8_int8', 'fold8_float'} <= r['rounds_ms'].keys()]
        if inside:
            rows.append([group, len(inside), *(judged(geometric_means(inside, rival), line, 3) for rival in rivals.values())])
    return ['### Geometric means over the models of a group', '', 'Taken in each round; judged like the ratios above.', '',
            *table(['group', 'models', *rivals], rows)]


def tasks(results):
    """SQNR, and what it means for the task."""
    def cell(r, name):
        return '{task:.4f}, {sqnr:.1f} dB'.format(**r['accuracy'][name]) if name in r['accuracy'] else '–'

    names = [n for n in present(results, 'accuracy') if n != BASE]
    rows = [[r['model'] + (' (trained)' if r['model'] in models.TRAINED else ''), r['accuracy'][BASE]['task_name'],
             *(cell(r, n) for n in names)] for r in results]
    return ['### Accuracy on the 16 evaluation samples, ONNX Runtime FP32 being right', '', *table(['model', 'measure', *names], rows)]


def cold(results):
    def cell(r, name):
        return '{load_ms:.1f} + {first_ms:.1f} ms, {memory_mb:.0f} MB'.format(**r['cold'][name]) if name in r['cold'] else '–'

    def share(r, key):
        ours, theirs = (r['cold'].get(name) for name in ('fold8_int8', 'ort_u8s8_mm'))
        return f'{ours[key] / theirs[key]:.3f}' if ours and theirs else '–'

    names, keys = present(results, 'cold'), ('load_ms', 'answer_ms', 'memory_mb')
    rows = [[r['model'], *(cell(r, n) for n in names), *(share(r, key) for key in keys)] for r in results]
    if not names:
        return []
    return ['### Cold start: load + first inference (CPU ms), peak memory over that before loading (MB)', '',
            'fold8 in a C program, peers in Python: imports are in neither figure, freed memory was given back before loading.',
            'The last columns are fold8 INT8 / ORT static INT8: loading, loading and first inference, memory.', '',
            *table(['model', *names, 'load', 'first answer', 'memory'], rows)]


def failures(results):
    lines = [f'- {r["model"]}, {name}: {" ".join(text.split())[-400:]}' for r in results for name, text in r['errors'].items()]
    return ['### Failures', '', *lines, ''] if lines else []


def markdown(setup, args, results):
    return '\n'.join([*heading(setup, args, results), '', *against_peers(results, args.line), *means(results, args.line),
                      *against_ort(results), *tasks(results), *cold(results), *failures(results)])
