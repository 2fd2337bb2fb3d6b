"""Perplexity of a decoder on the first documents of a text file, and what it says behind a prompt.

usage: perplexity.py samples DECODER.onnx TOKENIZER.json TEXTS OUTDIR [--count 8] [--tokens 128] [--skip 0]
       perplexity.py score TOKENIZER.json TEXTS OUTDIR LOGITS_DIR [--count 8] [--tokens 128] [--skip 0]
       perplexity.py greedy MODEL.f8 DECODER.onnx TOKENIZER.json [--prompt TEXT] [--length 8] [--fold8 PATH]

`samples` writes a .npz per document (input_ids, position_ids, an empty past): calibration data, or what `fold8 run`
reads; `score` prints exp(mean negative log likelihood) over all tokens but the first of each document, from the logits
that a run left (LOGITS_DIR/SAMPLE/logits.npy). The decoder is one of bench/make_decoder.py --gguf.
"""

import argparse
import os
import subprocess
import tempfile

import numpy as np


def documents(a):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(a.tokenizer)
    with open(a.texts, errors="replace") as f:
        lines = [line.strip() for line in f]
    return [tokenizer.encode(line).ids[: a.tokens] for line in lines[a.skip : a.skip + a.count]]


def inputs_of(model, ids):
    """The decoder's inputs for a text without a past."""
    import onnx

    inputs = {"input_ids": np.array([ids], np.int64), "position_ids": np.arange(len(ids), dtype=np.int64)[None]}
    for value in onnx.load(model, load_external_data=False).graph.input:
        if value.name not in inputs:
            dims = [d.dim_value for d in value.type.tensor_type.shape.dim]
            inputs[value.name] = np.zeros([d if d > 0 else 0 for d in dims], np.float32)
    return inputs


def write_samples(a):
    os.makedirs(a.out, exist_ok=True)
    for i, ids in enumerate(documents(a)):
        np.savez(f"{a.out}/text{i:03}.npz", **inputs_of(a.model, ids))


def score(a):
    negative, count = 0.0, 0
    for i, ids in enumerate(documents(a)):
        logits = np.load(f"{a.logits}/text{i:03}/logits.npy")[0].astype(np.float64)[:-1]
        top = logits.max(1, keepdims=True)
        log_p = logits - top - np.log(np.exp(logits - top).sum(1, keepdims=True))
        negative -= log_p[np.arange(len(ids) - 1), ids[1:]].sum()
        count += len(ids) - 1
    print(f"perplexity {np.exp(negative / count):.3f} over {count} tokens")


def greedy(a):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(a.tokenizer)
    ids = tokenizer.encode(a.prompt).ids
    with tempfile.TemporaryDirectory() as d:
        for _ in range(a.length):
            np.savez(f"{d}/in.npz", **inputs_of(a.model, ids))
            subprocess.run([a.fold8, "run", a.compiled, "--input", f"{d}/in.npz", "--output-dir", d], check=True, capture_output=True)
            found = [f"{d}/logits.npy", f"{d}/in/logits.npy"]
            logits = np.load(next(f for f in found if os.path.exists(f)))
            ids.append(int(logits[0, -1].argmax()))
    print(tokenizer.decode(ids))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = p.add_subparsers(required=True)
    for name, run, names in (
        ("samples", write_samples, ("model", "tokenizer", "texts", "out")),
        ("score", score, ("tokenizer", "texts", "out", "logits")),
        ("greedy", greedy, ("compiled", "model", "tokenizer")),
    ):
        c = commands.add_parser(name)
        c.set_defaults(run=run)
        for argument in names:
            c.add_argument(argument)
        if name == "greedy":
            c.add_argument("--prompt", default="The capital of France is")
            c.add_argument("--length", type=int, default=8)
            c.add_argument("--fold8", default="fold8")
        else:
            for option, value in (("count", 8), ("tokens", 128), ("skip", 0)):
                c.add_argument(f"--{option}", type=int, default=value)
    a = p.parse_args()
    a.run(a)


if __name__ == "__main__":
    main()
