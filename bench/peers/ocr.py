"""PP-OCR's networks with their trained weights, at fixed shapes: text detection, recognition, orientation."""
import dataclasses

import numpy as np
import onnx
import onnx.version_converter

from peers import data, wheels


@dataclasses.dataclass(frozen=True)
class Network:
    name: str
    file: str
    height: int
    width: int
    lines: int          # of text in a sample
    mean: float = 0.5   # of all three channels
    std: float = 0.5


DET = Network('ocr_det', 'ch_PP-OCRv4_det_infer.onnx', 480, 640, 9, 0.485, 0.229)
REC = Network('ocr_rec', 'ch_PP-OCRv4_rec_infer.onnx', 48, 320, 1)
CLS = Network('ocr_cls', 'ch_ppocr_mobile_v2.0_cls_infer.onnx', 48, 192, 1)


def fixed(path, height, width):
    """The model with batch 1 and this image size, in opset 13, which the peers' quantizers need for scales per channel."""
    model = onnx.load(path)
    for dim, value in zip(model.graph.input[0].type.tensor_type.shape.dim, (1, 3, height, width)):
        dim.Clear()
        dim.dim_value = value
    del model.graph.value_info[:]
    for output in model.graph.output:
        output.type.tensor_type.ClearField('shape')
    model = onnx.version_converter.convert_version(model, 13)
    model.ir_version = 8
    return onnx.shape_inference.infer_shapes(model)


def write(network, out, seed, wheel_dir):
    folder = out / network.name
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(fixed(wheel_dir / wheels.OCR / network.file, network.height, network.width), folder / 'model.onnx')
    rng, normalization = np.random.default_rng([seed, 7, network.height]), (network.mean, network.std)
    samples = data.pair(lambda count: {'x': data.pages(count, network.height, network.width, rng, network.lines, normalization)})
    data.save(folder, *samples, kind='ocr')
