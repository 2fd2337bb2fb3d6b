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


class OnnxRuntime:
    """A session on one thread with all graph optimizations, which is the default."""

    def __init__(self):
        import onnxruntime
        self.ort = onnxruntime

    def load(self, path):
        options = self.ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        self.session = self.ort.InferenceSession(str(path), options, providers=['CPUExecutionProvider'])

    def run(self, feed):
        return self.session.run(None, feed)[0]


class OpenVino:
    """The settings its documents give for latency on one thread, and float32 where the model says float32."""

    def __init__(self):
        import openvino
        self.core = openvino.Core()

    def load(self, path):
        compiled = self.core.compile_model(str(path), 'CPU', {
            'INFERENCE_PRECISION_HINT': 'f32', 'PERFORMANCE_HINT': 'LATENCY', 'NUM_STREAMS': '1',
            'INFERENCE_NUM_THREADS': '1', 'ENABLE_CPU_PINNING': 'NO'})
        self.output = compiled.outputs[0]
        self.request = compiled.create_infer_request()

    def run(self, feed):
        return self.request.infer(feed, share_inputs=True, share_outputs=True)[self.output]


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
    cpu, wall, end = [], [], time.perf_counter() + seconds
    runtime.run(feeds[start % len(feeds)])  # not timed: the caches hold another process's data
    while time.perf_counter() < end or len(cpu) < 4:
        feed = feeds[(start + len(cpu)) % len(feeds)]
        cpu_begin, wall_begin = time.process_time_ns(), time.perf_counter_ns()
        runtime.run(feed)
        wall.append((time.perf_counter_ns() - wall_begin) / 1e6)
        cpu.append((time.process_time_ns() - cpu_begin) / 1e6)
    return cpu, wall


def main():
    model, file = models.load(sys.argv[1]), sys.argv[2]
    runtime = OnnxRuntime() if file.endswith('.onnx') else OpenVino()
    feeds = model.samples('eval')
    forget_peak()
    rss, begin = memory_mb('VmRSS'), cpu_ms()
    runtime.load(model.dir / file)
    loaded = cpu_ms()
    runtime.run(feeds[0])
    first = cpu_ms()
    print(json.dumps({'load_ms': loaded - begin, 'first_ms': first - loaded, 'rss_mb': rss, 'peak_mb': memory_mb('VmHWM')}), flush=True)
    start = 0
    for line in sys.stdin:
        command, *rest = line.split(maxsplit=1)
        answer = {}
        if command == 'bench':
            answer['cpu_ms'], answer['wall_ms'] = timed_block(runtime, feeds, start, float(rest[0]))
            start += len(answer['cpu_ms'])
        elif command == 'eval':
            np.stack([np.array(runtime.run(feed)) for feed in feeds]).astype(np.float32).tofile(rest[0].strip())
        else:
            break
        print(json.dumps(answer), flush=True)


if __name__ == '__main__':
    main()
