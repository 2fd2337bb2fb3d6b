"""The tables of model_bench, as Markdown."""
import importlib.metadata
import math
import platform
import statistics
import subprocess

from peers import models, runners
from peers.measure import USABLE_DB, best_peer, median_ms, ratios

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


def judged(result, a, b, line):
    """'0.85 (8 of 9)': median of a/b and in how many rounds it is at most `line`."""
    all_ratios = ratios(result, a, b)
    return f'**{statistics.median(all_ratios):.2f}** ({sum(r <= line for r in all_ratios)} of {len(all_ratios)})'


def against_ort(results):
    """Time of every variant as a ratio to ORT FP32, and its SQNR."""
    def cell(r, name):
        if name not in r['rounds_ms']:
            return 'failed' if name in r['errors'] else '–'
        sqnr = r['accuracy'][name]['sqnr']
        return f'{statistics.median(ratios(r, name, "ort_fp32")):.2f}, {sqnr:.0f} dB' if sqnr < 60 else f'{statistics.median(ratios(r, name, "ort_fp32")):.2f}'

    names = [n for n in ALL if n != 'ort_fp32' and any(n in r['rounds_ms'] for r in results)]
    return ['### Time / time of ONNX Runtime FP32, SQNR of the output against it (none given: above 60 dB)', '',
            *table(['model', 'ort_fp32 ms', *names], [[r['model'], f'{median_ms(r, "ort_fp32"):.3f}', *(cell(r, n) for n in names)] for r in results])]


def fold8_row(r, line):
    best, best_float = best_peer(r, 'any'), best_peer(r, 'float')
    mine = 'fold8_int8' in r['rounds_ms']
    judge = lambda peer: judged(r, 'fold8_int8', peer, line) if mine and peer else '–'
    share = r['int8_mac_share']
    return [r['model'], f'{median_ms(r, "fold8_int8"):.3f}' if mine else 'failed', judge('ort_fp32'),
            f'{best} {median_ms(r, best):.3f}', judge(best), f'{best_float} {median_ms(r, best_float):.3f}', judge(best_float),
            judged(r, 'fold8_float', best_float, line) if 'fold8_float' in r['rounds_ms'] else '–',
            judged(r, 'fold8_int8', 'fold8_float', line) if mine and 'fold8_float' in r['rounds_ms'] else '–',
            f'{share:.3f}' if share is not None else '–']


def against_peers(results, line):
    head = ['model', 'fold8 INT8 ms', '/ ORT FP32', f'fastest peer (≥ {USABLE_DB:.0f} dB), ms', 'fold8 INT8 / it', 'best float peer, ms',
            'fold8 INT8 / it', 'fold8 float / it', 'fold8 INT8 / fold8 float', 'int8_mac_share']
    return [f'### fold8 against the fastest peer: median of the rounds\' ratios (rounds at most {line})', '',
            *table(head, [fold8_row(r, line) for r in results])]


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def means(results, line):
    rows = []
    for group, members in models.GROUPS.items():
        inside = [r for r in results if r['model'] in members and 'fold8_int8' in r['rounds_ms']]
        if not inside:
            continue
        by_round = lambda peer: [geometric_mean(x) for x in zip(*(ratios(r, 'fold8_int8', peer(r)) for r in inside))]
        row = [group, len(inside)]
        for peer in (lambda r: 'ort_fp32', lambda r: best_peer(r, 'any'), lambda r: best_peer(r, 'float'), lambda r: 'fold8_float'):
            means_of_rounds = by_round(peer)
            row.append(f'**{statistics.median(means_of_rounds):.3f}** ({sum(m <= line for m in means_of_rounds)} of {len(means_of_rounds)})')
        rows.append(row)
    return ['### Geometric means over the models of a group, taken in each round; median (rounds at most ' f'{line})', '',
            *table(['group', 'models', 'fold8 INT8 / ORT FP32', '/ fastest peer', '/ best float peer', '/ fold8 float'], rows)]


def tasks(results):
    names = [n for n in ALL if n != 'ort_fp32' and any(n in r['accuracy'] for r in results)]
    rows = []
    for r in results:
        trained = ' (trained)' if r['model'] in models.TRAINED else ''
        of = lambda n: f'{r["accuracy"][n]["task"]:.4f}, {r["accuracy"][n]["sqnr"]:.1f} dB' if n in r['accuracy'] else '–'
        rows.append([r['model'] + trained, r['accuracy']['ort_fp32']['task_name'], *(of(n) for n in names)])
    return ['### Accuracy on the 16 evaluation samples, ONNX Runtime FP32 being right', '', *table(['model', 'measure', *names], rows)]


def cold(results):
    if not any(r['cold'] for r in results):
        return []
    names = [n for n in ALL if any(n in r['cold'] for r in results)]
    of = lambda r, n: '{load_ms:.1f} + {first_ms:.1f} ms, {memory_mb:.0f} MB'.format(**r['cold'][n]) if n in r['cold'] else '–'
    return ['### Cold start: load + first inference (CPU ms), peak memory over that before loading (MB)', '',
            'fold8 in a C program, peers in Python: imports are in neither figure, freed memory was given back before loading.', '',
            *table(['model', *names], [[r['model'], *(of(r, n) for n in names)] for r in results])]


def failures(results):
    lines = [f'- {r["model"]}, {name}: {" ".join(text.split())[-400:]}' for r in results for name, text in r['errors'].items()]
    return ['### Failures', '', *lines, ''] if lines else []


def markdown(setup, args, results):
    return '\n'.join([*heading(setup, args, results), '', *against_peers(results, args.line), *means(results, args.line),
                      *against_ort(results), *tasks(results), *cold(results), *failures(results)])
