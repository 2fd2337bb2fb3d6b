"""Builds ONNX graphs node by node, and runs every node at once on a few samples.

The values at hand make synthetic weights behave like trained ones: BatchNorm statistics are those of real crops. The
graphs keep what exporters leave: unfused BatchNorm, Clip as ReLU6, erf-GELU in five nodes.
"""
import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper


def type_of(array):
    return helper.np_dtype_to_tensor_dtype(array.dtype)


class Graph:
    """values[name] is the value of every tensor so far; rng gives the weights, one generator a graph."""

    def __init__(self, name, seed, opset=17):
        self.name, self.opset = name, opset
        self.nodes, self.constants, self.inputs, self.values = [], [], [], {}
        self.count = 0
        self.rng = np.random.default_rng([seed, sum(map(ord, name))])
        self.options = ort.SessionOptions()
        self.options.intra_op_num_threads = 1
        self.options.log_severity_level = 4
        self.options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL

    def input(self, name, shape, value):
        self.inputs.append(helper.make_tensor_value_info(name, type_of(value), shape))
        self.values[name] = value
        return name

    def constant(self, array, hint='c'):
        array = np.asarray(array, order='C')    # ascontiguousarray would make a scalar 1-d
        self.count += 1
        name = f'{hint}_{self.count}'
        self.constants.append(numpy_helper.from_array(array, name))
        self.values[name] = array
        return name

    def ints(self, *values):
        return self.constant(np.array(values, np.int64))

    def op(self, op_type, inputs, outputs=1, **attributes):
        """Adds a node; returns the name of its output, or a list of names where it has several."""
        self.count += 1
        names = [f'{op_type}_{self.count}_o{i}' for i in range(outputs)]
        node = helper.make_node(op_type, inputs, names, name=f'{op_type}_{self.count}', **attributes)
        self.nodes.append(node)
        self.run(node)
        return names[0] if outputs == 1 else names

    def run(self, node):
        feed = {name: self.values[name] for name in dict.fromkeys(node.input) if name}
        infos = [helper.make_tensor_value_info(name, type_of(value), value.shape) for name, value in feed.items()]
        alone = helper.make_graph([node], 'one', infos, [helper.make_empty_tensor_value_info(o) for o in node.output])
        model = helper.make_model(alone, opset_imports=[helper.make_opsetid('', self.opset)])
        model.ir_version = 8
        session = ort.InferenceSession(model.SerializeToString(), self.options, providers=['CPUExecutionProvider'])
        self.values.update(zip(node.output, session.run(None, feed)))

    # Weights: Student-t(6) with Kaiming scale and a lognormal spread of the scale over the output channels.

    def weight(self, *shape, fan=None, gain=2.0, out_axis=0):
        fan = fan or int(np.prod(shape[1:]))
        w = self.rng.standard_t(6, size=shape) / np.sqrt(1.5) * np.sqrt(gain / fan)
        channels = [1] * len(shape)
        channels[out_axis] = shape[out_axis]
        return (w * np.exp(self.rng.normal(0, 0.25, size=channels))).astype(np.float32)

    def small(self, n, spread=0.05):
        return self.rng.normal(0, spread, n).astype(np.float32)

    # Convolutional networks

    def conv(self, x, channels, kernel, stride=1, groups=1):
        w = self.constant(self.weight(channels, self.values[x].shape[1] // groups, kernel, kernel), 'w')
        return self.op('Conv', [x, w], kernel_shape=[kernel, kernel], strides=[stride, stride], pads=[kernel // 2] * 4,
                       group=groups, dilations=[1, 1])

    def batch_norm(self, x, gain=1.0):
        """Mean and variance are those of x; gamma is lognormal, beta normal."""
        value = self.values[x].astype(np.float64)
        mean, variance = value.mean((0, 2, 3)), value.var((0, 2, 3)) + 1e-4
        gamma = gain * np.exp(self.rng.normal(0, 0.3, value.shape[1]))
        beta = gain * self.rng.normal(0, 0.2, value.shape[1])
        parameters = [self.constant(p.astype(np.float32), 'bn') for p in (gamma, beta, mean, variance)]
        return self.op('BatchNormalization', [x, *parameters], epsilon=1e-5, momentum=0.9)

    def classifier(self, x, features, classes=1000):
        w = self.constant(self.weight(classes, features, gain=1.0), 'w')
        return self.op('Gemm', [x, w, self.constant(self.small(classes), 'b')], transB=1)

    # Transformers

    def norm_gamma(self, n, outliers):
        """Lognormal, with a few channels several times larger, as trained Transformers have."""
        gamma = np.exp(self.rng.normal(0, 0.2, n))
        gamma[self.rng.choice(n, outliers, replace=False)] *= self.rng.uniform(3, 6, outliers)
        return gamma.astype(np.float32)

    def layer_norm(self, x, gamma=None, beta=None, epsilon=1e-12):
        n = self.values[x].shape[-1]
        gamma = self.norm_gamma(n, 3) if gamma is None else gamma
        beta = self.small(n, 0.1) if beta is None else beta
        return self.op('LayerNormalization', [x, self.constant(gamma, 'ln'), self.constant(beta, 'ln')], axis=-1, epsilon=epsilon)

    def linear(self, x, n, bias=True, gain=1.0, weight=None, bias_value=None):
        """MatMul and Add; weight [in, out] and bias_value where they are not to be drawn."""
        k = self.values[x].shape[-1]
        weight = self.weight(k, n, fan=k, gain=gain, out_axis=1) if weight is None else weight
        y = self.op('MatMul', [x, self.constant(weight, 'w')])
        if not bias:
            return y
        return self.op('Add', [y, self.constant(self.small(n) if bias_value is None else bias_value, 'b')])

    def gelu(self, x):
        erf = self.op('Erf', [self.op('Div', [x, self.constant(np.float32(np.sqrt(2)))])])
        y = self.op('Mul', [x, self.op('Add', [erf, self.constant(np.float32(1))])])
        return self.op('Mul', [y, self.constant(np.float32(0.5))])

    def reshape(self, x, *shape):
        return self.op('Reshape', [x, self.ints(*shape)])

    def transpose(self, x, *order):
        return self.op('Transpose', [x], perm=list(order))

    def scaled(self, x, factor):
        return self.op('Mul', [x, self.constant(np.float32(factor))])

    def save(self, x, path, name='output'):
        """Writes the model whose output `name` is x, batch 1."""
        self.nodes.append(helper.make_node('Identity', [x], [name], name='out_' + name))
        shape = [1, *self.values[x].shape[1:]]
        output = helper.make_tensor_value_info(name, type_of(self.values[x]), shape)
        graph = helper.make_graph(self.nodes, self.name, self.inputs, [output], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', self.opset)], producer_name='fold8-make_models')
        model.ir_version = 8
        onnx.checker.check_model(model)
        path.parent.mkdir(parents=True, exist_ok=True)
        onnx.save(model, path)
