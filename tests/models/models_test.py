#!/usr/bin/env python3
"""The networks of tests/data through the fold8 command: accuracy, and the same bytes whatever runs them.

usage: models_test.py TEST --fold8 BINARY --work DIR --venv DIR       TEST: accuracy | same_bytes | qat | other_cpus | zoo | fold | embed
Exit status: 0 passed, 1 failed, 77 skipped because this machine lacks what the test needs.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / 'support'), str(Path(__file__).resolve().parents[2] / 'tools/zoo')]
from fold8_command import DATA, ROOT, Checks, Fold8, enter_venv, skip  # noqa: E402

NETWORKS = ('digits_cnn', 'digits_cnn_qat', 'digits_ln', 'digits_rms')
FLOAT_TOLERANCE = 1e-4      # of the largest value: another summation order than onnxruntime's, no more
MAX_ACCURACY_LOSS = 0.005   # of all images
MIN_MAC_SHARE = 0.95
THREADS = (1, 2, 3)
BATCH = 8
CALIBRATION = ('--calib', DATA / 'digits_calib.npz', '--stacked')
ZOO_KEPT_FLOAT = 0.3        # of the layers, evenly spread


def images(count):
    import numpy as np

    return np.load(DATA / 'digits_eval.npz')['image'][:count]


def save(path, **arrays):
    import numpy as np

    np.savez(path, **arrays)
    return path


# ---------------------------------------------------------------- accuracy

def accuracy(checks, fold8, work):
    """Default flags: float equals onnxruntime, INT8 stays within half a point, (nearly) all multiply-adds are INT8."""
    import numpy as np

    evaluation = save(work / 'eval.npz', image=np.load(DATA / 'digits_eval.npz')['image'])
    for name in NETWORKS:
        float8, int8 = work / f'{name}_float.f8', work / f'{name}.f8'
        golden = np.load(DATA / f'expected/{name}.npz')
        fold8('convert', DATA / f'{name}.onnx', '-o', float8, '--float')
        got = fold8.run(float8, save(work / 'golden.npz', image=golden['image']), work / 'golden')['logits']
        error = np.abs(got - golden['logits']).max() / np.abs(golden['logits']).max()
        checks.expect(error <= FLOAT_TOLERANCE, f'{name}: float error {error:.2e} <= {FLOAT_TOLERANCE} of the largest logit')

        facts = fold8.facts(work / 'convert.json', 'convert', DATA / f'{name}.onnx', '-o', int8, *CALIBRATION)
        seen = fold8.facts(work / 'inspect.json', 'inspect', int8, '--verify')
        share = facts['int8_mac_share']
        checks.expect(share is not None and share >= MIN_MAC_SHARE, f'{name}: int8_mac_share {share} >= {MIN_MAC_SHARE}')
        checks.expect(facts['batch_norms_left'] == 0, f'{name}: batch_norms_left {facts["batch_norms_left"]} == 0')
        for key in ('int8_mac_share', 'batch_norms_left'):
            checks.expect(seen[key] == facts[key], f'{name}: inspect and convert agree on {key}')
        report = fold8.facts(work / 'report.json', 'report', float8, int8, '--data', evaluation, '--stacked', '--outputs-only',
                             '--labels', DATA / 'digits_eval_labels.npy')
        a, logits = report['accuracy'], report['outputs'][0]
        loss = a['reference'] - a['other']
        checks.expect(loss <= MAX_ACCURACY_LOSS + 1e-9, f'{name}: accuracy float {a["reference"]:.4f}, INT8 {a["other"]:.4f}, '
                      f'lost at most {MAX_ACCURACY_LOSS}; SQNR of the logits {logits["sqnr_db"]} dB')
        checks.expect(a['reference'] >= 0.97, f'{name}: the float network is a good one')


# ---------------------------------------------------------------- the same bytes

def same_outputs(checks, fold8, name, model, batch, work):
    """Every target and thread count gives the bytes of the first; a row alone gives those it has within the batch.
    `batch`: input name -> array whose axis 0 counts samples."""
    first, different = None, []
    whole = save(work / 'batch.npz', **batch)
    for target in fold8.targets():
        for threads in THREADS:
            got = fold8.run(model, whole, work / 'got', '--threads', threads, target=target)
            first = first or got
            different += [f'{o} on {target} with {threads} threads' for o in first if got[o].tobytes() != first[o].tobytes()]
    checks.expect(not different, f'{name}: same bytes on {", ".join(fold8.targets())} with {THREADS} threads {different}')
    rows = len(next(iter(batch.values())))
    different = []
    for row in (0, rows // 2, rows - 1):
        one = save(work / 'one.npz', **{k: v[row:row + 1] for k, v in batch.items()})
        got = fold8.run(model, one, work / 'got')
        different += [f'row {row} of {o}' for o in first if got[o].tobytes() != first[o][row:row + 1].tobytes()]
    checks.expect(not different, f'{name}: a sample alone as within a batch of {rows} {different}')


def same_files(checks, fold8, name, args, work):
    """convert writes the same file under every target; returns it."""
    files = []
    for target in fold8.targets():
        files.append(work / f'{name}.{target}.f8')
        fold8('convert', *args, '-o', files[-1], target=target)
    contents = {f.read_bytes() for f in files}
    checks.expect(len(contents) == 1, f'{name}: the same .f8 bytes, converted under {", ".join(fold8.targets())}')
    fold8('convert', *args, '-o', work / 'again.f8', '--threads', 1)
    checks.expect((work / 'again.f8').read_bytes() == files[0].read_bytes(), f'{name}: the same .f8 bytes with one thread')
    return files[0]


def same_bytes(checks, fold8, work):
    batch = {'image': images(BATCH)}
    for name in ('digits_cnn', 'digits_ln', 'digits_rms'):
        model = same_files(checks, fold8, name, [DATA / f'{name}.onnx', *CALIBRATION, '--max-samples', 64], work)
        same_outputs(checks, fold8, name, model, batch, work)
    for name in ('digits_cnn', 'digits_rms'):
        model = same_files(checks, fold8, f'{name}_float', [DATA / f'{name}.onnx', '--float'], work)
        same_outputs(checks, fold8, f'{name}_float', model, batch, work)


# ---------------------------------------------------------------- quantization from training

def qat_names(fold8, model, evaluation):
    """Which tensor of the converted graph each QuantizeLinear output is: the name it kept, or its dequantized twin's."""
    graph = fold8('inspect', model, '--graph')
    written = set(re.findall(r'^\s*([^\s:=]+): u8\[', graph, re.M)) | set(re.findall(r'([^\s:=,(]+): u8\[', graph))
    found = {}
    for node in evaluation.nodes:
        if node.op_type != 'QuantizeLinear':
            continue
        readers = [n.output[0] for n in evaluation.nodes if n.op_type == 'DequantizeLinear' and n.input[0] == node.output[0]]
        for candidate in (node.output[0], *readers, node.input[0]):
            if candidate in written:
                found[node.output[0]] = candidate
                break
    return found


def qat(checks, fold8, work):
    """A network trained with quantization in the loop runs with its own numbers: no step differs from the numeric contract,
    and the contract differs from exact arithmetic only where that lies on a tie."""
    import numpy as np
    from qat_reference import Evaluation

    pictures = images(64)
    evaluation = Evaluation(DATA / 'digits_cnn_qat.onnx').run(pictures)
    for name, exact in evaluation.exact.items():
        if name == 'logits':
            error = np.abs(evaluation.tensors[name] - exact).max() / np.abs(exact).max()
            checks.expect(error < 1e-6, f'contract: logits within {error:.1e} of exact')
            continue
        steps = np.clip(exact, 0, 255)
        off = np.abs(evaluation.tensors[name] - np.rint(steps))
        from_tie = np.abs(np.abs(steps - np.floor(steps)) - 0.5)
        checks.expect(off.max() <= 1 and (from_tie[off > 0] <= 1e-4).all(), f'contract: {name} is exact besides {int((off > 0).sum())} ties')

    model = work / 'qat.f8'
    fold8('convert', DATA / 'digits_cnn_qat.onnx', '-o', model, *CALIBRATION)
    names = qat_names(fold8, model, evaluation)
    got = fold8.run(model, save(work / 'in.npz', image=pictures), work / 'out', *[a for n in names.values() for a in ('--dump', n)])
    checks.expect(len(names) >= 8, f'{len(names)} of {len(evaluation.tensors) - 1} u8 tensors can be dumped')
    for name, kept in names.items():
        a, b = got[kept.replace('/', '_')], evaluation.tensors[name]
        same = a.dtype == np.uint8 and a.shape == b.shape and np.array_equal(a, b)
        worst = '' if same or a.shape != b.shape else f': {int((a != b).sum())} differ, by up to {int(np.abs(a.astype(int) - b).max())}'
        checks.expect(same, f'{kept}: 0 steps from the contract{worst}')
    checks.expect(got['logits'].tobytes() == evaluation.tensors['logits'].tobytes(), 'logits: the bytes of the contract')


# ---------------------------------------------------------------- CPUs this machine is not

def other_cpus(checks, fold8, work):
    """Under an emulator: a CPU with AVX2 and no AVX-512 gives the same bytes, one without AVX2 a clear message."""
    emulator = shutil.which('qemu-x86_64') or shutil.which('qemu-x86_64-static')
    if not emulator:
        print('SKIPPED: qemu-x86_64 is not installed (Debian: apt-get install qemu-user)')
        sys.exit(77)
    model, batch = work / 'cnn.f8', save(work / 'in.npz', image=images(2))
    fold8('convert', DATA / 'digits_cnn.onnx', '-o', model, *CALIBRATION, '--max-samples', 64)
    here = fold8.run(model, batch, work / 'here')
    there = fold8.run(model, batch, work / 'there', prefix=(emulator, '-cpu', 'Haswell'))
    checks.expect(here['logits'].tobytes() == there['logits'].tobytes(), 'Haswell gives the same bytes')
    status, text = fold8.start('run', model, '--input', batch, prefix=(emulator, '-cpu', 'Nehalem'))
    checks.expect(status == 4 and 'AVX2' in text, f'Nehalem: exit status 4 and a message about AVX2, got {status}: {text.strip()[-200:]}')


# ---------------------------------------------------------------- a real network

def zoo(checks, fold8, work):
    """PP-LCNet, INT8 and with 30 % of its layers kept float."""
    import numpy as np
    import zoo_data

    store = Path(os.environ.get('FOLD8_ZOO_DIR') or work.parent / 'zoo').resolve()
    fetch = [ROOT / 'tools/zoo/fetch_zoo.sh', store, 'pplcnet_orient', 'texts']
    if subprocess.run(fetch, env={**os.environ, 'PYTHON': sys.executable}, stdin=subprocess.DEVNULL).returncode != 0:
        skip(f'pplcnet_orient could not be fetched into {store}')
    shutil.rmtree(work / 'calib', ignore_errors=True)
    try:
        zoo_data.write(store, work / 'calib', 'pplcnet_orient', seed=1000, count=BATCH)
    except FileNotFoundError as missing:
        skip(str(missing))
    network = store / 'models/pplcnet_orient.onnx'
    samples = [dict(np.load(f)) for f in sorted((work / 'calib').glob('*.npz'))]
    batch = {k: np.concatenate([s[k] for s in samples]) for k in input_names(network)}

    args = [network, '--calib', work / 'calib']
    model = same_files(checks, fold8, 'pplcnet', args, work)
    same_outputs(checks, fold8, 'pplcnet', model, batch, work)
    layers = fold8.facts(work / 'facts.json', 'inspect', model)['quantized_layers']
    kept = [layers[int(i / ZOO_KEPT_FLOAT)] for i in range(int(len(layers) * ZOO_KEPT_FLOAT))]
    mixed = work / 'mixed.f8'
    flags = [a for name in kept for a in ('--keep-float', name)]
    fold8('convert', *args, '-o', mixed, *flags)
    floats = [f['node'] for f in fold8.facts(work / 'facts.json', 'inspect', mixed)['float_layers']]
    checks.expect(set(kept) <= set(floats), f'{len(kept)} of {len(layers)} layers are kept float')
    same_outputs(checks, fold8, 'pplcnet, mixed', mixed, batch, work)


def input_names(network):
    import onnx

    graph = onnx.load(network, load_external_data=False).graph
    return [i.name for i in graph.input if i.name not in {t.name for t in graph.initializer}]


# ---------------------------------------------------------------- fold

FOLD_TOLERANCE = 1e-5       # of the largest value
ZOO_FOLDED = ('pplcnet_orient', 'mobilenetv3_cls')


def answers(model, feeds):
    """What onnxruntime computes without rewrites of its own."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(model), options, providers=['CPUExecutionProvider'])
    names = {i.name for i in session.get_inputs()}
    return [session.run(None, {k: v for k, v in feed.items() if k in names}) for feed in feeds]


def check_folded(checks, fold8, name, network, feeds, work):
    import numpy as np
    import onnx

    folded = work / 'folded.onnx'
    facts = fold8.facts(work / 'fold.json', 'fold', network, '-o', folded)
    left = sum(n.op_type == 'BatchNormalization' for n in onnx.load(folded).graph.node)
    checks.expect(left == 0 and facts['batch_norms_left'] == 0, f'{name}: {left} BatchNormalization nodes left')
    worst = 0.0
    for before, after in zip(answers(network, feeds), answers(folded, feeds)):
        for a, b in zip(before, after):
            if not (a.shape == b.shape and a.dtype == b.dtype):
                checks.expect(False, f'{name}: {b.dtype}{b.shape} in place of {a.dtype}{a.shape}')
                continue
            worst = max(worst, float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-30)))
    checks.expect(worst <= FOLD_TOLERANCE, f'{name}: folded differs by {worst:.1e} <= {FOLD_TOLERANCE} of the largest value')


def fold(checks, fold8, work):
    """`fold8 fold` writes ONNX that other runtimes run, with the same answers and without BatchNorms."""
    import numpy as np
    import zoo_data

    image = np.load(DATA / 'digits_eval.npz')['image'][:BATCH]
    for name in ('digits_cnn', 'digits_ln', 'digits_rms'):
        check_folded(checks, fold8, name, DATA / f'{name}.onnx', [{'image': image}], work)
    store = Path(os.environ.get('FOLD8_ZOO_DIR') or work.parent / 'zoo').resolve()
    fetch = [ROOT / 'tools/zoo/fetch_zoo.sh', store, *ZOO_FOLDED, 'texts']
    if subprocess.run(fetch, env={**os.environ, 'PYTHON': sys.executable}, stdin=subprocess.DEVNULL).returncode != 0:
        skip(f'{", ".join(ZOO_FOLDED)} could not be fetched into {store}')
    for name in ZOO_FOLDED:
        shutil.rmtree(work / 'samples', ignore_errors=True)
        zoo_data.write(store, work / 'samples', name, seed=1000, count=4)
        feeds = [dict(np.load(f)) for f in sorted((work / 'samples').glob('*.npz'))]
        check_folded(checks, fold8, name, store / f'models/{name}.onnx', feeds, work)


# ---------------------------------------------------------------- embed

EMBEDDED_IMAGES = 8


def embed(checks, fold8, work):
    """The small C program of tools/examples, built against an installed tree, finds the classes of held-out images."""
    import numpy as np

    build = Path(fold8.binary).parents[1]
    prefix = work / 'prefix'
    shutil.rmtree(prefix, ignore_errors=True)
    quiet = dict(check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    subprocess.run(['cmake', '--install', build, '--component', 'runtime', '--prefix', prefix], **quiet)
    library = next(prefix.rglob('libfold8_runtime.so')).parent
    program = work / 'two_threads'
    subprocess.run(['cc', '-std=gnu99', '-Wall', '-Wextra', '-Werror', ROOT / 'tools/examples/two_threads.c', '-o', program, f'-I{prefix}/include/fold8',
                    f'-L{library}', f'-Wl,-rpath,{library}', '-lfold8_runtime', '-lpthread'], **quiet)
    needed = subprocess.run(['ldd', program], capture_output=True, text=True, check=True).stdout
    checks.expect('protobuf' not in needed and 'dnnl' not in needed, 'the program needs neither protobuf nor oneDNN')
    model = work / 'digits_cnn.f8'
    fold8('convert', DATA / 'digits_cnn.onnx', '-o', model, *CALIBRATION)
    evaluation = np.load(DATA / 'digits_eval.npz')
    for i in range(EMBEDDED_IMAGES):
        evaluation['image'][i].tofile(work / 'image.f32')
        done = subprocess.run([program, model, work / 'image.f32'], capture_output=True, text=True)
        checks.expect(done.returncode == 0 and done.stdout.strip() == str(evaluation['label'][i]), f'image {i}: class {done.stdout.strip()}{done.stderr}')


TESTS = {f.__name__: f for f in (accuracy, same_bytes, qat, other_cpus, zoo, fold, embed)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('test', choices=TESTS)
    parser.add_argument('--fold8', required=True)
    parser.add_argument('--work', required=True, type=Path)
    parser.add_argument('--venv', required=True)
    a = parser.parse_args()
    enter_venv(a.venv)
    work = (a.work / f'models_{a.test}').resolve()
    work.mkdir(parents=True, exist_ok=True)
    checks = Checks()
    TESTS[a.test](checks, Fold8(a.fold8), work)
    checks.finish(a.test)


if __name__ == '__main__':
    main()
