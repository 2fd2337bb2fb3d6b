#!/usr/bin/env python3
"""Real reports against tools/report/report.schema.json, and JUnit files as an XML parser reads them.

usage: schema_test.py --fold8 BINARY --work DIR --venv DIR
"""
import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'support'))
from fold8_command import DATA, ROOT, Checks, Fold8, command_line, empty_folder  # noqa: E402

EVAL = ('--data', DATA / 'digits_eval.npz', '--stacked', '--max-samples', 12)
LABELS = DATA / 'digits_eval_labels.npy'


def zeros(path):
    """y = x @ 0: a reference of zeros, of which no SQNR exists; and a second output that is not."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph([helper.make_node('MatMul', ['x', 'w'], ['y']), helper.make_node('Relu', ['x'], ['z'])], 'zeros',
                              [helper.make_tensor_value_info('x', TensorProto.FLOAT, ['n', 4])],
                              [helper.make_tensor_value_info(n, TensorProto.FLOAT, ['n', 4]) for n in 'yz'],
                              [numpy_helper.from_array(np.zeros((4, 4), np.float32), 'w')])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)], ir_version=8), path)
    np.savez(path.with_suffix('.npz'), x=np.random.default_rng(1).normal(size=(4, 4)).astype(np.float32))
    return path, path.with_suffix('.npz')


def main():
    a = command_line(__doc__)
    import jsonschema
    import numpy as np

    work = empty_folder(a.work / 'schema_test')
    checks, fold8 = Checks(), Fold8(a.fold8)
    schema = json.loads((ROOT / 'tools/report/report.schema.json').read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)

    def report(what, *arguments, status=0):
        got, text = fold8.start('report', *arguments, '--json', work / 'r.json', '--junit', work / 'r.xml')
        checks.expect(got == status, f'{what}: status {got} {text[-200:] if got != status else ""}')
        j = json.loads((work / 'r.json').read_text())
        problems = [f'{"/".join(map(str, e.absolute_path))}: {e.message[:120]}' for e in validator.iter_errors(j)]
        checks.expect(not problems, f'{what}: the report is as the schema says {problems[:3]}')
        suite = ET.parse(work / 'r.xml').getroot()
        failed = [case for case in suite.findall('testcase') if case.find('failure') is not None]
        checks.expect(suite.tag == 'testsuite' and int(suite.get('tests')) == len(suite.findall('testcase')) == len(j['checks'])
                      and int(suite.get('failures')) == len(failed) == len(j['missed']), f'{what}: JUnit has every check')
        return j

    np.save(work / 'labels.npy', np.load(LABELS)[:12])
    for network in ('digits_cnn', 'digits_ln'):
        fold8('convert', DATA / f'{network}.onnx', '-o', work / f'{network}.f8', '--calib', DATA / 'digits_calib.npz', '--stacked', '--max-samples', 16)
        pair = (DATA / f'{network}.onnx', work / f'{network}.f8')
        j = report(f'{network} and thresholds', *pair, *EVAL, '--labels', work / 'labels.npy', '--min-sqnr', 300, '--max-abs', 1e9, '--max-accuracy-drop', 1,
                   '--sensitivity',
                   '--html', work / 'r.html', status=1)
        checks.expect(j['accuracy']['samples'] == 12 and 'time_us' in j and j['layers'][0]['time_us'], f'{network}: labels and times are there')
        report(f'{network}, outputs only', *pair, *EVAL, '--outputs-only')
    broken = dict(j, samples='twelve')
    checks.expect(not validator.is_valid(broken) and not validator.is_valid(dict(j, more=1)), 'the schema does not accept everything')
    j = report('an exact pair', DATA / 'digits_cnn.onnx', DATA / 'digits_cnn.onnx', *EVAL, '--min-sqnr', 300)
    checks.expect(j['outputs'][0]['exact'] and j['outputs'][0]['sqnr_db'] is None and j['checks'][0]['exact'], 'an exact pair has no SQNR')
    model, data = zeros(work / 'zeros.onnx')
    fold8('convert', model, '-o', work / 'zeros.f8', '--calib', data, '--stacked')
    j = report('a reference of zeros', model, work / 'zeros.f8', '--data', data, '--stacked')
    y = next(o for o in j['outputs'] if o['name'] == 'y')
    checks.expect(y['sqnr_db'] is None and y['cosine'] is None and y['rel_l2'] is None, f'a reference of zeros has null figures: {y}')
    report('random data', model, work / 'zeros.f8', '--data', 'random')
    checks.finish('schema')


if __name__ == '__main__':
    main()
