"""One model in one peer, kept alive: `python -m peers.peer_worker MODEL_DIR FILE` (a .onnx file: ONNX Runtime, .xml: OpenVINO).

The protocol is that of model_bench_worker.c. Once loaded and run, a JSON line with load_ms and first_ms (CPU time), rss_mb and
peak_mb. Then, one line a command:
    bench SECONDS   -> {"cpu_ms": [...], "wall_ms": [...]}, an inference each
    eval FILE       -> writes the first output of every evaluation sample to FILE as float32, sample after sample; {}
    quit
"""
import ctypes
import json
import re
import sys
import time

import numpy as np

from peers import models


# Both runtimes get their inputs bound before the clock starts: what Python costs is left in is a few microseconds a run.

class OnnxRuntime:
    """A session on one thread with all graph optimizations, which is the default."""

    def __init__(self):
        import onnxruntime
        self.ort, self.bindings = onnxruntime, {}

    def load(self, path):
        options = self.ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        self.session = self.ort.InferenceSession(str(path), options, providers=['CPUExecutionProvider'])

    def bind(self, number, feed):
        if number not in self.bindings:
            self.bindings[number] = self.session.io_binding()
            for name, array in feed.items():
                self.bindings[number].bind_ortvalue_input(name, self.ort.OrtValue.ortvalue_from_numpy(array))
            self.bindings[number].bind_output(self.session.get_outputs()[0].name, 'cpu')
        self.bound = self.bindings[number]

    def run(self):
        self.session.run_with_iobinding(self.bound)

    def output(self):
        return self.bound.copy_outputs_to_cpu()[0]


class OpenVino:
    """The settings its documents give for latency on one thread, and float32 where the model says float32."""

    def __init__(self):
        import openvino
        self.ov, self.core = openvino, openvino.Core()

    def load(self, path):
        compiled = self.core.compile_model(str(path), 'CPU', {
            'INFERENCE_PRECISION_HINT': 'f32', 'PERFORMANCE_HINT': 'LATENCY', 'NUM_STREAMS': '1',
            'INFERENCE_NUM_THREADS': '1', 'ENABLE_CPU_PINNING': 'NO'})
        self.request = compiled.create_infer_request()

    def bind(self, number, feed):
        for name, array in feed.items():
            self.request.set_tensor(name, self.ov.Tensor(array, shared_memory=True))

    def run(self):
        self.request.infer()

    def output(self):
        return np.array(self.request.get_output_tensor(0).data)


def memory_mb(field):
    """VmRSS or VmHWM of this process."""
    with open('/proc/self/status') as status:
        return int(re.search(field + r':\s+(\d+)', status.read()).group(1)) / 1024


def forget_peak():
    """Free memory goes back to the system and the peak counts from here, so that imports do not hide what a model takes."""
    ctypes.CDLL(None).malloc_trim(0)
    with open('/proc/self/clear_refs', 'w') as file:
        file.write('5')


def cpu_ms():
    return time.process_time_ns() / 1e6


def timed_block(runtime, feeds, start, seconds):
    """CPU and wall time of each inference for `seconds`, at least 4, samples in turn from number `start`."""
    def bind(number):
        runtime.bind(number % len(feeds), feeds[number % len(feeds)])

    cpu, wall, end = [], [], time.perf_counter() + seconds
    bind(start)
    runtime.run()   # not timed: the caches hold another process's data
    while time.perf_counter() < end or len(cpu) < 4:
        bind(start + len(cpu))
        cpu_begin, wall_begin = time.process_time_ns(), time.perf_counter_ns()
        runtime.run()
        wall.append((time.perf_counter_ns() - wall_begin) / 1e6)
        cpu.append((time.process_time_ns() - cpu_begin) / 1e6)
    return cpu, wall


def evaluate(runtime, feeds, path):
    outputs = []
    for number, feed in enumerate(feeds):
        runtime.bind(number, feed)
        runtime.run()
        outputs.append(runtime.output())
    np.stack(outputs).astype(np.float32).tofile(path)


def load(runtime, path, feed):
    """Loads and runs once; what that took."""
    forget_peak()
    rss, begin = memory_mb('VmRSS'), cpu_ms()
    runtime.load(path)
    loaded = cpu_ms()
    runtime.bind(0, feed)
    runtime.run()
    return {'load_ms': loaded - begin, 'first_ms': cpu_ms() - loaded, 'rss_mb': rss, 'peak_mb': memory_mb('VmHWM')}


def main():
    model, file = models.load(sys.argv[1]), sys.argv[2]
    runtime = OnnxRuntime() if file.endswith('.onnx') else OpenVino()
    feeds = model.samples('eval')
    print(json.dumps(load(runtime, model.dir / file, feeds[0])), flush=True)
    start = 0
    for line in sys.stdin:
        command, *rest = line.split(maxsplit=1)
        answer = {}
        if command == 'bench':
            answer['cpu_ms'], answer['wall_ms'] = timed_block(runtime, feeds, start, float(rest[0]))
            start += len(answer['cpu_ms'])
        elif command == 'eval':
            evaluate(runtime, feeds, rest[0].strip())
        else:
            break
        print(json.dumps(answer), flush=True)


if __name__ == '__main__':
    main()
