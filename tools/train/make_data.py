"""Writes tests/data from the four trained networks: samples, labels, golden outputs, and a table of accuracies.

usage: make_data.py DATADIR      (DATADIR holds digits_*.onnx)
Accuracy is measured with onnxruntime on the held-out images; the golden outputs too, one thread, graph optimisations off,
so that a quantized graph means exactly its Quantize and Dequantize nodes.
"""

import sys

import numpy as np
import onnx
import onnxruntime

import mnist

NETWORKS = ("digits_cnn", "digits_cnn_qat", "digits_ln", "digits_rms")
CALIBRATION_SAMPLES = 256
GOLDEN_SAMPLES = 8


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def main(folder):
    train, held_out = mnist.load()
    np.savez_compressed(f"{folder}/digits_eval.npz", image=held_out.images, label=held_out.labels)
    np.save(f"{folder}/digits_eval_labels.npy", held_out.labels)
    np.savez_compressed(f"{folder}/digits_calib.npz", image=train.images[:CALIBRATION_SAMPLES])
    for name in NETWORKS:
        path = f"{folder}/{name}.onnx"
        onnx.checker.check_model(path, full_check=True)
        run = session(path)
        logits = np.concatenate([run.run(None, {"image": i})[0] for i in np.split(held_out.images, 10)])
        golden = held_out.images[:GOLDEN_SAMPLES]
        np.savez_compressed(f"{folder}/expected/{name}.npz", image=golden, logits=run.run(None, {"image": golden})[0])
        print(f"{name}: accuracy {np.mean(logits.argmax(1) == held_out.labels):.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
