"""Interleaved measurements of one model: one live process a variant, short blocks in a fresh random order every round."""
import os
import random
import statistics

import numpy as np

from peers import convert, metrics, runners

USABLE_DB = 10.0    # an answer worse than this is no competition
COLD_STARTS = ('ort_fp32', 'ort_u8s8_mm', 'ov_int8_alt', 'fold8_int8', 'fold8_float')


def variants_of(model, setup, failed=()):
    """Those that can run; a target of fold8's own only where nothing chooses one for all."""
    chosen = setup.target or setup.mask
    return [v for v in (*runners.PEERS, *runners.FOLD8)
            if v.name not in failed and (model.dir / v.file).exists() and not (v.target and chosen)]


def start_workers(model, variants, setup, raw_inputs, errors):
    workers = {}
    for v in variants:
        try:
            workers[v] = runners.Worker(model, v, setup, raw_inputs)
        except RuntimeError as error:
            errors[v.name] = str(error)
    return workers


def ask(workers, variant, command, errors):
    """The worker's answer, or None: then it has died, and is no longer among the workers."""
    try:
        return workers[variant].ask(command)
    except RuntimeError as error:
        errors[variant.name] = str(error)
        workers.pop(variant).close()
        return None


def interleaved(workers, rounds, seconds, errors):
    """{variant name: [median ms of each round's block]}; CPU time, which other programs disturb less than wall time."""
    blocks = {v.name: [] for v in workers}
    for number in range(rounds):
        order = list(workers)
        random.Random(number).shuffle(order)
        for v in order:
            if answer := ask(workers, v, f'bench {seconds}', errors):
                blocks[v.name].append(statistics.median(answer['cpu_ms']))
    return blocks


def outputs(model, workers, errors):
    """{variant name: first output of all evaluation samples}, shaped as ONNX Runtime's."""
    import onnxruntime as ort
    session = ort.InferenceSession(str(model.onnx), providers=['CPUExecutionProvider'])
    feeds = model.samples('eval')
    shape = session.run(None, feeds[0])[0].shape
    arrays = {}
    for v in list(workers):
        path = model.dir / f'outputs_{v.name}.raw'
        if ask(workers, v, f'eval {path}', errors) is not None:
            arrays[v.name] = np.fromfile(path, np.float32).reshape(len(feeds), *shape[1:])
            path.unlink()
    return arrays


def accuracy(model, arrays):
    """{variant name: {sqnr, task}} against ONNX Runtime FP32."""
    reference = arrays[runners.BASE.name]
    keep = np.load(model.dir / f'eval_{model.mask}.npy').astype(bool) if model.mask else None
    result = {}
    for name, array in arrays.items():
        what, value = metrics.task(model, reference, array, keep)
        result[name] = {'sqnr': metrics.sqnr_db(reference, array, keep), 'task': value, 'task_name': what}
    return result


def forget_file(path):
    """The next process reads it from disk. A file that was just written lies in the page cache as folios of up to 2 MiB, and a
    mapping counts a folio whole as soon as one byte of it is touched."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def cold_starts(model, setup, raw_inputs, names, count):
    """{variant name: medians of load_ms, first_ms, answer_ms and memory_mb} over fresh processes, in turns.

    load_ms: until the model can run; first_ms: its first inference; both CPU time. memory_mb: peak minus what the process
    took before it loaded the model.
    """
    chosen = [v for v in variants_of(model, setup) if v.name in names] if count else []
    infos = {v.name: [] for v in chosen}
    for _ in range(count):
        for v in chosen:
            forget_file(model.dir / v.file)
            worker = runners.Worker(model, v, setup, raw_inputs)
            worker.close()
            info = worker.info
            infos[v.name].append({'load_ms': info['load_ms'], 'first_ms': info['first_ms'],
                                  'answer_ms': info['load_ms'] + info['first_ms'], 'memory_mb': info['peak_mb'] - info['rss_mb']})
    return {name: {key: statistics.median(i[key] for i in starts) for key in starts[0]} for name, starts in infos.items()}


def measure(model, setup, args):
    """Everything about one model, as a dictionary that can be written as JSON."""
    errors = {**convert.convert_peers(model, runners.BENCH_DIR), **runners.convert_fold8(model, setup)}
    inspected = {} if 'fold8_int8' in errors else runners.inspect_fold8(model, setup)
    raw_inputs = runners.write_raw_inputs(model)
    loads = [os.getloadavg()[0]]
    workers = start_workers(model, variants_of(model, setup, errors), setup, raw_inputs, errors)
    targets = {v.name: worker.info['target'] for v, worker in workers.items() if 'target' in worker.info}
    try:
        blocks = interleaved(workers, args.rounds, args.seconds, errors)
        arrays = outputs(model, workers, errors)
    finally:
        for worker in workers.values():
            worker.close()
    if runners.BASE.name in errors:
        raise SystemExit(f'{model.name}: ONNX Runtime FP32, the reference, failed: {errors[runners.BASE.name]}')
    cold = cold_starts(model, setup, raw_inputs, [n for n in COLD_STARTS if n in arrays], args.cold)
    loads.append(os.getloadavg()[0])
    return {'model': model.name, 'rounds_ms': {n: blocks[n] for n in arrays}, 'accuracy': accuracy(model, arrays), 'targets': targets,
            'cold': cold, 'errors': errors, 'int8_mac_share': inspected.get('int8_mac_share'), 'load_average': loads}


def ratios(result, a, b):
    """a's time / b's time, round by round."""
    return [x / y for x, y in zip(result['rounds_ms'][a], result['rounds_ms'][b])]


def median_ms(result, name):
    return statistics.median(result['rounds_ms'][name])


def best_peer(result, kind):
    """The name of the fastest peer with usable output among all peers, those in float, or those in INT8; None if none is."""
    wanted = {'any': lambda v: True, 'float': lambda v: v.is_float, 'int8': lambda v: not v.is_float}[kind]
    there = [v for v in runners.PEERS if v.name in result['rounds_ms'] and wanted(v)]
    names = [v.name for v in there if result['accuracy'][v.name]['sqnr'] >= USABLE_DB]
    return min(names, key=lambda n: statistics.median(ratios(result, n, runners.BASE.name)), default=None)
