"""Real networks with one thing broken on purpose. Each maker takes an ONNX model and returns (reference, broken).

reference  the float network that the report takes as the truth
broken     what is converted: the same function in float, but for what was broken
"""

import copy

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def weight(model, name):
    for tensor in model.graph.initializer:
        if tensor.name == name:
            return tensor
    raise KeyError(name)


def with_initializers(model, names):
    """The same model where these Constant nodes are initializers."""
    model = copy.deepcopy(model)
    for node in [n for n in model.graph.node if n.op_type == "Constant" and n.output[0] in names]:
        tensor = model.graph.initializer.add()
        tensor.CopyFrom(node.attribute[0].t)
        tensor.name = node.output[0]
        model.graph.node.remove(node)
    return model


def change_weight(model, name, change):
    """Replaces an initializer by change(its array)."""
    tensor = weight(model, name)
    array = change(numpy_helper.to_array(tensor).copy()).astype(np.float32)
    tensor.CopyFrom(numpy_helper.from_array(array, name))


def add_weight(model, name, array):
    model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    return name


def insert_behind(model, tensor, nodes, result):
    """Whatever reads `tensor` reads `result` instead, which `nodes` compute from it."""
    at = next(i for i, n in enumerate(model.graph.node) if tensor in n.output) + 1
    for node in model.graph.node:
        for i, name in enumerate(node.input):
            if name == tensor:
                node.input[i] = result
    for node in reversed(nodes):
        model.graph.node.insert(at, node)


def insert_pair(model, tensor, scale, zero_point):
    """Rounds a tensor to u8 with these numbers."""
    add_weight(model, f"{tensor}_scale", np.float32(scale))
    add_weight(model, f"{tensor}_zero_point", np.uint8(zero_point))
    operands = [f"{tensor}_scale", f"{tensor}_zero_point"]
    insert_behind(
        model,
        tensor,
        [
            helper.make_node("QuantizeLinear", [tensor, *operands], [f"{tensor}_q"], f"{tensor}_Q"),
            helper.make_node("DequantizeLinear", [f"{tensor}_q", *operands], [f"{tensor}_dq"], f"{tensor}_DQ"),
        ],
        f"{tensor}_dq",
    )


def pair_with_range(model, tensor, low, high):
    """(model, the same with a pair around `tensor` whose codes reach from low to high)."""
    broken = copy.deepcopy(model)
    low, high = min(low, 0.0), max(high, 0.0)
    scale = (high - low) / 255
    insert_pair(broken, tensor, scale, int(round(-low / scale)))
    return model, broken


def scale_too_small(model, tensor, low, high, times=16):
    """The scale of one tensor is 16 times too small."""
    return pair_with_range(model, tensor, low / times, high / times)


def saturating(model, tensor, low, high, share=0.2):
    """The codes of one tensor (of a GELU) end far below its maximum."""
    return pair_with_range(model, tensor, low, high * share)


def outlier_channel(model, gamma, beta, sum_node, channel, times=60):
    """One channel of a LayerNorm's result is `times` as large; who reads it takes the factor back: a matrix
    in its weights, the skip connection by a Mul. As a function of the inputs nothing changes."""
    model = copy.deepcopy(model)
    norm = next(n for n in model.graph.node if gamma in n.input)
    result = norm.output[0]

    def scaled(array):
        array[channel] *= times
        return array

    change_weight(model, gamma, scaled)
    change_weight(model, beta, scaled)
    for node in model.graph.node:
        if result not in node.input:
            continue
        if node.op_type == "MatMul":

            def unscaled(array):
                array[channel, :] /= times
                return array

            change_weight(model, node.input[1], unscaled)
        elif node.name == sum_node:
            size = numpy_helper.to_array(weight(model, gamma)).size
            factors = np.ones(size, np.float32)
            factors[channel] = 1 / times
            add_weight(model, "skip_factors", factors)
            node.input[list(node.input).index(result)] = "skip_unscaled"
            skip = helper.make_node("Mul", [result, "skip_factors"], ["skip_unscaled"], "skip_unscale")
            model.graph.node.insert(list(model.graph.node).index(node), skip)
        else:
            raise ValueError(f"{node.name} reads {result} too")
    return model, model


def dead_channel(model, gamma, beta, next_weight, channel, times=100):
    """One channel in front of a convolution hardly lives, and the convolution's weights make up for it. Between
    them is a ReLU, so nothing changes as a function of the inputs."""
    model = copy.deepcopy(model)

    def quieter(array):
        array[channel] /= times
        return array

    def louder(array):
        array[:, channel] *= times
        return array

    change_weight(model, gamma, quieter)
    change_weight(model, beta, quieter)
    change_weight(model, next_weight, louder)
    return model, model


def mixed_head(model, boxes, scores, times=40):
    """A detector's boxes (in pixels: `times` its raw ones) and scores in one tensor, returned in two parts, with one
    scale for both."""
    model = copy.deepcopy(model)
    graph = model.graph
    shapes = {o.name: [d.dim_value for d in o.type.tensor_type.shape.dim] for o in graph.output}
    widths = [shapes[boxes][-1], shapes[scores][-1]]
    add_weight(model, "stride", np.float32(times))
    add_weight(model, "parts", np.array(widths, np.int64))
    graph.node.extend(
        [
            helper.make_node("Mul", [boxes, "stride"], ["pixels"], "decode"),
            helper.make_node("Concat", ["pixels", scores], ["detections"], "join", axis=2),
            helper.make_node("Split", ["detections", "parts"], ["boxes", "scores"], "part", axis=2),
        ]
    )
    del graph.output[:]
    for name, width in zip(("boxes", "scores"), widths):
        shape = [*shapes[boxes][:-1], width]
        graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
    return model
