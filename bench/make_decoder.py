"""make_decoder.py OUT.onnx [--layers 30 --hidden 576 --heads 9 --kv-heads 3 --ffn 1536 --vocab 49152 --seed 0]
make_decoder.py OUT.onnx --gguf IN.gguf [--tokenizer TOKENIZER.json]

A decoder of random weights, or of those of a Llama-like GGUF file (as floats; needs the Python packages gguf and, for
--tokenizer, tokenizers), in the form exporters write: token ids and position ids in, keys and values of the past in and
those with the new tokens out (past.N.key [1,kv,P,D] -> present.N.key), grouped-query attention, rotary embedding, RMSNorm,
SwiGLU, tied embedding. The default shape is that of SmolLM2-135M.
"""
import argparse

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Gguf:
    """Sizes and weights of a GGUF file of the llama architecture; matrices as [inputs, outputs]."""

    KINDS = {'q': 'attn_q', 'k': 'attn_k', 'v': 'attn_v', 'o': 'attn_output', 'gate': 'ffn_gate', 'up': 'ffn_up', 'down': 'ffn_down',
             'norm1': 'attn_norm', 'norm2': 'ffn_norm'}

    def __init__(self, path):
        from gguf import GGUFReader, dequantize
        self.reader, self.dequantize = GGUFReader(path), dequantize
        self.tensors = {t.name: t for t in self.reader.tensors}

    def field(self, name):
        return self.reader.fields[name].contents()

    def sizes(self, a):
        a.layers, a.hidden = self.field('llama.block_count'), self.field('llama.embedding_length')
        a.heads, a.kv_heads = self.field('llama.attention.head_count'), self.field('llama.attention.head_count_kv')
        a.ffn, a.vocab = self.field('llama.feed_forward_length'), int(self.tensors['token_embd.weight'].shape[1])
        a.epsilon, a.base = float(self.field('llama.attention.layer_norm_rms_epsilon')), float(self.field('llama.rope.freq_base'))

    def array(self, name):
        t = self.tensors[name]
        return self.dequantize(t.data, t.tensor_type).astype(np.float32).reshape([int(n) for n in t.shape][::-1])

    def weight(self, name, a):
        """layer.3.q.weight -> blk.3.attn_q.weight"""
        if name == 'embedding':
            return self.array('token_embd.weight')
        if name == 'norm.weight':
            return self.array('output_norm.weight')
        _, layer, kind, _ = name.split('.')
        w = self.array(f'blk.{layer}.{self.KINDS[kind]}.weight')
        if kind in ('q', 'k'):  # the file has pairs of a rotation side by side, the graph half a head apart
            heads = a.heads if kind == 'q' else a.kv_heads
            w = w.reshape(heads, a.depth // 2, 2, -1).swapaxes(1, 2).reshape(w.shape)
        return np.ascontiguousarray(w.T)

    def write_tokenizer(self, path):
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers
        tokens = self.field('tokenizer.ggml.tokens')
        merges = [tuple(m.split(' ', 1)) for m in self.field('tokenizer.ggml.merges')]
        t = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
        t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
        t.decoder = decoders.ByteLevel()
        t.save(path)


class Builder:
    def __init__(self, args):
        self.a, self.rng = args, np.random.default_rng(args.seed)
        self.nodes, self.constants, self.inputs, self.outputs = [], [], [], []

    def const(self, name, array):
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, name, rows, columns):
        if self.a.gguf:
            return self.const(name, self.a.gguf.weight(name, self.a))
        return self.const(name, (self.rng.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32))

    def op(self, kind, inputs, name, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def input(self, name, kind, shape):
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))

    def output(self, name, shape):
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def rms(self, x, name):
        if self.a.gguf:
            gain = self.const(name + '.weight', self.a.gguf.weight(name + '.weight', self.a))
        else:
            gain = self.const(name + '.weight', (1 + 0.1 * self.rng.standard_normal(self.a.hidden)).astype(np.float32))
        square = self.op('Mul', [x, x], name + '.square')
        mean = self.op('ReduceMean', [square], name + '.mean', axes=[-1], keepdims=1)
        root = self.op('Sqrt', [self.op('Add', [mean, 'epsilon'], name + '.eps')], name + '.root')
        return self.op('Mul', [self.op('Div', [x, root], name + '.div'), gain], name)

    def rotate(self, x, name):
        a = self.op('Slice', [x, 'zero', 'half', 'last'], name + '.a')
        b = self.op('Slice', [x, 'half', 'depth', 'last'], name + '.b')
        turned = self.op('Concat', [self.op('Neg', [b], name + '.nb'), a], name + '.turned', axis=-1)
        return self.op('Add', [self.op('Mul', [x, 'cos'], name + '.c'), self.op('Mul', [turned, 'sin'], name + '.s')], name)

    def heads(self, x, width, count, name):
        y = self.op('MatMul', [x, self.weight(name + '.weight', self.a.hidden, width)], name + '.matmul')
        shape = self.const(name + '.shape', np.array([1, -1, count, self.a.depth], np.int64))
        return self.op('Transpose', [self.op('Reshape', [y, shape], name + '.reshape')], name, perm=[0, 2, 1, 3])

    def repeat(self, x, name):
        """[1,kv,T,D] -> [1,heads,T,D]"""
        y = self.op('Unsqueeze', [x, 'two'], name + '.five')
        y = self.op('Expand', [y, 'groups'], name + '.expand')
        return self.op('Reshape', [y, 'all_heads'], name)

    def layer(self, x, i):
        a, p = self.a, f'layer.{i}'
        h = self.rms(x, p + '.norm1')
        q = self.rotate(self.heads(h, a.hidden, a.heads, p + '.q'), p + '.qr')
        k = self.rotate(self.heads(h, a.kv_heads * a.depth, a.kv_heads, p + '.k'), p + '.kr')
        v = self.heads(h, a.kv_heads * a.depth, a.kv_heads, p + '.v')
        for kind, new in (('key', k), ('value', v)):
            self.input(f'past.{i}.{kind}', TensorProto.FLOAT, [1, a.kv_heads, 'past', a.depth])
            self.op('Concat', [f'past.{i}.{kind}', new], f'present.{i}.{kind}', axis=2)
            self.output(f'present.{i}.{kind}', [1, a.kv_heads, 'total', a.depth])
        keys, values = (self.repeat(f'present.{i}.{kind}', f'{p}.{kind}s') for kind in ('key', 'value'))
        kt = self.op('Transpose', [keys], p + '.kt', perm=[0, 1, 3, 2])
        scores = self.op('Mul', [self.op('MatMul', [q, kt], p + '.scores'), 'scale'], p + '.scaled')
        probabilities = self.op('Softmax', [self.op('Add', [scores, 'bias'], p + '.masked')], p + '.softmax', axis=-1)
        y = self.op('Transpose', [self.op('MatMul', [probabilities, values], p + '.read')], p + '.merge', perm=[0, 2, 1, 3])
        y = self.op('Reshape', [y, 'flat'], p + '.flat')
        y = self.op('MatMul', [y, self.weight(p + '.o.weight', a.hidden, a.hidden)], p + '.o')
        x = self.op('Add', [x, y], p + '.sum1')
        h = self.rms(x, p + '.norm2')
        gate = self.op('MatMul', [h, self.weight(p + '.gate.weight', a.hidden, a.ffn)], p + '.gate')
        up = self.op('MatMul', [h, self.weight(p + '.up.weight', a.hidden, a.ffn)], p + '.up')
        silu = self.op('Mul', [gate, self.op('Sigmoid', [gate], p + '.sigmoid')], p + '.silu')
        y = self.op('MatMul', [self.op('Mul', [silu, up], p + '.gated'), self.weight(p + '.down.weight', a.ffn, a.hidden)], p + '.down')
        return self.op('Add', [x, y], p + '.sum2')

    def shared(self):
        a = self.a
        for name, value in (('zero', [0]), ('half', [a.depth // 2]), ('depth', [a.depth]), ('last', [-1]), ('two', [2]), ('one', [1]),
                            ('groups', [1, 1, a.heads // a.kv_heads, 1, 1]), ('all_heads', [1, a.heads, -1, a.depth]), ('flat', [1, -1, a.hidden])):
            self.const(name, np.array(value, np.int64))
        self.const('epsilon', np.float32(a.epsilon))
        self.const('scale', np.float32(a.depth ** -0.5))
        self.const('minus', np.float32(-1e30))
        self.const('nought', np.float32(0))
        self.const('start', np.int64(0))
        self.const('step', np.int64(1))
        self.input('input_ids', TensorProto.INT64, [1, 'tokens'])
        self.input('position_ids', TensorProto.INT64, [1, 'tokens'])
        angles = np.outer(np.arange(a.context), a.base ** -(np.arange(0, a.depth, 2) / a.depth))
        angles = np.concatenate([angles, angles], 1)
        for name, f in (('cos', np.cos), ('sin', np.sin)):
            rows = self.op('Gather', [self.const(name + '.table', f(angles).astype(np.float32)), 'position_ids'], name + '.rows', axis=0)
            self.op('Unsqueeze', [rows, 'one'], name)
        past = self.op('Gather', [self.op('Shape', ['past.0.key'], 'past.shape'), self.const('axis2', np.int64(2))], 'past.length', axis=0)
        tokens = self.op('Gather', [self.op('Shape', ['input_ids'], 'ids.shape'), self.const('axis1', np.int64(1))], 'tokens.length', axis=0)
        columns = self.op('Range', ['start', self.op('Add', [past, tokens], 'total.length'), 'step'], 'columns')
        rows = self.op('Unsqueeze', ['position_ids', 'last'], 'rows')
        visible = self.op('LessOrEqual', [columns, rows], 'visible')
        self.op('Unsqueeze', [self.op('Where', [visible, 'nought', 'minus'], 'bias.three'), 'one'], 'bias')

    def build(self):
        a = self.a
        self.shared()
        x = self.op('Gather', [self.weight('embedding', a.vocab, a.hidden), 'input_ids'], 'embedded', axis=0)
        for i in range(a.layers):
            x = self.layer(x, i)
        head = self.op('Transpose', ['embedding'], 'embedding.t', perm=[1, 0])
        self.op('MatMul', [self.rms(x, 'norm'), head], 'logits')
        self.output('logits', [1, 'tokens', a.vocab])
        self.outputs = [self.outputs[-1], *self.outputs[:-1]]
        graph = helper.make_graph(self.nodes, 'decoder', self.inputs, self.outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)], ir_version=8)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('output')
    for name, value in (('layers', 30), ('hidden', 576), ('heads', 9), ('kv-heads', 3), ('ffn', 1536), ('vocab', 49152), ('context', 2048), ('seed', 0)):
        p.add_argument('--' + name, type=int, default=value)
    p.add_argument('--gguf', type=Gguf)
    p.add_argument('--tokenizer')
    a = p.parse_args()
    a.epsilon, a.base = 1e-5, 10000.0
    if a.gguf:
        a.gguf.sizes(a)
    a.depth = a.hidden // a.heads
    if a.tokenizer:
        a.gguf.write_tokenizer(a.tokenizer)
    onnx.save(Builder(a).build(), a.output)


if __name__ == '__main__':
    main()
