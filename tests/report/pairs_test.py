#!/usr/bin/env python3
"""`fold8 report` on any two of: float ONNX, QDQ ONNX, float .f8, INT8 .f8, and smoothed networks; labels and limits of outputs;
many samples of several shapes in little memory.

usage: pairs_test.py --fold8 BINARY --work DIR --venv DIR
"""
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'support'))
from fold8_command import DATA, Checks, Fold8, command_line, empty_folder  # noqa: E402

USAGE, BAD = 2, 3
CALIBRATION = ('--calib', DATA / 'digits_calib.npz', '--stacked', '--max-samples', 16)
EVAL = ('--data', DATA / 'digits_eval.npz', '--stacked', '--max-samples', 8)
SAME_DB = 100  # of two float networks that differ by rounding alone


def least_db(layers, key):
    values = [l[key]['sqnr_db'] for l in layers if l[key]['sqnr_db'] is not None]
    return min(values, default=999)


def forms(checks, fold8, work):
    """A network trained with quantization in the loop (QDQ), its float twin, and what fold8 makes of them."""
    qdq, twin = DATA / 'digits_cnn_qat.onnx', DATA / 'digits_cnn.onnx'
    int8, float8, other8 = work / 'qat.f8', work / 'float.f8', work / 'cnn.f8'
    fold8('convert', qdq, '-o', int8)
    fold8('convert', qdq, '-o', float8, '--float')
    fold8('convert', twin, '-o', other8, *CALIBRATION)
    expected = {(qdq, int8): 20, (int8, qdq): 20, (float8, int8): 20, (qdq, float8): SAME_DB, (twin, other8): 20, (other8, twin): 20, (other8, other8): 999}
    for (a, b), floor in expected.items():
        j = fold8.facts(work / 'r.json', 'report', a, b, *EVAL)
        outputs = [o['sqnr_db'] if not o['exact'] else 999 for o in j['outputs']]
        checks.at_least(f'{a.name} and {b.name}, outputs', min(outputs), floor)
        checks.expect(len(j['layers']) >= 3, f'{a.name} and {b.name}: {len(j["layers"])} layers are shared')


def smoothed(checks, fold8, work):
    """Smoothing rescales tensors; the factors travel with .onnx and .f8, and reports undo them."""
    for network in ('digits_ln', 'digits_rms', 'digits_cnn'):
        original, onnx, f8 = DATA / f'{network}.onnx', work / f'{network}_smooth.onnx', work / f'{network}_smooth.f8'
        fold8('fold', original, '-o', onnx, '--smooth', '0.5', *CALIBRATION)
        fold8('convert', onnx, '-o', f8, '--float')
        for model in (onnx, f8):
            j = fold8.facts(work / 'r.json', 'report', original, model, *EVAL, '--min-sqnr', SAME_DB)
            for key in ('own', 'accumulated'):
                checks.at_least(f'{model.name}, worst layer, {key}', least_db(j['layers'], key), SAME_DB)
            checks.expect(len(j['layers']) >= 5, f'{model.name}: {len(j["layers"])} layers')


def two_heads(path):
    """Class scores, a regression, and indices, of x [n, 4] with any number of rows."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(2)
    weights = [numpy_helper.from_array(rng.normal(size=s).astype(np.float32), n) for n, s in (('w', (4, 16)), ('a', (16, 3)), ('b', (16, 1)))]
    nodes = [helper.make_node('MatMul', ['x', 'w'], ['h0']), helper.make_node('Relu', ['h0'], ['h']), helper.make_node('MatMul', ['h', 'b'], ['price=eur']),
             helper.make_node('MatMul', ['h', 'a'], ['scores']), helper.make_node('ArgMax', ['scores'], ['best'], axis=1, keepdims=0)]
    graph = helper.make_graph(nodes, 'heads', [helper.make_tensor_value_info('x', TensorProto.FLOAT, ['n', 4])],
                              [helper.make_tensor_value_info('price=eur', TensorProto.FLOAT, ['n', 1]), helper.make_tensor_value_info('scores', TensorProto.FLOAT, ['n', 3]),
                               helper.make_tensor_value_info('best', TensorProto.INT64, ['n'])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)], ir_version=8), path)
    return path


def labels_and_limits(checks, fold8, work):
    import numpy as np

    model, int8, data, rng = two_heads(work / 'heads.onnx'), work / 'heads.f8', work / 'rows', np.random.default_rng(3)
    data.mkdir()
    rows = [1, 5, 2, 30, 7]
    for i, n in enumerate(rows):
        np.savez(data / f'{i}.npz', x=rng.normal(size=(n, 4)).astype(np.float32))
    fold8('convert', model, '-o', int8, '--calib', data)
    out = fold8.run(model, data, work / 'out')
    best = np.concatenate([out[f'{i}/best'] for i in range(len(rows))])
    labels, wrong = work / 'y.npy', work / 'wrong.npy'
    np.save(labels, best)
    np.save(wrong, best.astype(np.float32))
    report = ['report', model, int8, '--data', data]
    j = fold8.facts(work / 'r.json', *report, '--labels', f'scores={labels}', '--min-accuracy', 'scores=0.5', '--min-sqnr', 5, '--min-sqnr', 'price=eur=6')
    a = j['accuracy']
    checks.expect(a['output'] == 'scores' and a['samples'] == sum(rows) and a['reference'] == 1, f'labels of a named output, samples of several shapes: {a}')
    checks.expect(a['interval95'][0] <= a['difference'] <= a['interval95'][1] and a['difference'] <= 0, 'the interval holds the difference')
    checks.expect([c['limit'] for c in j['checks'] if c['what'] == 'SQNR'] == [6, 5, 5], f'limits of outputs: {j["checks"]}')
    checks.expect(any(o['accuracy']['samples'] == sum(rows) for o in j['outputs'] if 'accuracy' in o), 'the output has its accuracy')

    def refused(what, arguments, statuses, *words):
        status, text = fold8.start(*report, *arguments)
        missing = [w for w in words if w not in text]
        checks.expect(status in statuses and not missing, f'{what}: status {status}, missing {missing} {text.strip()[-160:] if missing else ""}')
    refused('labels of a regression', ('--labels', labels), (BAD,), 'price=eur', 'regression', '--labels OUTPUT=')
    refused('labels of indices', ('--labels', f'best={labels}'), (BAD,), "'best'", 'class scores')
    refused('labels that are no integers', ('--labels', f'scores={wrong}'), (BAD,), 'integers')
    refused('labels of no output', ('--labels', f'scors={labels}'), (USAGE,), 'scors', 'scores')
    refused('labels twice', ('--labels', f'scores={labels}', '--labels', f'scores={labels}'), (USAGE,), 'already')
    refused('a limit of no output', ('--min-cosine', 'scors=0.9'), (USAGE,), 'scors', 'scores')
    refused('a limit that is no number', ('--min-sqnr', 'scores=high'), (USAGE,), '--min-sqnr', 'scores=high')
    refused('a limit out of range', ('--min-top1', '2'), (USAGE,), '--min-top1', '0 to 1')
    refused('accuracy without labels', ('--max-accuracy-drop', '0.1'), (USAGE,), '--labels')
    refused('a limit that is missed', ('--min-sqnr', 'scores=200'), (1,), "'scores'", 'at least 200 dB', 'short')


def many_samples(checks, fold8, work):
    """Memory must not grow with the number of samples: 2000 of 64 KiB in at most 96 MiB more than 20 need."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper

    graph = helper.make_graph([helper.make_node('Relu', ['x'], ['y'])], 'relu', [helper.make_tensor_value_info('x', TensorProto.FLOAT, ['n', 16384])],
                              [helper.make_tensor_value_info('y', TensorProto.FLOAT, ['n', 16384])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)], ir_version=8), work / 'relu.onnx')
    np.save(work / 'many.npy', np.random.default_rng(4).normal(size=(2000, 1, 16384)).astype(np.float32))
    peaks = []
    for count in (20, 2000):
        done = subprocess.run([sys.executable, '-c', 'import resource, subprocess, sys; s = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode; '
                               'print(s, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)', fold8.binary, 'report', work / 'relu.onnx', work / 'relu.onnx',
                               '--data', work / 'many.npy', '--stacked', '--max-samples', str(count), '--html', work / 'many.html', '--threads', '1'],
                              capture_output=True, text=True)
        status, peak = map(int, done.stdout.split())
        checks.expect(status == 0, f'{count} samples: status {status}')
        peaks.append(peak)
    checks.expect(peaks[1] - peaks[0] < 96 * 1024, f'peak memory in KiB with 20 and with 2000 samples: {peaks}')


def main():
    a = command_line(__doc__)
    work = empty_folder(a.work / 'pairs_test')
    checks, fold8 = Checks(), Fold8(a.fold8)
    for test in (forms, smoothed, labels_and_limits, many_samples):
        print(f'{test.__name__}:')
        test(checks, fold8, work)
    checks.finish('pairs')


if __name__ == '__main__':
    main()
