#!/usr/bin/env python3
"""Calibrates a network on a Ray cluster: every worker measures a shard of the samples, the parts are merged.

    pip install ray
    python calibrate_on_ray.py --fold8 build/release/bin/fold8 --model net.onnx --data samples/ -o net.stats --shards 4 --check

Each task runs `fold8 calibrate` on its shard and returns the statistics, some MB whatever the shard's size; the driver
merges them with `fold8 merge`. The result has the same bytes as one run over all samples, however they were divided:
--check runs that as well and compares. Without --address a local cluster of --workers CPUs is started; on a real one
(`ray start --head`, `ray start --address=...`) the fold8 binary, the model and the samples must have the same path on
every machine. `fold8 convert net.onnx -o net.f8 --stats net.stats` then needs no samples.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import ray


def fold8(binary, *args):
    done = subprocess.run([binary, *map(str, args)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f'fold8 {args[0]} ended with {done.returncode}: {done.stderr.strip()}')
    return done.stderr.strip()


@ray.remote(num_cpus=1)
def measure(binary, model, samples, options):
    """The statistics of one shard, as bytes."""
    with tempfile.TemporaryDirectory(prefix='fold8-shard-') as folder:
        out = pathlib.Path(folder) / 'shard.stats'
        fold8(binary, 'calibrate', model, '-o', out, '--threads', 1, *options, '--data', *samples)
        return out.read_bytes()


def merged(binary, shards, out):
    with tempfile.TemporaryDirectory(prefix='fold8-merge-') as folder:
        paths = [pathlib.Path(folder) / f'{i}.stats' for i in range(len(shards))]
        for path, shard in zip(paths, shards):
            path.write_bytes(shard)
        return fold8(binary, 'merge', '-o', out, *paths)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--fold8', required=True)
    p.add_argument('--model', required=True)
    p.add_argument('--data', type=pathlib.Path, required=True, help='a folder with one file a sample')
    p.add_argument('-o', '--output', type=pathlib.Path, required=True)
    p.add_argument('--shards', type=int, default=4)
    p.add_argument('--workers', type=int, default=2, help='CPUs of the local cluster')
    p.add_argument('--address', help='of a running cluster')
    p.add_argument('--options', nargs='*', default=[], help='more for fold8 calibrate, e.g. --options=--layernorm-to-rmsnorm')
    p.add_argument('--check', action='store_true', help='compare with one run over all samples')
    args = p.parse_args()

    binary, model = (str(pathlib.Path(f).resolve()) for f in (args.fold8, args.model))
    samples = sorted(str(f.resolve()) for f in args.data.iterdir())
    if not samples:
        sys.exit(f'{args.data}: there are no samples')
    ray.init(address=args.address, log_to_driver=False) if args.address else \
        ray.init(num_cpus=args.workers, include_dashboard=False, log_to_driver=False)
    count = min(args.shards, len(samples))
    tasks = [measure.remote(binary, model, samples[i::count], args.options) for i in range(count)]
    print(merged(binary, ray.get(tasks), args.output))
    print(f'{len(samples)} samples in {count} shards on {int(ray.cluster_resources()["CPU"])} CPUs')
    if args.check:
        whole = args.output.with_suffix('.whole')
        fold8(binary, 'calibrate', model, '-o', whole, *args.options, '--data', *samples)
        same = whole.read_bytes() == args.output.read_bytes()
        whole.unlink()
        print('the same bytes as one run' if same else 'OTHER BYTES than one run')
        return 0 if same else 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
