"""llama_bench.py DECODER.f8 MODEL.gguf --bench BUILD/bench/session_bench [--rounds 9 --prompt 128 --tokens 128 --cpu 1]

A decoder beside llama.cpp, one thread, in turns: a prompt in one go and single tokens behind it. DECODER.f8 is made of the
same weights (make_decoder.py --gguf, fold8 convert). MODEL.gguf is run as it is; with --quantize it is written as Q8_0
first, to MODEL-Q8_0.gguf. llama.cpp is what PyPI's llama-cpp-python builds from source (pip install --no-binary
llama-cpp-python llama-cpp-python, CMAKE_ARGS=-DGGML_NATIVE=ON), or the library that LLAMA_CPP_LIB_PATH names.

CPU time of a process. Weights in cache or not are as a process of its own leaves them: each turn is a new one, a first
prompt and text come before the times. llama.cpp keeps keys and values as f16 and gives logits of the last token of a
prompt only (--all-logits: of all, as the decoder of make_decoder.py does).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time


def quantize(source, target):
    import llama_cpp
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype, params.allow_requantize, params.nthread = llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0, True, 1
    if llama_cpp.llama_model_quantize(source.encode(), target.encode(), params) != 0:
        sys.exit(f'{source}: cannot be written as Q8_0')


class Llama:
    def __init__(self, a):
        import llama_cpp
        self.lib = llama_cpp
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(a.gguf.encode(), llama_cpp.llama_model_default_params())
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = max(a.prompt + a.tokens, 512)
        params.n_threads = params.n_threads_batch = 1
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        if not self.context:
            sys.exit(f'{a.gguf}: llama.cpp cannot load it')
        self.batch, self.all = llama_cpp.llama_batch_init(params.n_batch, 0, 1), a.all_logits

    def timed(self, first, count):
        b = self.batch
        b.n_tokens = count
        for i in range(count):
            b.token[i], b.pos[i], b.n_seq_id[i], b.seq_id[i][0] = first + i, first + i, 1, 0
            b.logits[i] = self.all or i == count - 1
        start = time.process_time()
        if self.lib.llama_decode(self.context, b) != 0:
            sys.exit('llama_decode failed')
        self.lib.llama_get_logits(self.context)
        return (time.process_time() - start) * 1e3

    def forget(self):
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)


def worker(a):
    """As session_bench decode."""
    llama, prompts, each = Llama(a), [], []
    for turn in range(4):
        llama.forget()
        prompt = llama.timed(0, a.prompt)
        tokens = [llama.timed(a.prompt + i, 1) for i in range(a.tokens)]
        if turn > 0:
            prompts.append(prompt)
            each += tokens
    import llama_cpp
    print(json.dumps({'version': llama_cpp.__version__, 'system': llama_cpp.llama_print_system_info().decode(),
                      'prompt_ms': statistics.median(prompts), 'token_ms': statistics.median(each)}))


def turn(a, command):
    pinned = ['taskset', '-c', str(a.cpu), *command]
    done = subprocess.run(pinned, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, 'OMP_NUM_THREADS': '1'})
    return json.loads(done.stdout.decode().strip().splitlines()[-1])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('decoder')
    p.add_argument('gguf')
    p.add_argument('--bench', default='session_bench')
    p.add_argument('--states', default='present.*=past.*')
    for name, value in (('rounds', 9), ('prompt', 128), ('tokens', 128), ('cpu', 1)):
        p.add_argument('--' + name, type=int, default=value)
    p.add_argument('--quantize', action='store_true')
    p.add_argument('--all-logits', action='store_true')
    p.add_argument('--worker', action='store_true', help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.worker:
        return worker(a)
    if a.quantize:
        target = a.gguf.removesuffix('.gguf') + '-Q8_0.gguf'
        quantize(a.gguf, target)
        a.gguf = target
    sizes = ['--prompt', str(a.prompt), '--tokens', str(a.tokens)]
    theirs = [sys.executable, __file__, a.decoder, a.gguf, '--worker', *sizes] + ['--all-logits'] * a.all_logits
    ours = [a.bench, 'decode', a.decoder, a.states, str(a.prompt), str(a.tokens)]
    rounds = []
    for i in range(a.rounds):
        f, l = turn(a, ours), turn(a, theirs)
        rounds.append((f, l))
        print(f'round {i + 1}: fold8 ({f["target"]}) prompt {f["prompt_ms"]:.1f} ms, token {f["token_ms"]:.2f} ms; llama.cpp {l["prompt_ms"]:.1f} ms, '
              f'{l["token_ms"]:.2f} ms', flush=True)
    print(f'llama-cpp-python {rounds[0][1]["version"]}: {rounds[0][1]["system"].strip()}')
    for key, what in (('prompt_ms', f'prompt of {a.prompt}'), ('token_ms', 'token')):
        ratios = sorted(l[key] / f[key] for f, l in rounds)
        print(f'{what}: fold8 {statistics.median(f[key] for f, _ in rounds):.2f} ms, llama.cpp {statistics.median(l[key] for _, l in rounds):.2f} ms, '
              f'{statistics.median(ratios):.2f} times as long ({ratios[0]:.2f} to {ratios[-1]:.2f})')


if __name__ == '__main__':
    main()
