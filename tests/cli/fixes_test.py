#!/usr/bin/env python3
"""Fixes that `fold8 report` prints, pasted behind the command that made the model: each does what it says, whatever that command said.

usage: fixes_test.py --fold8 BINARY --work DIR --venv DIR
"""
import re
import shlex
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'support'))
from fold8_command import DATA, ROOT, Checks, Fold8, command_line, empty_folder  # noqa: E402

CNN, LN = DATA / 'digits_cnn.onnx', DATA / 'digits_ln.onnx'
PRINTERS = ('quant/fixes.cc', 'quant/batch_norm_facts.cc', 'tools/cli/advise.cc')
CLIPPED = ('--no-search', '--smooth', 'off', '--method', 'percentile', '--percentile', '0.99', '--activations', 'static')


def data(work):
    import numpy as np

    images = np.load(DATA / 'digits_calib.npz')['image'][:48]
    (work / 'held_out').mkdir()
    for i, image in enumerate(images[32:40]):
        np.savez(work / 'held_out' / f'{i}.npz', image=image[None])
    np.savez(work / 'cal.npz', image=images[:32])
    np.savez(work / 'dim.npz', image=images[:32] * 0.05)
    np.savez(work / 'bright.npz', image=images[32:48] * 6)


def kinds(work):
    """(fix, model, options of the user that it has to get the better of, what stays of them)."""
    cal = ('--calib', work / 'cal.npz', '--stacked')
    recalib = f"--recalib '{work / 'held_out'}'"
    return [
        (f'{recalib} --method minmax', CNN, (*cal, '--mean', '1,2,3', '--std', '4,5,6', '--layout', 'nhwc', '--max-samples', '2', '--method', 'entropy'), ()),
        (f'{recalib} --method minmax', CNN, ('--stats', work / 'cal.stats', '--method', 'mse'), ()),
        (f"--recalib '{work / 'cal.npz'}' --stacked --max-samples 5", CNN, ('--calib', work / 'held_out', '--max-samples', '3'), ()),
        ("--keep-float 'conv*' --keep-float 'Gemm*'", CNN, (*cal, '--no-search'), ('--keep-float', 'nothing')),
        ('--smooth 0.5', LN, (*cal, '--smooth', 'off'), ()),
        ('--activations dynamic', LN, (*cal, '--activations', 'static'), ()),
        ('--method mse', CNN, (*cal, '--method', 'percentile', '--percentile', '0.99'), ()),
        ('--method percentile --percentile 0.9999', CNN, (*cal, '--method', 'percentile', '--percentile', '0.99'), ()),
        ('--weights channel', LN, (*cal, '--weights', 'tensor'), ()),
        ('--streams f32', CNN, (*cal, '--streams', 'u8'), ()),
        ('--attention f32', LN, (*cal, '--attention', 'int8'), ()),
        ("--preprocess 'image:mean=0.1,std=0.3'", CNN, (*cal, '--preprocess', 'image:mean=0,std=255'), ()),
        ('--reestimate-bn', CNN, (*cal, '--reestimate-bn'), ()),
    ]


def conflicts(fix, options):
    """The options without those that the fix gives again."""
    if '--recalib' in fix:
        return ()
    given = set(re.findall(r'--[a-z-]+', fix))
    kept, i = [], 0
    while i < len(options):
        end = i + 1
        while end < len(options) and not str(options[end]).startswith('--'):
            end += 1
        if options[i] not in given:
            kept += options[i:end]
        i = end
    return tuple(kept)


def every_flag_is_tested(checks, work):
    printed = {flag for f in PRINTERS for flag in re.findall(r'"(--[a-z][a-z-]+)', (ROOT / f).read_text())}
    tested = {flag for fix, *_ in kinds(work) for flag in re.findall(r'--[a-z][a-z-]+', fix)}
    checks.expect(len(printed) >= 9 and not printed - tested, f'flags that reports print: {sorted(printed)}, not pasted here: {sorted(printed - tested)}')


def pasting(fold8, checks, work):
    """The same bytes as if the user had taken back what the fix replaces."""
    fold8('calibrate', CNN, '-o', work / 'cal.stats', '--data', work / 'cal.npz', '--stacked')
    for fix, model, options, stays in kinds(work):
        flags = shlex.split(fix)
        command = ('convert', model, '-o', work / 'pasted.f8', *options, *stays, *flags)
        status, said = fold8.start(*command)
        if not checks.expect(status == 0, f'{" ".join(map(str, (*options, *stays)))} {fix}: status {status}'):
            print(said.strip()[-500:])
            continue
        plain = [f if f != '--recalib' else '--calib' for f in flags]
        fold8('convert', model, '-o', work / 'plain.f8', *conflicts(fix, options), *stays, *plain)
        checks.expect((work / 'pasted.f8').read_bytes() == (work / 'plain.f8').read_bytes(), f'{fix}: as the command without what it replaces')


def what_needs_samples(fold8, checks, work):
    """Two fixes change the network: statistics of another one are refused by name."""
    for fix, word in (('--reestimate-bn', '--stats'), ("--preprocess 'image:mean=0.1,std=0.3'", 'another model')):
        status, said = fold8.start('convert', CNN, '-o', work / 'no.f8', '--stats', work / 'cal.stats', *shlex.split(fix))
        checks.expect(status == 2 and word in said, f'--stats with {fix}: status {status}')


def real_reports(fold8, checks, work):
    """Every fix of reports on models that are poor for several reasons: it can be pasted, one helps, and what was measured comes true."""
    held_out = ('--data', work / 'held_out')
    for what, model, calibration, options in (('dim', CNN, 'dim', ('--no-search',)), ('clipped', CNN, 'cal', CLIPPED), ('clipped', LN, 'cal', CLIPPED)):
        name = f'{what} {model.stem}'
        command = ('convert', model, '-o', work / 'r.f8', '--calib', work / f'{calibration}.npz', '--stacked', *options)
        fold8(*command)
        report = fold8.facts(work / 'r.json', 'report', model, work / 'r.f8', *held_out)
        before, wins = report['outputs'][0]['sqnr_db'], {}
        fixes = {f['flag']: f for finding in report['what_to_do'] for f in finding['fixes'] if f['flag']}
        checks.expect(len(fixes) >= 4 and any(f['measured'] for f in fixes.values()), f'{name}: {len(fixes)} fixes, some of them measured')
        for flag in fixes:
            status, said = fold8.start(*command, *shlex.split(flag))
            if checks.expect(status == 0, f'{name}: {flag}: status {status} {said.strip()[-200:] if status else ""}'):
                after = fold8.facts(work / 'a.json', 'report', model, work / 'r.f8', *held_out, '--outputs-only')['outputs'][0]['sqnr_db']
                wins[flag] = after - before
        best = max(wins, key=wins.get)
        checks.expect(wins[best] > 2, f'{name}, {before:.1f} dB: {best} wins {wins[best]:.1f} dB')
        for flag, f in fixes.items():
            # Of a network that is lost, parts of the error hide behind each other.
            if f['measured'] and what != 'dim':
                checks.expect(abs(wins[flag] - f['gained_db']) <= 1.5 + 0.3 * abs(f['gained_db']), f'{name}: {flag} was measured to win {f["gained_db"]:.2f} dB; converted, it wins {wins[flag]:.2f}')


def other_data(fold8, checks, work):
    """A model calibrated on other data than the report's: --method alone, which reads the same data again, is no fix; --recalib is, and wins what it says."""
    command = ('convert', CNN, '-o', work / 'o.f8', '--calib', work / 'cal.npz', '--stacked', '--no-search')
    seen = ('--data', work / 'bright.npz', '--stacked')
    fold8(*command)
    report = fold8.facts(work / 'o.json', 'report', CNN, work / 'o.f8', *seen)
    before = report['outputs'][0]['sqnr_db']
    fixes = {f['flag']: f for finding in report['what_to_do'] for f in finding['fixes'] if f['flag']}
    checks.expect(not any(flag.startswith('--method') for flag in fixes), f'{before:.1f} dB on other data: {sorted(fixes)}')
    again = [f for flag, f in fixes.items() if '--recalib' in flag]
    if checks.expect(len(again) == 1, 'calibrating again is a fix'):
        fold8(*command, *shlex.split(again[0]['flag']))
        wins = fold8.facts(work / 'a.json', 'report', CNN, work / 'o.f8', *seen, '--outputs-only')['outputs'][0]['sqnr_db'] - before
        checks.expect(again[0]['gained_db'] <= wins + 3, f'estimated to win {again[0]["gained_db"]:.1f} dB, it wins {wins:.1f}')


def batch_norms(fold8, checks, work):
    """A BatchNorm that cannot be folded: which one, why, and what to change in the model, since no flag helps."""
    import onnx

    model = onnx.load(CNN)
    norm = next(n for n in model.graph.node if n.op_type == 'BatchNormalization')
    for name in (norm.input[0], norm.output[0]):   # without the second, it becomes the quantizer of what follows
        model.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
        model.graph.output[-1].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    onnx.save(model, work / 'bn.onnx')
    facts = fold8.facts(work / 'c.json', 'convert', work / 'bn.onnx', '-o', work / 'bn.f8', '--calib', work / 'cal.npz', '--stacked')
    said = fold8('report', work / 'bn.onnx', work / 'bn.f8', '--data', work / 'held_out', '--json', work / 'bn.json', '--html', work / 'bn.html', '--no-time')
    report = fold8.facts(work / 'bn.json', 'report', work / 'bn.onnx', work / 'bn.f8', '--data', work / 'held_out')
    found = [f for f in report['what_to_do'] if f['cause_kind'] == 'unfolded_batch_norm']
    checks.expect(facts['batch_norms_left'] == 1 and len(found) == 1, f'{facts["batch_norms_left"]} BatchNorm left, {len(found)} named')
    cause, last = found[0]['cause'], found[0]['fixes'][-1]
    checks.expect(norm.name in cause and f"'{norm.input[0]}' is also a graph output" in cause, f'which, and why: {cause}')
    checks.expect(last['flag'] == '' and norm.input[0] in last['text'] and not last['measured'], f'what to change: {last}')
    checks.expect('   model: ' in said and 'try:   \n' not in said, 'the terminal says so, and offers no empty flag')


def main():
    a = command_line(__doc__)
    work = empty_folder(a.work / 'fixes_test')
    checks, fold8 = Checks(), Fold8(a.fold8)
    data(work)
    every_flag_is_tested(checks, work)
    for test in (pasting, what_needs_samples, real_reports, other_data, batch_norms):
        test(fold8, checks, work)
    checks.finish('fixes')


if __name__ == '__main__':
    main()
