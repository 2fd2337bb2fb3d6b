"""Convolutional networks with synthetic weights: their times and graphs count."""
import numpy as np

from peers import data
from peers.graph import Graph


def image_model(name, seed, number):
    """A graph with its input, and the data of the model."""
    rng = np.random.default_rng([seed, number])
    calibration, evaluation = data.pair(lambda count: data.crops(count, 224, 224, rng))
    graph = Graph(name, seed)
    return graph, graph.input('input', [1, 3, 224, 224], calibration[:8]), ({'input': calibration}, {'input': evaluation})


def finish(graph, x, features, out, samples):
    x = graph.op('Flatten', [graph.op('GlobalAveragePool', [x])], axis=1)
    graph.save(graph.classifier(x, features), out / graph.name / 'model.onnx')
    data.save(out / graph.name, *samples, kind='cnn')


def bottleneck(g, x, width, stride, first):
    """ResNet's block of three convolutions; the first of a stage projects its shortcut."""
    y = g.op('Relu', [g.batch_norm(g.conv(x, width, 1))])
    y = g.op('Relu', [g.batch_norm(g.conv(y, width, 3, stride))])
    y = g.batch_norm(g.conv(y, width * 4, 1), 0.5)
    shortcut = g.batch_norm(g.conv(x, width * 4, 1, stride)) if first else x
    return g.op('Relu', [g.op('Add', [y, shortcut])])


def resnet50(out, seed, _):
    g, x, samples = image_model('resnet50', seed, 1)
    x = g.op('Relu', [g.batch_norm(g.conv(x, 64, 7, 2))])
    x = g.op('MaxPool', [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(blocks):
            x = bottleneck(g, x, width, stride if i == 0 else 1, i == 0)
    finish(g, x, 2048, out, samples)


def relu6(g, x):
    return g.op('Clip', [x, g.constant(np.float32(0)), g.constant(np.float32(6))])


def inverted_residual(g, x, expansion, channels, stride):
    """MobileNetV2's block: widen, depthwise, narrow."""
    inside = g.values[x].shape[1]
    y = x if expansion == 1 else relu6(g, g.batch_norm(g.conv(x, inside * expansion, 1)))
    y = relu6(g, g.batch_norm(g.conv(y, inside * expansion, 3, stride, groups=inside * expansion)))
    y = g.batch_norm(g.conv(y, channels, 1))
    return g.op('Add', [x, y]) if stride == 1 and inside == channels else y


def mobilenetv2(out, seed, _):
    g, x, samples = image_model('mobilenetv2', seed, 2)
    x = relu6(g, g.batch_norm(g.conv(x, 32, 3, 2)))
    for expansion, channels, blocks, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                                (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(blocks):
            x = inverted_residual(g, x, expansion, channels, stride if i == 0 else 1)
    x = relu6(g, g.batch_norm(g.conv(x, 1280, 1)))
    finish(g, x, 1280, out, samples)
