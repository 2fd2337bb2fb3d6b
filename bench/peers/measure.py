"""Interleaved measurements of one model: one live process a variant, short blocks in a fresh random order every round."""
import os
import random
import statistics

import numpy as np

from peers import convert, metrics, runners

USABLE_DB = 10.0    # an answer worse than this is no competition


def variants_of(model, failed):
    return [v for v in (*runners.PEERS, *runners.FOLD8) if v.name not in failed and (model.dir / v.file).exists()]


def start_workers(model, variants, setup, raw_inputs, errors):
    workers = {}
    for v in variants:
        try:
            workers[v] = runners.Worker(model, v, setup, raw_inputs)
        except RuntimeError as error:
            errors[v.name] = str(error)
    return workers


def interleaved(workers, rounds, seconds):
    """{variant name: [median ms of each round's block]}; CPU time, which other programs disturb less than wall time."""
    blocks = {v.name: [] for v in workers}
    for number in range(rounds):
        order = list(workers.items())
        random.Random(number).shuffle(order)
        for v, worker in order:
            blocks[v.name].append(statistics.median(worker.ask(f'bench {seconds}')['cpu_ms']))
    return blocks


def outputs(model, workers):
    """{variant name: first output of all evaluation samples}, shaped as ONNX Runtime's."""
    import onnxruntime as ort
    session = ort.InferenceSession(str(model.onnx), providers=['CPUExecutionProvider'])
    feeds = model.samples('eval')
    shape = session.run(None, feeds[0])[0].shape
    arrays = {}
    for v, worker in workers.items():
        path = model.dir / f'outputs_{v.name}.raw'
        worker.ask(f'eval {path}')
        arrays[v.name] = np.fromfile(path, np.float32).reshape(len(feeds), *shape[1:])
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


def cold_starts(model, setup, raw_inputs, names, count):
    """{variant name: medians of load_ms, first_ms, answer_ms and memory_mb} over fresh processes, in turns.

    load_ms: until the model can run; first_ms: its first inference; both CPU time. memory_mb: peak minus what the process
    took before it loaded the model.
    """
    chosen = [v for v in variants_of(model, ()) if v.name in names]
    infos = {v.name: [] for v in chosen}
    for _ in range(count):
        for v in chosen:
            worker = runners.Worker(model, v, setup, raw_inputs)
            worker.close()
            info = worker.info
            infos[v.name].append({'load_ms': info['load_ms'], 'first_ms': info['first_ms'],
                                  'answer_ms': info['load_ms'] + info['first_ms'], 'memory_mb': info['peak_mb'] - info['rss_mb']})
    return {name: {key: statistics.median(i[key] for i in all_of_it) for key in all_of_it[0]} for name, all_of_it in infos.items() if all_of_it}


def measure(model, setup, args):
    """Everything about one model, as a dictionary that can be written as JSON."""
    errors = dict(convert.convert_peers(model, runners.BENCH_DIR))
    try:
        runners.convert_fold8(model, setup)
        inspected = runners.inspect_fold8(model, setup)
    except (RuntimeError, OSError) as error:
        errors['fold8_int8'] = str(error)
        inspected = {}
    raw_inputs = runners.write_raw_inputs(model)
    workers = start_workers(model, variants_of(model, errors), setup, raw_inputs, errors)
    load = os.getloadavg()[0]
    try:
        blocks = interleaved(workers, args.rounds, args.seconds)
        accurate = accuracy(model, outputs(model, workers))
        targets = {v.name: worker.info['target'] for v, worker in workers.items() if 'target' in worker.info}
    finally:
        for worker in workers.values():
            worker.close()
    cold_names = [n for n in ('fold8_int8', 'fold8_float', 'ort_fp32', 'ort_u8s8_mm', 'ov_int8_alt') if n in blocks]
    cold = cold_starts(model, setup, raw_inputs, cold_names, args.cold) if args.cold else {}
    return {'model': model.name, 'rounds_ms': blocks, 'accuracy': accurate, 'targets': targets, 'cold': cold, 'errors': errors,
            'int8_mac_share': inspected.get('int8_mac_share'), 'load_average': [load, os.getloadavg()[0]]}


def ratios(result, a, b):
    """a's time / b's time, round by round."""
    return [x / y for x, y in zip(result['rounds_ms'][a], result['rounds_ms'][b])]


def median_ms(result, name):
    return statistics.median(result['rounds_ms'][name])


def best_peer(result, kind):
    """The name of the fastest peer with usable output among all peers, those in float, or those in INT8; None if none is."""
    wanted = {'any': lambda v: True, 'float': lambda v: v.is_float, 'int8': lambda v: not v.is_float}[kind]
    names = [v.name for v in runners.PEERS if v.name in result['rounds_ms'] and wanted(v) and result['accuracy'][v.name]['sqnr'] >= USABLE_DB]
    return min(names, key=lambda n: statistics.median(ratios(result, n, runners.BASE.name)), default=None)
