#!/usr/bin/env python3
"""fold8 calibrate, merge, inspect and convert --stats: shards of any kind give the bytes of one run, and what does not fit is refused.

usage: statistics_test.py --fold8 BINARY --work DIR --venv DIR
"""
import json
import random
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'support'))
from fold8_command import DATA, Checks, Fold8, command_line, empty_folder  # noqa: E402

CNN, LN = DATA / 'digits_cnn.onnx', DATA / 'digits_ln.onnx'
USAGE, BAD = 2, 3
PLAIN = ('--smooth', 'off', '--no-search', '--streams', 'u8', '--attention', 'int8')   # no sample could change anything


def shards(work, count):
    """The samples as one file, and as `count` files of unlike sizes."""
    import numpy as np

    images = np.load(DATA / 'digits_calib.npz')['image'][:64]
    seed = random.randrange(1 << 30)
    cuts = sorted(random.Random(seed).sample(range(1, 64), count - 1))
    np.savez(work / 'all.npz', image=images)
    for i, part in enumerate(np.split(images, cuts)):
        np.savez(work / f'{i}.npz', image=part)
    return seed


def merging(fold8, checks, work):
    seed = shards(work, 5)
    for name in ('all', *range(5)):
        fold8('calibrate', CNN, '-o', work / f'{name}.stats', '--data', work / f'{name}.npz', '--stacked')
    whole = (work / 'all.stats').read_bytes()

    def merged(*parts):
        fold8('merge', *(work / f'{p}.stats' for p in parts), '-o', work / 'merged.stats')
        return (work / 'merged.stats').read_bytes()
    order = list(range(5))
    random.Random(seed).shuffle(order)
    checks.expect(merged(*order) == whole, f'merged in the order {order} (seed {seed}): the bytes of one run')
    merged(3, 1)
    shutil.copy(work / 'merged.stats', work / 'a.stats')
    merged(4, 'a')
    shutil.copy(work / 'merged.stats', work / 'b.stats')
    checks.expect(merged(2, 'b', 0) == whole, 'merged in groups: the bytes of one run')
    fold8('calibrate', CNN, '-o', work / 'target.stats', '--data', work / 'all.npz', '--stacked', '--threads', 2, target='avx2')
    checks.expect((work / 'target.stats').read_bytes() == whole, 'another instruction set and more threads: the same bytes')


def converting(fold8, checks, work):
    for model, options in ((CNN, PLAIN), (LN, PLAIN), (CNN, (*PLAIN, '--method', 'entropy'))):
        fold8('calibrate', model, '-o', work / 'm.stats', '--data', work / 'all.npz', '--stacked')
        status, said = fold8.start('convert', model, '-o', work / 'stats.f8', '--stats', work / 'm.stats', *options)
        fold8('convert', model, '-o', work / 'calib.f8', '--calib', work / 'all.npz', '--stacked', *options)
        checks.expect(status == 0 and (work / 'stats.f8').read_bytes() == (work / 'calib.f8').read_bytes(), f'{model.name} {" ".join(options)}: --stats gives the file of --calib')
        checks.expect('was not checked against float' in said, 'what --stats alone leaves out is said')
    fold8('convert', CNN, '-o', work / 'both.f8', '--stats', work / 'all.stats', '--calib', work / '0.npz', '--stacked', '--json', work / 'both.json')
    facts = json.loads((work / 'both.json').read_text())
    checks.expect(facts['samples'] == 64 and facts['outputs'][0]['sqnr_db'] > 10, '--stats with --calib: ranges of all, errors on its samples')
    status, said = fold8.start('convert', CNN, '-o', work / 'smooth.f8', '--stats', work / 'all.stats', '--smooth', '0.5')
    checks.expect(status == 0, f'--stats with --smooth ALPHA: status {status}: {said[-200:]}')


def inspecting(fold8, checks, work):
    status, said = fold8.start('inspect', work / 'all.stats', '--json', work / 'i.json')
    facts = json.loads((work / 'i.json').read_text())
    image = next((t for t in facts['tensors'] if t['name'] == 'image'), None)
    checks.expect(status == 0 and 'image' in said and '64 samples' in said and image and image['min'] >= 0 and image['values'] == 64 * 28 * 28, f'inspect: {image}')


def refusing(fold8, checks, work):
    def refuses(what, args, status, *words):
        got, said = fold8.start(*args, limit=60)
        left = list(work.glob('no.*'))
        checks.expect(got == status and all(w in said for w in words) and not left, f'{what}: status {got}, said {said.strip()[-160:]!r}, left {left}')
    no = ('-o', work / 'no.stats')
    fold8('calibrate', LN, '-o', work / 'ln.stats', '--data', work / 'all.npz', '--stacked')
    refuses('statistics of another model', ('convert', CNN, '-o', work / 'no.f8', '--stats', work / 'ln.stats'), USAGE, 'belong to another model', 'fold8 calibrate')
    refuses('statistics of two models', ('merge', work / 'all.stats', work / 'ln.stats', *no), USAGE, 'different models', 'ln.stats')
    refuses('re-estimated BatchNorms with statistics', ('convert', CNN, '-o', work / 'no.f8', '--stats', work / 'all.stats', '--reestimate-bn'), USAGE, '--reestimate-bn')
    refuses('re-estimated BatchNorms without samples', ('convert', CNN, '-o', work / 'no.f8', '--activations', 'dynamic', '--reestimate-bn'), USAGE, '--reestimate-bn', '--calib')
    whole = (work / 'all.stats').read_bytes()
    for what, content in (('empty', b''), ('half a file', whole[:len(whole) // 2]), ('changed', whole[:900] + bytes([whole[900] ^ 1]) + whole[901:]), ('text', b'text ' * 50)):
        (work / 'bad.stats').write_bytes(content)
        refuses(f'{what} as statistics', ('merge', work / 'bad.stats', *no), BAD, 'bad.stats')
    refuses('the output over an input', ('merge', work / 'all.stats', '-o', work / 'all.stats'), USAGE, 'overwrite')
    checks.expect((work / 'all.stats').read_bytes() == whole, 'the input is still there')


def reestimating(fold8, checks, work):
    import numpy as np

    np.savez(work / 'dark.npz', image=np.load(DATA / 'digits_calib.npz')['image'][:64] * 0.25)   # a dim camera
    dark = ('--calib', work / 'dark.npz', '--stacked', '--float')
    status, said = fold8.start('convert', CNN, '-o', work / 'dark.f8', *dark, '--reestimate-bn', '--json', work / 'dark.json')
    norms = json.loads((work / 'dark.json').read_text()).get('reestimated', []) if status == 0 else []
    checks.expect(status == 0 and norms and norms[0]['most_shift'] > 0.1 and 're-estimated' in said, f'--reestimate-bn says what changed: {len(norms)} BatchNorms')
    images, labels = np.load(DATA / 'digits_eval.npz')['image'], np.load(DATA / 'digits_eval_labels.npy')
    np.savez(work / 'dark_eval.npz', image=images[:400] * 0.25)
    np.save(work / 'labels.npy', labels[:400])
    fold8('convert', CNN, '-o', work / 'stored.f8', '--float')
    fold8('report', work / 'stored.f8', work / 'dark.f8', '--data', work / 'dark_eval.npz', '--stacked', '--labels', work / 'labels.npy', '--outputs-only', '--json', work / 'r.json')
    report = json.loads((work / 'r.json').read_text())
    before, after = report['accuracy']['reference'], report['accuracy']['other']
    checks.expect(after >= before, f'accuracy on dim pictures: {before} with stored statistics, {after} with their own')


def main():
    a = command_line(__doc__)
    work = empty_folder(a.work / 'statistics_test')
    checks, fold8 = Checks(), Fold8(a.fold8)
    for test in (merging, converting, inspecting, refusing, reestimating):
        test(fold8, checks, work)
    checks.finish('statistics')


if __name__ == '__main__':
    main()
