"""The peers' own conversions: ONNX Runtime's quantizer, OpenVINO, NNCF; each with the recipe its documents recommend.

    python -m peers.convert MODEL_DIR TARGET        one conversion in a process of its own, as convert_peers() runs it

Where a recipe fails on a model, the repair a user would find is applied and printed.
"""
import os
import pathlib
import subprocess
import sys

from peers import models

FILES = {
    'ort_u8s8_mm': 'ort_u8s8_mm.onnx',     # static QDQ, uint8 activations, int8 weights per channel, MinMax
    'ort_dyn': 'ort_dyn.onnx',             # dynamic quantization
    'ov_fp32': 'ov_fp32.xml',              # OpenVINO's own format, float
    'ov_int8': 'ov_int8.xml',              # NNCF post-training quantization, default
    'ov_int8_alt': 'ov_int8_alt.xml',      # NNCF with model_type TRANSFORMER or preset MIXED, as suits the model
}


def prepared_for_ort(model, path):
    """quant_pre_process writes `path`, with all shapes it can infer."""
    from onnxruntime.quantization.shape_inference import quant_pre_process
    try:
        quant_pre_process(str(model.onnx), str(path))
    except Exception as error:  # ocr_cls: an assertion in the symbolic shape inference of Concat
        print('quant_pre_process failed, repeated without symbolic shapes:', repr(error)[:300])
        quant_pre_process(str(model.onnx), str(path), skip_symbolic_shape=True)


def ort_dynamic(model, source, target):
    from onnxruntime.quantization import QuantType, quantize_dynamic
    if model.kind == 'transformer':
        quantize_dynamic(str(source), str(target), per_channel=True, weight_type=QuantType.QInt8)
    else:  # ConvInteger has no kernel for int8 weights
        quantize_dynamic(str(source), str(target), per_channel=False, weight_type=QuantType.QUInt8)


def ort_static(model, source, target):
    from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.left = iter(model.samples('calib'))

        def get_next(self):
            return next(self.left, None)

    quantize_static(str(source), str(target), Reader(), quant_format=QuantFormat.QDQ, per_channel=True,
                    weight_type=QuantType.QInt8, activation_type=QuantType.QUInt8, calibrate_method=CalibrationMethod.MinMax)


def convert_ort(model, name, target):
    source = target.with_suffix('.prepared.onnx')
    try:
        prepared_for_ort(model, source)
        (ort_dynamic if name == 'ort_dyn' else ort_static)(model, source, target)
    finally:
        for leftover in (source, pathlib.Path(f'{source}.data')):
            leftover.unlink(missing_ok=True)


def folded_by_ort(model, target):
    """A copy of the model with constants folded."""
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(target.with_suffix('.folded.onnx'))
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    ort.InferenceSession(str(model.onnx), options, providers=['CPUExecutionProvider'])
    return options.optimized_model_filepath


def quantized_by_nncf(model, name, target):
    import nncf
    import openvino as ov
    recipe = {}
    if name == 'ov_int8_alt':
        transformer, mixed = {'model_type': nncf.ModelType.TRANSFORMER}, {'preset': nncf.QuantizationPreset.MIXED}
        recipe = transformer if model.kind == 'transformer' else mixed
    samples = model.samples('calib')

    def quantize(path):
        return nncf.quantize(ov.Core().read_model(path), nncf.Dataset(samples), subset_size=len(samples), **recipe)

    try:
        return quantize(str(model.onnx))
    except KeyError as error:  # NNCF 3.4.0 on a Gather with constant indices, where no model_type is given
        print('NNCF failed, repeated on the model with constants folded:', repr(error))
        return quantize(folded_by_ort(model, target))


def convert_openvino(model, name, target):
    import openvino as ov
    converted = ov.convert_model(str(model.onnx)) if name == 'ov_fp32' else quantized_by_nncf(model, name, target)
    ov.save_model(converted, target, compress_to_fp16=False)


def convert_peers(model, bench_dir):
    """Runs the conversions whose files are missing, one process each, and keeps a log of each; returns the failures."""
    failed = {}
    for name, file in FILES.items():
        if (model.dir / file).exists():
            continue
        print(f'{model.name}: converting for {name}', file=sys.stderr, flush=True)
        env = dict(os.environ, PYTHONPATH=str(bench_dir), PYTHONWARNINGS='ignore')
        log = model.dir / f'convert_{name}.log'
        with log.open('w') as out:
            done = subprocess.run([sys.executable, '-m', 'peers.convert', model.dir, name], env=env, stdout=out, stderr=out)
        if done.returncode:
            (model.dir / file).unlink(missing_ok=True)
            failed[name] = (log.read_text().strip().splitlines() or ['no message'])[-1]
    return failed


def main():
    model, name = models.load(sys.argv[1]), sys.argv[2]
    (convert_ort if name.startswith('ort') else convert_openvino)(model, name, model.dir / FILES[name])


if __name__ == '__main__':
    main()
