"""A small writer of ONNX graphs: names are given by hand, so that a report on the network reads well."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class OnnxGraph:
    def __init__(self, name, opset):
        self.name, self.opset = name, opset
        self.nodes, self.initializers = [], {}

    def constant(self, name, array):
        """Adds the initializer `name` (once) and returns the name."""
        if name not in self.initializers:
            self.initializers[name] = numpy_helper.from_array(np.asarray(array, order="C"), name)
        return name

    def floats(self, name, value):
        return self.constant(name, np.asarray(value, np.float32))

    def ints(self, name, value):
        return self.constant(name, np.asarray(value, np.int64))

    def node(self, op, inputs, output, **attributes):
        """Adds one node called like its only output and returns that name."""
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def save(self, path, output):
        """Input `image` float [batch,1,28,28], output `logits` float [batch,10]; `output` is renamed to `logits`."""
        for node in self.nodes:
            for names in (node.input, node.output):
                names[:] = ["logits" if n == output else n for n in names]
        image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 28, 28])
        logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10])
        graph = helper.make_graph(self.nodes, self.name, [image], [logits], list(self.initializers.values()))
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8, producer_name="fold8-train"
        )
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, path)
        print(f"{path}: {len(self.nodes)} nodes, {model.ByteSize()} bytes")
