#!/usr/bin/env python3
"""The fold8 command given wrong things: exit status, a message that names what is wrong, and nothing half-written.

usage: cli_test.py --fold8 BINARY --work DIR --venv DIR
Exit statuses: 0 done, 1 a threshold was missed, 2 usage, 3 bad model or data, 4 unsupported, 5 I/O.
"""
import json
import os
import random
import re
import resource
import shlex
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'support'))
from fold8_command import DATA, Checks, Fold8, command_line, empty_folder  # noqa: E402

USAGE, BAD, UNSUPPORTED, IO = 2, 3, 4, 5
CNN = DATA / 'digits_cnn.onnx'
COMMANDS = ('convert', 'calibrate', 'merge', 'fold', 'run', 'report', 'bench', 'inspect', 'check')
LN = DATA / 'digits_ln.onnx'
QUICK = ('--calib', DATA / 'digits_calib.npz', '--stacked', '--max-samples', 4)


class Cli:
    def __init__(self, fold8, checks, work):
        self.fold8, self.checks, self.work = fold8, checks, work

    def refuses(self, what, args, statuses, words=(), **how):
        """The command ends with one of `statuses`, says each word (a tuple: one of its words), and leaves no file behind."""
        before = {p: p.read_bytes() for p in self.work.rglob('*') if p.is_file() and p.stat().st_size < 1 << 22}
        status, text = self.fold8.start(*args, limit=60, **how)
        after = {p: p.read_bytes() for p in self.work.rglob('*') if p.is_file() and p.stat().st_size < 1 << 22}
        statuses = statuses if isinstance(statuses, tuple) else (statuses,)
        lower = text.lower()
        missing = [w for w in words if not any(str(x).lower() in lower for x in (w if isinstance(w, tuple) else (w,)))]
        changed = sorted(p.name for p in set(before) | set(after) if before.get(p) != after.get(p))
        for p in set(after) - set(before):
            p.unlink()
        ok = status in statuses and not missing and not changed
        self.checks.expect(ok, what if ok else f'{what}: status {status} of {statuses}; words missing {missing}; files changed {changed}; said: {text.strip()[-300:]}')

    def convert(self, model, *more, out='x.f8'):
        return ['convert', model, '-o', self.work / out, *more]

    def file(self, name, content=b''):
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def npz(self, name, **arrays):
        import numpy as np

        np.savez(self.work / name, **arrays)
        return self.work / name

    def model(self, name, change):
        """A changed copy of a small network: y = x @ w + b of three inputs."""
        import numpy as np
        import onnx
        from onnx import TensorProto, helper, numpy_helper

        w = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(3, 4) / 7, 'w')
        graph = helper.make_graph([helper.make_node('MatMul', ['x', 'w'], ['y'], name='the_matmul')], 'g',
                                  [helper.make_tensor_value_info('x', TensorProto.FLOAT, ['n', 3])],
                                  [helper.make_tensor_value_info('y', TensorProto.FLOAT, ['n', 4])], [w])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)], ir_version=8)
        change(model)
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        onnx.save(model, path)
        return path


def usage(t):
    for command in COMMANDS:
        status, text = t.fold8.start(command, '--help')
        t.checks.expect(status == 0 and '--json' in text or command == 'run' and status == 0, f'{command} --help')
        t.refuses(f'{command}: no arguments', [command], USAGE, [('required', 'usage', 'help')])
        t.refuses(f'{command}: unknown option', [command, CNN, '--no-such-option'], USAGE, [('no-such-option', 'required')])
    status, text = t.fold8.start('--version')
    t.checks.expect(status == 0 and all(w in text for w in ('fold8 ', 'targets: ', 'reference', 'libraries: ')), '--version')
    t.refuses('unknown command', ['no-such-command'], USAGE)
    t.refuses('no command', [], USAGE, ['convert'])
    for option, value in (('--method', 'magic'), ('--activations', 'magic'), ('--streams', 'magic'), ('--weights', 'magic'), ('--weights', 'group:'), ('--weights', 'group:0'), ('--weights', 'group:8x'),
                          ('--weights', 'group:-64'), ('--percentile', '7'), ('--percentile', 'nan'), ('--mean', 'inf')):
        t.refuses(f'{option} {value}', t.convert(CNN, *QUICK, option, value), USAGE, [option])
    t.refuses('scales per group of a token', t.convert(LN, *QUICK, '--activations', 'dynamic:group'), USAGE, ['one scale for each token', '--weights group:N'])
    t.refuses('bench --shape of nothing', ['bench', CNN, '--shape', 'image=axb'], USAGE, ['shape'])
    t.refuses('unknown target', ['run', CNN, '--input', DATA / 'digits_eval.npz'], USAGE, ['FOLD8_TARGET', 'sse9', 'avx2', 'reference'], target='sse9')
    t.refuses('neither data nor --float', t.convert(CNN), USAGE, ['--calib', '--float'])
    values(t)
    prefer_speed(t)
    groups(t)
    t.refuses('unknown engine', ['run', CNN, '--input', t.npz('one.npz', **one_image()), '--engine', 'magic'], USAGE, ['engine'])


def values(t):
    """What no option can mean, whichever command it is given to."""
    commands = {'convert': [CNN, '-o', t.work / 'x.f8', *QUICK], 'calibrate': [CNN, '-o', t.work / 'x.st', '--data', *QUICK[1:]],
                'merge': [t.work / 'a.st', '-o', t.work / 'x.st'], 'fold': [CNN, '-o', t.work / 'x.onnx'], 'run': [CNN, '--input', DATA / 'digits_eval.npz'],
                'report': [CNN, CNN, '--data', DATA / 'digits_eval.npz', '--stacked', '--max-samples', 1], 'bench': [CNN, '--seconds', 0], 'inspect': [CNN], 'check': [CNN]}
    t.checks.expect(set(commands) == set(COMMANDS), 'values: every command')
    for command, args in commands.items():
        t.refuses(f'{command}: an unknown target', [command, *args], USAGE, ['FOLD8_TARGET', 'sse9'], target='sse9')
        t.refuses(f'{command}: an empty name of a file', [command, '', *args[1:]], USAGE, ['empty'])
        options = set(re.findall(r'(?<=\s)--[a-z][a-z-]+', t.fold8(command, '--help')))
        for option in sorted(options & {'--output', '--json', '--html', '--junit', '--dot', '--calib', '--data', '--input', '--recalib', '--stats', '--labels', '--search-log',
                                        '--cost-table', '--output-dir', '--dump', '--keep-float', '--preprocess', '--size', '--shape'}):
            t.refuses(f"{command}: {option} ''", [command, *args, option, ''], USAGE, [option])
        for option in sorted(options & {'--worst', '--max-samples', '--random-samples', '--threads', '--sessions'}):
            t.refuses(f'{command}: {option} -1', [command, *args, option, -1], USAGE, [option])
    named = t.model('dash.onnx', lambda m: setattr(m.graph.node[0], 'name', '-the_matmul'))
    facts = t.fold8.facts(t.work / 'dash.json', 'convert', named, '-o', t.work / 'dash.f8', '--calib', 'random', '--keep-float=-the_matmul')
    t.checks.expect([f['node'] for f in facts['float_layers']] == ['-the_matmul'], f'a name that begins with -: {facts["float_layers"]}')


def prefer_speed(t):
    speed = ('--prefer', 'speed')
    table = t.file('slow.csv', b'# target: avx2\nkind,m,n,k,int8_us,f32_us,int8_to_f32_us,f32_to_int8_us\nconv,9,9,9,9,1,9,1\nlinear,1,9,9,1,9,1,9\n')
    wrong = t.file('wrong.csv', b'# target: avx2\nkind,m,n,k,int8_us,f32_us,int8_to_f32_us,f32_to_int8_us\nconv,9,9,9,9,x,9,1\n')
    for what, options, words in (
            ('another word', ('--prefer', 'magic'), ['--prefer', 'int8', 'speed']),
            ('a target without it', ('--target', 'avx2'), ['--target', '--prefer speed']),
            ('a table without it', ('--cost-table', table), ['--cost-table', '--prefer speed']),
            ('a target without a table', (*speed, '--target', 'reference'), ['reference', 'avx2', 'avx512_vnni', '--cost-table']),
            ('an unknown target', (*speed, '--target', 'sse9'), ['sse9', 'avx2']),
            ('a table of another target', (*speed, '--target', 'avx512_vnni', '--cost-table', table), ['avx512_vnni', 'slow.csv', 'avx2']),
            ('with --float', (*speed, '--float'), ['--prefer speed', '--float']),
            ('with weight-only INT8', (*speed, '--activations', 'float'), ['--prefer speed', '--activations float'])):
        t.refuses(f'--prefer: {what}', t.convert(CNN, *QUICK, *options), USAGE, words)
    t.refuses('a cost table with a bad number', t.convert(CNN, *QUICK, *speed, '--cost-table', wrong), BAD, ['wrong.csv:3', 'f32_us', "'x'"])
    t.refuses('a cost table that is not there', t.convert(CNN, *QUICK, *speed, '--cost-table', t.work / 'none.csv'), IO, ['none.csv'])
    t.refuses('a folder as cost table', t.convert(CNN, *QUICK, *speed, '--cost-table', t.work), IO, [t.work.name])
    t.refuses('the output over the cost table', t.convert(CNN, *QUICK, *speed, '--cost-table', table, out='slow.csv'), USAGE, ['slow.csv'])
    status, text = t.fold8.start(*t.convert(CNN, *QUICK, *speed, '--cost-table', table, '--json', t.work / 'speed.json'))
    facts = json.loads((t.work / 'speed.json').read_text()) if status == 0 else {}
    t.checks.expect(status == 0 and 'chosen for speed on avx2' in text and 'INT8 would be slower on avx2: about' in text and
                    facts['speed_target'] == 'avx2' and facts['float_layers'] and facts['quantized_layers'],
                    f'--prefer speed keeps slow layers float and says why: {status}: {text.strip()[-200:]}')
    status, text = t.fold8.start('inspect', t.work / 'x.f8', '--why')
    t.checks.expect('INT8 would be slower on avx2: about' in text, 'inspect --why repeats it')
    status, text = t.fold8.start(*t.convert(CNN, *QUICK, *speed), target='avx2')
    t.checks.expect(status == 0 and 'chosen for speed on avx2' in text and '--target' in text, f'--prefer speed without --target says which was taken: {status}')


def groups(t):
    """--weights group:N through the pipeline: more scales, all layers INT8, fit to run and to report."""
    sizes = {}
    for scales in ('channel', 'group:32'):
        out = t.work / f'{scales[:5]}.f8'
        for activations in ('auto', 'static', 'float'):
            facts = t.fold8.facts(t.work / 'groups.json', 'convert', LN, '-o', out, *QUICK, '--weights', scales, '--activations', activations)
            t.checks.expect(facts['int8_mac_share'] == (activations != 'float'), f'--weights {scales} --activations {activations}: all INT8')
            sizes[scales, activations] = out.stat().st_size
        report = t.fold8.facts(t.work / 'groups.json', 'report', LN, out, '--data', DATA / 'digits_eval.npz', '--stacked', '--max-samples', 2)
        t.checks.expect(len(report['layers']) > 0, f'--weights {scales}: reported')
    for activations in ('auto', 'static', 'float'):
        t.checks.expect(sizes['group:32', activations] > sizes['channel', activations], f'groups have more scales ({activations})')


def one_image(n=1):
    import numpy as np

    return {'image': np.load(DATA / 'digits_eval.npz')['image'][:n]}


def onnx_files(t):
    whole = CNN.read_bytes()
    t.refuses('a model that is not there', t.convert(t.work / 'none.onnx', *QUICK), IO, ['none.onnx'])
    (t.work / 'folder.onnx').mkdir()
    t.refuses('a folder as model', t.convert(t.work / 'folder.onnx', *QUICK), (BAD, IO), ['folder.onnx'])
    for name, content in (('empty', b''), ('text', b'this is not a model\n' * 40), ('short', whole[:10]), ('half', whole[:len(whole) // 2]),
                          ('but_one', whole[:-1])):
        path = t.file(f'{name}.onnx', content)
        t.refuses(f'{name} .onnx', t.convert(path, *QUICK), BAD, [f'{name}.onnx'])
        t.refuses(f'{name} .onnx, check', ['check', path], BAD, [f'{name}.onnx'])


def f8_files(t):
    good = t.work / 'good.f8'
    t.fold8('convert', CNN, '-o', good, *QUICK)
    whole, image = good.read_bytes(), t.npz('image.npz', **one_image())
    t.refuses('a .f8 that is not there', ['run', t.work / 'none.f8', '--input', image], IO, ['none.f8'])
    (t.work / 'folder.f8').mkdir()
    t.refuses('a folder as .f8', ['run', t.work / 'folder.f8', '--input', image], (BAD, IO), ['folder.f8'])
    for size in (0, 1, 16, 100, len(whole) // 2, len(whole) - 1):
        path = t.file('cut.f8', whole[:size])
        t.refuses(f'.f8 cut to {size} bytes', ['run', path, '--input', image], BAD, ['cut.f8'])
    t.refuses('.f8 with more behind it', ['run', t.file('more.f8', whole + b'x'), '--input', image], BAD, ['more.f8'])
    pick, accepted = random.Random(8), 0
    for n in range(120):
        at, bit = (n if n < 64 else pick.randrange(len(whole))), 1 << pick.randrange(8)
        path = t.file('flip.f8', whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1:])
        status, text = t.fold8.start('inspect', path, '--verify')
        if status == 0:
            accepted += 1       # only padding is under no checksum
            t.checks.expect(whole[at] == 0, f'bit {bit} of byte {at} of a .f8 flipped: accepted, and it is no padding')
        elif status not in (BAD, UNSUPPORTED) or 'flip.f8' not in text:
            t.checks.expect(False, f'bit {bit} of byte {at} of a .f8 flipped: status {status}: {text.strip()[-200:]}')
    t.checks.expect(accepted <= 12, f'120 flipped bits of a .f8: {accepted} of them in padding, the others refused')
    return good


def inputs(t, good):
    import numpy as np

    image = one_image()['image']
    for what, arrays, words in (
            ('wrong extent', {'image': image[:, :, :20]}, ['image', '28']),
            ('wrong rank', {'image': image[0, 0]}, ['image']),
            ('wrong type', {'image': image.astype(np.int64)}, ['image', ('s64', 'int64')]),
            ('missing input', {'picture': image}, ['image'])):
        t.refuses(f'input: {what}', ['run', good, '--input', t.npz('in.npz', **arrays)], (USAGE, BAD), words)
    t.refuses('an input file that is not there', ['run', good, '--input', 'image=' + str(t.work / 'none.npy')], IO, ['none.npy'])
    t.refuses('data that is not there', ['run', good, '--input', t.work / 'none'], (USAGE, BAD, IO), ['none'])
    (t.work / 'empty').mkdir()
    t.refuses('an empty data folder', t.convert(CNN, '--calib', t.work / 'empty'), (USAGE, BAD), ['empty'])
    whole = t.npz('whole.npz', image=image).read_bytes()
    t.refuses('a cut .npz', ['run', good, '--input', t.file('cut.npz', whole[:len(whole) // 2])], BAD, ['cut.npz'])
    np.save(t.work / 'object.npy', np.array([{'a': 1}], dtype=object), allow_pickle=True)
    t.refuses('a pickled .npy', ['run', good, '--input', 'image=' + str(t.work / 'object.npy')], (BAD, UNSUPPORTED), ['object.npy'])
    t.refuses('--dump of no tensor', ['run', good, '--input', t.work / 'whole.npz', '--dump', 'nothing_such'], USAGE, ['nothing_such'])
    for value in (np.nan, np.inf):
        spoilt = one_image(6)['image'].copy()
        spoilt[4, 0, 3, 3] = value
        t.refuses(f'{value} in calibration data', t.convert(CNN, '--calib', t.npz('spoilt.npz', image=spoilt), '--stacked'), BAD,
                  ['image', ('row 4', 'sample 4')])
    t.refuses('labels of another number', ['report', good, good, '--data', t.npz('two.npz', **one_image(2)), '--stacked', '--labels',
                                           save_labels(t, 1)], (USAGE, BAD), ['label'])


def save_labels(t, n):
    import numpy as np

    np.save(t.work / 'labels.npy', np.load(DATA / 'digits_eval_labels.npy')[:n])
    return t.work / 'labels.npy'


def models(t):
    import numpy as np
    import onnx
    from onnx import numpy_helper

    x = ('--calib', t.npz('x.npz', x=np.ones((2, 3), np.float32)))

    def operator(name, domain=''):
        def change(m):
            m.graph.node[0].op_type, m.graph.node[0].domain = name, domain
            if domain:
                m.opset_import.append(onnx.helper.make_opsetid(domain, 1))
        return change

    def weight(array):
        return lambda m: m.graph.initializer[0].CopyFrom(numpy_helper.from_array(array, 'w'))

    def external(location):
        def change(m):
            w = m.graph.initializer[0]
            w.ClearField('raw_data')
            w.data_location = onnx.TensorProto.EXTERNAL
            w.external_data.add(key='location', value=location)
        return change

    t.refuses('unknown operator', t.convert(t.model('op.onnx', operator('Sorcery')), *x), UNSUPPORTED, ['the_matmul', 'Sorcery'])
    t.refuses('unknown operator, check', ['check', t.work / 'op.onnx'], UNSUPPORTED, ['the_matmul', 'Sorcery'])
    t.refuses('operator of another domain', t.convert(t.model('op.onnx', operator('MatMul', 'com.example')), *x), UNSUPPORTED, ['the_matmul', 'com.example'])

    def newer(m):
        m.opset_import[0].version = 9999
    t.refuses('opset of the future', t.convert(t.model('new.onnx', newer), *x), UNSUPPORTED, ['9999'])
    bad = np.ones((3, 4), np.float32)
    bad[1, 1] = np.nan
    t.refuses('NaN weight', t.convert(t.model('nan.onnx', weight(bad)), *x), BAD, [("'w'", 'w ', '"w"', 'the_matmul'), 'nan'])
    t.refuses('NaN weight, float', t.convert(t.work / 'nan.onnx', '--float'), BAD, [("'w'", 'w ', '"w"', 'the_matmul'), 'nan'])
    t.refuses('shapes that contradict', t.convert(t.model('shape.onnx', weight(np.ones((5, 4), np.float32))), *x), BAD, ['the_matmul'])

    def dangling(m):
        m.graph.node[0].input[1] = 'nobody'
    t.refuses('a tensor nobody makes', t.convert(t.model('dangling.onnx', dangling), *x), BAD, ['nobody'])

    def cyclic(m):
        m.graph.node[0].input[0] = 'y'
    t.refuses('a cycle', t.convert(t.model('cycle.onnx', cyclic), *x), BAD, [('the_matmul', "'y'")])
    t.file('secret.bin', np.ones(12, np.float32).tobytes())
    for what, location in (('climbs out', '../secret.bin'), ('goes down and climbs out', 'a/../../secret.bin'), ('is absolute', str(t.work / 'secret.bin'))):
        t.refuses(f'external data that {what}', t.convert(t.model('inner/ext.onnx', external(location)), *x), BAD, [('w', 'secret.bin'), 'secret.bin'])
    t.refuses('external data that is not there', t.convert(t.model('inner/ext.onnx', external('none.bin')), *x), (BAD, IO), ['none.bin'])


def indices(t):
    """An index outside its table is bad data, whichever command meets it."""
    import numpy as np
    from onnx import TensorProto, helper

    def lookup(m):
        m.graph.node[0].CopyFrom(helper.make_node('Gather', ['w', 'x'], ['r'], name='the_gather'))
        m.graph.node.append(helper.make_node('MatMul', ['r', 'v'], ['y'], name='the_matmul'))
        m.graph.initializer.append(helper.make_tensor('v', TensorProto.FLOAT, [4, 4], np.arange(16, dtype=np.float32) / 16))
        m.graph.input[0].CopyFrom(helper.make_tensor_value_info('x', TensorProto.INT64, ['n']))

    model, good = t.model('lookup.onnx', lookup), t.work / 'lookup.f8'
    t.fold8('convert', model, '-o', good, '--float')
    outside = t.npz('outside.npz', x=np.array([0, 3], np.int64))
    words = ['the_gather', '3']
    t.refuses('an index outside, run', ['run', good, '--input', outside], BAD, words)
    t.refuses('an index outside, report', ['report', good, good, '--data', outside], BAD, words)
    t.refuses('an index outside, convert', t.convert(model, '--calib', outside), BAD, words)
    t.refuses('an index outside, bench', ['bench', good, '--input', outside], BAD, words)


def states(t):
    """run --state: an output of a sample is an input of the next."""
    import numpy as np
    from onnx import TensorProto, helper

    def keep(m):
        del m.graph.node[:], m.graph.input[:], m.graph.output[:], m.graph.initializer[:]
        m.graph.node.extend([helper.make_node('Concat', ['past.0', 'x'], ['now.0'], name='append', axis=0),
                             helper.make_node('ReduceSum', ['now.0'], ['y'], name='sum', keepdims=1)])
        m.graph.input.extend([helper.make_tensor_value_info('x', TensorProto.FLOAT, ['n']),
                              helper.make_tensor_value_info('past.0', TensorProto.FLOAT, ['p'])])
        m.graph.output.extend([helper.make_tensor_value_info('y', TensorProto.FLOAT, [1]),
                               helper.make_tensor_value_info('now.0', TensorProto.FLOAT, ['q'])])

    model, good, out = t.model('states.onnx', keep), t.work / 'states.f8', t.work / 'sums'
    t.fold8('convert', model, '-o', good, '--float')
    samples = [t.npz(f'{i}.npz', x=np.array([i], np.float32)) for i in (1, 2, 3)]
    run = ['run', good, '--input', *samples]
    t.fold8(*run, '--state', 'now.*=past.*', '--capacity', 'past.*=2', '--output-dir', out)
    sums = [float(np.load(out / str(i) / 'y.npy')[0]) for i in (1, 2, 3)]
    t.checks.expect(sums == [1, 3, 6], f'run --state keeps an output for the next sample: {sums}')
    t.refuses('a state of no output', [*run, '--state', 'never=past.0'], USAGE, ['never'])
    t.refuses('a state without its input', [*run, '--state', 'now.0'], USAGE, ['OUTPUT=INPUT'])
    t.refuses('a capacity of no state', [*run, '--state', 'now.0=past.0', '--capacity', 'past.1=9'], USAGE, ['past.1'])
    t.refuses('an input that is neither given nor a state', run, (USAGE, BAD), ['past.0'])


def full_disk():
    """In the child: a file may hold 4 KiB, and writing more is an error rather than a signal."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


def outputs(t, good):
    t.file('there.f8', b'an older model')
    t.refuses('no room for the output; the older file stays', t.convert(CNN, *QUICK, out='there.f8'), IO, ['there.f8'], preexec_fn=full_disk)
    t.refuses('no room for a folded model', ['fold', CNN, '-o', t.work / 'fold.onnx'], IO, ['fold.onnx'], preexec_fn=full_disk)
    t.refuses('no such output folder', t.convert(CNN, *QUICK, out='no/such/x.f8'), IO, ['no/such/x.f8'])
    (t.work / 'dir.f8').mkdir()
    t.refuses('a folder as output', t.convert(CNN, *QUICK, out='dir.f8'), IO, ['dir.f8'])
    image = t.npz('image.npz', **one_image())
    t.refuses('a file as output folder', ['run', good, '--input', image, '--output-dir', t.file('plain', b'x')], IO, ['plain'])
    with open('/dev/full', 'wb') as full:
        for command in (['inspect', good, '--json', '-'], ['report', good, good, '--data', image, '--json', '-'],
                        ['bench', good, '--seconds', '0', '--json', '-']):
            status = subprocess.run([t.fold8.binary, *map(str, command)], stdout=full, stderr=subprocess.DEVNULL).returncode
            t.checks.expect(status == IO, f'{command[0]}: standard output is full: status {status}')


def overwrites(t, good):
    """No output goes over a file that the command reads: refused before anything is written."""
    import numpy as np

    def sample(name):
        path = t.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, **one_image())
        return path

    one, other = sample('data/s0.npz'), sample('data/s1.npz')
    stack = t.npz('stack.npz', **one_image(4))
    again = sample('again.npz')
    labels = t.work / 'labels.npy'
    np.save(labels, np.zeros(4, np.int64))
    link = t.work / 'link.npz'
    link.symlink_to(one)
    model = t.file('model.f8', good.read_bytes())
    report = ['report', CNN, good, '--data', stack, '--stacked', '--outputs-only']
    cases = [('convert -o, a sample', ['convert', CNN, '-o', one, '--calib', one], one),
             ('convert -o, inside a folder', ['convert', CNN, '-o', other, '--calib', one.parent], other),
             ('convert -o, through a link', ['convert', CNN, '-o', link, '--calib', one.parent], one),
             ('convert --json', ['convert', CNN, '-o', t.work / 'o.f8', '--calib', one, '--json', one], one),
             ('convert -o, data of --recalib', ['convert', CNN, '-o', again, '--calib', one, '--recalib', again], again),
             ('convert -o, data that --recalib replaces', ['convert', CNN, '-o', one, '--calib', one, '--recalib', again], one),
             ('convert --search-log', ['convert', CNN, '-o', t.work / 'o.f8', '--calib', one, '--target-sqnr', 20, '--search-log', one], one),
             ('convert -o, labels', ['convert', CNN, '-o', labels, '--calib', stack, '--stacked', '--max-accuracy-drop', 0.1, '--labels', labels], labels),
             ('calibrate -o', ['calibrate', CNN, '-o', other, '--data', one.parent], other),
             ('fold -o', ['fold', CNN, '-o', one, '--smooth', 0.5, '--calib', one], one),
             ('bench --json', ['bench', good, '--input', one, '--seconds', 0, '--json', one], one)]
    for option in ('--html', '--json', '--junit'):
        cases += [(f'report {option}, data', [*report, option, stack], stack),
                  (f'report {option}, labels', [*report, '--labels', labels, option, labels], labels)]
    output = t.fold8.facts(t.work / 'facts.json', 'inspect', good)['outputs'][0]['name']
    cases.append(('report --html, OUTPUT=labels', [*report, '--labels', f'{output}={labels}', '--html', labels], labels))
    for what, command, path in cases:
        t.refuses(f'overwritten: {what}', command, USAGE, ['would overwrite the input', path.name])
    image = t.work / 'results' / f'{output.replace("/", "_")}.npy'
    image.parent.mkdir()
    np.save(image, one_image()['image'])
    for what, data in (('a file', image), ('a folder', image.parent), ('NAME=FILE', f'image={image}')):
        t.refuses(f'overwritten: run --output-dir over {what}', ['run', model, '--input', data, '--output-dir', image.parent], USAGE, ['would overwrite the input', image.name])
    status, text = t.fold8.start('run', model, '--input', image, '--output-dir', t.work / 'elsewhere')
    t.checks.expect(status == 0, f'overwritten: results go elsewhere: {status}: {text.strip()[-200:]}')
    status, text = t.fold8.start('convert', CNN, '-o', t.work / 'data/new.f8', '--calib', one.parent)
    t.checks.expect(status == 0, f'overwritten: a new file beside the data is none of it: {status}: {text.strip()[-200:]}')


def searches(t):
    """convert --target-*: exit statuses, what is written, and a log that a second search goes on from."""
    import numpy as np

    calib = t.npz('search.npz', image=np.load(DATA / 'digits_calib.npz')['image'][:24])
    common = ['convert', CNN, '--calib', calib, '--stacked', '--threads', 1]
    out, log = t.work / 'target.f8', t.work / 'search.jsonl'
    first = t.fold8.facts(t.work / 'first.json', *common, '-o', out, '--target-sqnr', 40, '--search-log', log)
    written, known = out.read_bytes(), log.read_text()
    search = first['search']
    t.checks.expect(search['met'] and 0 < search['chosen']['float_share'] < 1, f'search: {search["chosen"]["float_share"]:.2f} left float for 40 dB')
    t.checks.expect(search['frontier'] and search['scored'] > 1 and search['remembered'] == 0, f'search: {search["scored"]} candidates scored')
    log.write_text(known[:len(known) * 2 // 3])  # as if it had been killed in the middle of a line
    second = t.fold8.facts(t.work / 'second.json', *common, '-o', out, '--target-sqnr', 40, '--search-log', log)
    t.checks.expect(out.read_bytes() == written, 'search: the same bytes when it goes on from a log')
    t.checks.expect(second['search']['remembered'] > 0 and second['search']['steps'] == search['steps'], 'search: the same steps')
    third = t.fold8.facts(t.work / 'third.json', *common, '-o', out, '--target-sqnr', 40, '--search-log', log)
    t.checks.expect(third['search']['scored'] == 0 and out.read_bytes() == written, 'search: nothing is scored twice')
    status, text = t.fold8.start(*common, '-o', out, '--target-sqnr', 190)
    t.checks.expect(status == 1 and 'MISSED' in text and out.read_bytes() != written, f'search: a target that nothing meets: status {status}, a model is written')
    wrong = (('no data', ['convert', CNN, '-o', out, '--target-sqnr', 30], ['--calib']),
             ('--float', [*common, '-o', out, '--target-cosine', 0.99, '--float'], ['--float']),
             ('--no-search', [*common, '-o', out, '--target-sqnr', 30, '--no-search'], ['--no-search']),
             ('weights only', [*common, '-o', out, '--target-sqnr', 30, '--activations', 'float'], ['--activations']),
             ('--prefer speed', [*common, '-o', out, '--target-sqnr', 30, '--prefer', 'speed'], ['--prefer speed']),
             ('labels that decide nothing', [*common, '-o', out, '--target-sqnr', 30, '--labels', DATA / 'digits_eval_labels.npy'], ['--max-accuracy-drop']),
             ('a log of nothing', [*common, '-o', out, '--search-log', log], ['--target-sqnr']),
             ('a log that is something else', [*common, '-o', out, '--target-sqnr', 30, '--search-log', t.file('notes.txt', b'mine\n')], ['notes.txt']),
             ('a negative target', [*common, '-o', out, '--target-sqnr', -3], ['--target-sqnr']))
    for what, command, words in wrong:
        t.refuses(f'search, {what}', command, USAGE, words)
    t.checks.expect((t.work / 'notes.txt').read_bytes() == b'mine\n', 'search: a file that is no log stays as it is')
    label_files(t, common, out)
    logs(t, common, out)
    t.refuses('search, labels of other samples', [*common, '-o', out, '--max-accuracy-drop', 0.01, '--labels', DATA / 'digits_eval_labels.npy'],
              BAD, ['labels'])


def label_files(t, common, out):
    """Labels of convert are refused as those of report are, and integers of any size taken."""
    import numpy as np

    right = np.load(DATA / 'digits_eval_labels.npy')[:24]
    search = [*common, '-o', out, '--max-accuracy-drop', 1]
    again = t.npz('labels_again.npz', image=np.load(DATA / 'digits_calib.npz')['image'][24:48])
    report = ['report', CNN, CNN, '--data', t.work / 'search.npz', '--stacked', '--outputs-only']

    def saved(name, values):
        np.save(t.work / f'{name}.npy', values)
        return t.work / f'{name}.npy'

    below, above, last = right.astype(np.int64), right.astype(np.int64), right.astype(np.uint64)
    below[0], above[23], last[0] = -1, 99, 2**63
    for name, values, words in (('below', below, ['label 0 is -1', 'classes 0 to 9']), ('above', above, ['label 23 is 99', 'classes 0 to 9']),
                                ('huge', last, ['9223372036854775808', 'no class']), ('none', right[:0], ['none.npy', 'none', 'class of each sample']),
                                ('floats', right.astype(np.float32), ['floats.npy', 'integers', 'f32'])):
        path = saved(name, values)
        t.refuses(f'labels, {name}: convert', [*search, '--labels', path], BAD, words)
        t.refuses(f'labels, {name}: report', [*report, '--labels', path], BAD, words)
    t.refuses('labels of other samples than --recalib', [*search, '--labels', saved('int64', right.astype(np.int64)), '--recalib', again, '--stacked'], USAGE, ['--labels', '--recalib'])
    for kind in ('int8', 'uint8', 'int16', 'uint16', 'int32', 'uint32', 'int64', 'uint64', 'bool'):
        path = saved(kind, right.astype(kind))
        for command in ([*search, '--labels', path], [*report, '--labels', path]):
            status, text = t.fold8.start(*command)
            t.checks.expect(status == 0, f'{command[0]}: labels of {kind}: status {status}: {text.strip()[-200:]}')


def logs(t, common, out):
    """A log that cannot be kept is refused before the search; one that fails later costs no model."""
    command = [*common, '-o', out, '--target-sqnr', 40, '--search-log']
    pipe = t.work / 'pipe'
    os.mkfifo(pipe)
    t.refuses('search, a log in a folder that is not there', [*command, t.work / 'none/x.log'], IO, ['--search-log', 'none/x.log'])
    for what, path in (('a folder', t.work), ('a pipe', pipe), ('a device', '/dev/null')):
        t.refuses(f'search, {what} as log', [*command, path], IO, ['--search-log', path, 'no regular file'])
    t.refuses('search, standard output as log', [*command, '-'], USAGE, ['--search-log -'])
    t.refuses('search, no model: no log is left', ['convert', t.work / 'none.onnx', '-o', out, '--calib', CNN, '--target-sqnr', 40, '--search-log', t.work / 'new.log'], IO, ['none.onnx'])
    # A file that may not be written: whoever may write anything goes without this one.
    locked = t.file('locked.log')
    locked.chmod(0o444)
    if not os.access(locked, os.W_OK):
        t.refuses('search, a log that is read-only', [*command, locked], IO, ['--search-log', 'locked.log'])
    t.refuses('a pipe as cost table', t.convert(CNN, *QUICK, '--prefer', 'speed', '--cost-table', pipe), IO, ['no regular file'])
    t.refuses('inspect of a pipe', ['inspect', pipe], (IO, BAD), ['no regular file'])

    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    out.unlink()
    full, limit = t.work / 'full.log', 200000
    full.write_text('{"fold8":"another version"}\n' * (limit // 28))  # no room for what is scored
    status, text = t.fold8.start(*command, full, preexec_fn=small_files)
    t.checks.expect(status == 0 and out.exists() and re.search("warning: --search-log '.*full.log'", text) is not None,
                    f'search: a log that is full: the model is written, with a warning: status {status}: {text.strip()[-300:]}')


def causes(t):
    """A poor conversion says why, on few samples; one pass names the command that does, and it runs."""
    calib = t.npz('causes.npz', **one_image(8))
    command = t.convert(CNN, '--calib', calib, '--stacked', '--method', 'percentile', '--percentile', 0.6)
    status, text = t.fold8.start(*command)
    t.checks.expect(status == 0 and 'causes, on 4 of 8 samples:' in text and '\n  cause: ' in text, f'causes: named where INT8 is poor: status {status}')
    status, text = t.fold8.start(*command, '--no-search', '--json', t.work / 'one_pass.json')
    facts = json.loads((t.work / 'one_pass.json').read_text())
    t.checks.expect(status == 0 and (facts['samples'], facts['scored_samples']) == (8, 4) and ', on 4 samples' in text, 'one pass: how many samples judge it')
    named = re.search(r'causes: fold8 (report .*)', text)
    t.checks.expect(named is not None and 'cause: ' not in text, 'one pass: names the command that says why')
    if named:
        status, text = t.fold8.start(*shlex.split(named[1]))
        t.checks.expect(status == 0 and re.search('try: +--', text), f'one pass: the named command runs: status {status}')
    # The quantizer of such an input takes factors that the float network has in its weights: these are no clipped weights.
    data = one_image(8)
    shifted = t.npz('shifted.npz', **{name: x * 255 - 128 for name, x in data.items()})
    other = t.convert(CNN, '--calib', shifted, '--stacked')
    t.fold8(*other)
    _, text = t.fold8.start('report', CNN, other[other.index('-o') + 1], '--data', calib, '--stacked')
    t.checks.expect('other data' in text and 'outside their codes' not in text, 'causes: weights are not blamed for what data did')


def results(t, good):
    """What programs read: pure JSON on standard output, thresholds as exit statuses, no progress where nobody looks."""
    data = ['--data', t.npz('four.npz', **one_image(4)), '--stacked']
    float8 = t.work / 'float.f8'
    t.fold8('convert', CNN, '-o', float8, '--float')
    for command in (['inspect', good], ['check', CNN], ['bench', good, '--seconds', '0'], ['report', float8, good, *data],
                    t.convert(CNN, *QUICK), ['fold', CNN, '-o', t.work / 'fold.onnx']):
        done = subprocess.run([t.fold8.binary, *map(str, command), '--json', '-'], capture_output=True, text=True)
        try:
            schema = json.loads(done.stdout)['schema']
        except (ValueError, KeyError):
            schema = f'no JSON: {done.stdout[:100]!r} {done.stderr[-200:]!r}'
        t.checks.expect(done.returncode == 0 and schema == f'fold8.{command[0]}/1', f'{command[0]} --json -: {schema}')
        t.checks.expect('\r' not in done.stderr, f'{command[0]}: no progress bar outside a terminal')
    status, _ = t.fold8.start('report', float8, good, *data, '--min-sqnr', '5', '--min-top1', '0.5')
    t.checks.expect(status == 0, f'report: thresholds met: status {status}')
    junit = t.work / 'junit.xml'
    status, text = t.fold8.start('report', float8, good, *data, '--min-sqnr', '300', '--junit', junit, '--json', t.work / 'r.json')
    t.checks.expect(status == 1 and 'sqnr' in text.lower(), f'report: a threshold missed: status {status}')
    t.checks.expect(json.loads((t.work / 'r.json').read_text())['passed'] is False, 'report: passed is false')
    t.checks.expect('<failure' in junit.read_text(), 'report: JUnit has the failure')

    t.fold8('report', float8, good, *data, '--sensitivity', '--json', t.work / 's.json')
    layers = [l for l in json.loads((t.work / 's.json').read_text())['layers'] if l['int8'] and 'conv' in l['op']]
    t.checks.expect(layers and all(l['alone_db'] is not None and l['gain_db'] is not None for l in layers), 'report: --sensitivity gives alone and gain')
    status, _ = t.fold8.start('report', float8, good, *data, '--sensitivity', '--outputs-only')
    t.checks.expect(status == USAGE, f'report: --sensitivity without layers: status {status}')
    status, text = t.fold8.start(*t.convert(CNN, *QUICK, '--keep-float', 'matches_nothing*'))
    t.checks.expect(status == USAGE or status == 0 and 'warning' in text.lower() and 'matches_nothing' in text, f'--keep-float that matches nothing is said: {status}')
    status, text = t.fold8.start(*t.convert(CNN, '--calib', 'random'))
    t.checks.expect(status == 0 and re.search(r'warning.*random', text) is not None, 'calibration on random numbers is said')
    status, text = t.fold8.start(*t.convert(CNN, *QUICK, '--float'))
    t.checks.expect(status == 0 and re.search(r'warning.*--calib is not read', text) is not None, '--float with --calib is said')


def main():
    a = command_line(__doc__)
    checks = Checks()

    def fresh(name):
        return Cli(Fold8(a.fold8), checks, empty_folder(a.work / 'cli_test' / name))

    os.umask(0o022)
    good = f8_files(fresh('f8_files'))
    for test in (usage, onnx_files, models, indices, states, searches, causes):
        test(fresh(test.__name__))
    for test in (inputs, outputs, overwrites, results):
        test(fresh(test.__name__), good)
    checks.finish('cli')


if __name__ == '__main__':
    main()
