#!/usr/bin/env python3
"""Writes the tiny llama models and their logits: test/golden/tiny-llama-<name>.gguf and .json.

The reference that the C++ forward pass is compared with. It is written from the papers, in double precision, and
shares nothing with the C++: Llama (arXiv 2302.13971), RMSNorm (1910.07467), RoPE (2104.09864), SwiGLU (2002.05202),
grouped queries (2305.13245). Heads are rotated as the original checkpoints are, value i with value i + dim / 2; GGUF
stores the rows of queries and keys in another order, with the two next to each other, so equal logits prove that the
reader of the file rotates the right pairs. Keys and values are rounded after rotation to what the cache holds, half
precision or as the name of the logits says; nothing else is rounded. Weights are those that the file holds: quantised, written, then read back.

The files also carry a tokenizer (bytes and a few merges) and a chat template, so that they can be served.

    python3 -m venv v && v/bin/pip install numpy && v/bin/python test/golden/make_tiny_llama.py
"""

import json
import pathlib
import struct
from typing import NamedTuple

import numpy as np

HERE = pathlib.Path(__file__).parent
SEED = 20240229
LAYERS, HIDDEN, CONTEXT = 2, 64, 512
THETA, EPSILON = 10000.0, 1e-5
F32, F16, Q4_0, Q4_1, Q8_0 = 0, 1, 2, 3, 8



class Shape(NamedTuple):
    matrices: int
    embedding: int
    ffn: int  # width of the feed-forward layer
    own_output: bool = False  # an output matrix of its own
    heads: int = 4
    kv_heads: int = 2
    window: int = 0  # positions that a token sees; 0: all before it
    biases: bool = False  # of queries, keys, values and what attention gives
    caches: tuple = ("f16",)

    @property
    def head_dim(self):
        return HIDDEN // self.heads


# 72 is no multiple of 32: F32 and F16 rows may end in a short block, and in a tile that is not full.
MODELS = {
    "f32": Shape(F32, F32, 72, caches=("f16", "f32")),
    "f16": Shape(F16, F16, 72),
    "q4_0": Shape(Q4_0, Q8_0, 96),
    "q4_1": Shape(Q4_1, Q8_0, 96),
    "q8_0": Shape(Q8_0, Q8_0, 96, own_output=True),
    # As Mistral 7B has a window (arXiv 2310.06825); with heads of 32 values, which a Q8_0 cache can hold.
    "window": Shape(Q8_0, Q8_0, 96, heads=2, kv_heads=1, window=20, caches=("f16", "f32", "q8_0")),
    # As InternLM has biases (arXiv 2403.17297).
    "biased": Shape(Q8_0, Q8_0, 96, biases=True, caches=("f32",)),
}
NUM_IDS = 70  # more than two of attention's tiles of 32 positions
CHECKED_POSITIONS = [0, 1, 31, 32, 33, 63, 64, 69]

CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
MERGES = ["Ġ t", "Ġ a", "h e", "i n", "r e", "o n", "Ġt he", "e r", "Ġ s", "a t", "Ġ w", "o r", "n d"]


def byte_characters():
    """GPT-2's printable stand-in for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(spare)) for byte in range(256)]


TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *byte_characters(), *(m.replace(" ", "") for m in MERGES)]
VOCAB = len(TOKENS)


# --- storage types ------------------------------------------------------------------------------------------------


def encode(weights, kind):
    """(rows, columns) to the bytes of the file."""
    if kind == F32:
        return weights.astype("<f4").tobytes()
    if kind == F16:
        return weights.astype("<f2").tobytes()
    blocks = weights.reshape(-1, 32)
    out = bytearray()
    for block in blocks:
        if kind == Q8_0:
            scale = np.float16(np.abs(block).max() / 127)
            quants = np.clip(np.rint(block / np.float64(scale)), -128, 127).astype(np.int8)
            out += scale.tobytes() + quants.tobytes()
        else:
            if kind == Q4_0:
                scale, minimum = np.float16(block[np.abs(block).argmax()] / -8), np.float16(0)
                quants = np.clip(np.rint(block / np.float64(scale)) + 8, 0, 15).astype(np.uint8)
                out += scale.tobytes()
            else:
                scale, minimum = np.float16((block.max() - block.min()) / 15), np.float16(block.min())
                quants = np.clip(np.rint((block - minimum) / np.float64(scale)), 0, 15).astype(np.uint8)
                out += scale.tobytes() + minimum.tobytes()
            out += (quants[:16] | (quants[16:] << 4)).tobytes()
    return bytes(out)


def decode(data, kind, shape):
    """The bytes of the file to (rows, columns), exactly."""
    if kind in (F32, F16):
        return np.frombuffer(data, "<f4" if kind == F32 else "<f2").astype(np.float64).reshape(shape)
    size = {Q4_0: 18, Q4_1: 20, Q8_0: 34}[kind]
    blocks = np.frombuffer(data, np.uint8).reshape(-1, size)
    scale = blocks[:, 0:2].copy().view("<f2").astype(np.float64)
    if kind == Q8_0:
        return (scale * blocks[:, 2:].view(np.int8)).reshape(shape)
    nibbles = np.concatenate([blocks[:, -16:] & 15, blocks[:, -16:] >> 4], axis=1).astype(np.float64)
    if kind == Q4_0:
        return (scale * (nibbles - 8)).reshape(shape)
    return (scale * nibbles + blocks[:, 2:4].copy().view("<f2").astype(np.float64)).reshape(shape)


def file_row_order(num_heads, head_dim):
    """For each row of queries or keys in a GGUF file, its row in the original order."""
    half = head_dim // 2
    return [head * head_dim + part * half + i for head in range(num_heads) for i in range(half) for part in range(2)]


# --- the file -----------------------------------------------------------------------------------------------------


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, value):
    if isinstance(value, bool):
        return text(key) + struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return text(key) + struct.pack("<II", 4, value)
    if isinstance(value, float):
        return text(key) + struct.pack("<If", 6, value)
    if isinstance(value, str):
        return text(key) + struct.pack("<I", 8) + text(value)
    kind = 8 if isinstance(value[0], str) else 5
    body = b"".join(text(v) if kind == 8 else struct.pack("<i", v) for v in value)
    return text(key) + struct.pack("<IIQ", 9, kind, len(value)) + body


def metadata(name, shape):
    entries = {
        "general.architecture": "llama",
        "general.name": f"Tiny llama {name}",
        "llama.block_count": LAYERS,
        "llama.context_length": CONTEXT,
        "llama.embedding_length": HIDDEN,
        "llama.feed_forward_length": shape.ffn,
        "llama.attention.head_count": shape.heads,
        "llama.attention.head_count_kv": shape.kv_heads,
        "llama.attention.layer_norm_rms_epsilon": EPSILON,
        "llama.rope.freq_base": THETA,
        "llama.rope.dimension_count": shape.head_dim,
        "llama.vocab_size": VOCAB,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.token_type": [3] * 3 + [1] * (VOCAB - 3),
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.padding_token_id": 2,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_space_prefix": False,
        "tokenizer.chat_template": CHAT_TEMPLATE,
    }
    if shape.window:
        entries["llama.attention.sliding_window"] = shape.window
    return entries


def write_gguf(path, name, model, tensors):
    """tensors: name -> (bytes, kind, shape with columns last)."""
    entries = metadata(name, model)
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries))
    out += b"".join(entry(key, value) for key, value in entries.items())
    offset = 0
    for tensor, (data, kind, shape) in tensors.items():
        out += text(tensor) + struct.pack("<I", len(shape))
        out += b"".join(struct.pack("<Q", size) for size in reversed(shape)) + struct.pack("<IQ", kind, offset)
        offset += (len(data) + 31) // 32 * 32
    out += bytes(-len(out) % 32)
    for data, _, _ in tensors.values():
        out += data + bytes(-len(data) % 32)
    path.write_bytes(out)


# --- the model ----------------------------------------------------------------------------------------------------


def rms_norm(x, gain):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float64(np.float32(EPSILON))) * gain


def linear(w, name, x):
    return x @ w[name + ".weight"].T + w.get(name + ".bias", 0.0)


def rotate(x, positions):
    """x: (positions, heads, head_dim); value i turns with value i + head_dim / 2."""
    half = x.shape[-1] // 2
    angles = positions[:, None] * THETA ** (-2.0 * np.arange(half) / (2 * half))
    cosine, sine = np.cos(angles)[:, None, :], np.sin(angles)[:, None, :]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cosine - b * sine, b * cosine + a * sine], axis=-1)


def as_stored(x, cache):
    """x: (positions, heads, head_dim), rounded to the type of the cache."""
    if cache == "f16":
        return x.astype(np.float16).astype(np.float64)
    if cache == "f32":
        return x.astype(np.float32).astype(np.float64)
    blocks = x.astype(np.float32).reshape(-1, 32)
    scale = (np.abs(blocks).max(-1, keepdims=True) / np.float32(127)).astype(np.float16).astype(np.float64)
    return (scale * np.clip(np.rint(blocks / scale), -127, 127)).reshape(x.shape)


def forward(w, ids, shape, cache):
    length, head_dim = len(ids), shape.head_dim
    positions = np.arange(length)
    distance = positions[:, None] - positions[None, :]
    visible = (distance >= 0) & (distance < (shape.window or length))
    x = w["token_embd.weight"][ids]
    for layer in range(LAYERS):
        p = f"blk.{layer}."
        h = rms_norm(x, w[p + "attn_norm.weight"])
        q = rotate(linear(w, p + "attn_q", h).reshape(length, shape.heads, head_dim), positions)
        k = rotate(linear(w, p + "attn_k", h).reshape(length, shape.kv_heads, head_dim), positions)
        v = linear(w, p + "attn_v", h).reshape(length, shape.kv_heads, head_dim)
        k = np.repeat(as_stored(k, cache), shape.heads // shape.kv_heads, axis=1)
        v = np.repeat(as_stored(v, cache), shape.heads // shape.kv_heads, axis=1)
        scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(head_dim)
        scores = np.where(visible[None], scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        attended = np.einsum("hij,jhd->ihd", weights, v).reshape(length, HIDDEN)
        x = x + linear(w, p + "attn_output", attended)
        h = rms_norm(x, w[p + "ffn_norm.weight"])
        gate, up = h @ w[p + "ffn_gate.weight"].T, h @ w[p + "ffn_up.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w[p + "ffn_down.weight"].T
    return rms_norm(x, w["output_norm.weight"]) @ w.get("output.weight", w["token_embd.weight"]).T


def make(name, model):
    kind, embedding_kind, ffn = model.matrices, model.embedding, model.ffn
    query_rows, kv_rows = model.heads * model.head_dim, model.kv_heads * model.head_dim
    rng = np.random.default_rng(SEED)
    tensors, weights = {}, {}

    def matrix(tensor, rows, columns, kind, heads=0):
        original = rng.normal(size=(rows, columns)) / np.sqrt(columns)
        order = file_row_order(heads, model.head_dim) if heads else list(range(rows))
        data = encode(original[order], kind)
        tensors[tensor] = (data, kind, (rows, columns))
        weights[tensor] = np.empty((rows, columns))
        weights[tensor][order] = decode(data, kind, (rows, columns))

    def vector(tensor, size):
        data = (1 + 0.1 * rng.normal(size=size)).astype("<f4").tobytes()
        tensors[tensor] = (data, F32, (size,))
        weights[tensor] = decode(data, F32, (size,))

    def bias(tensor, rows, heads=0):
        if not model.biases:
            return
        order = file_row_order(heads, model.head_dim) if heads else list(range(rows))
        original = (0.3 * rng.normal(size=rows)).astype("<f4")
        tensors[tensor] = (original[order].tobytes(), F32, (rows,))
        weights[tensor] = original.astype(np.float64)

    matrix("token_embd.weight", VOCAB, HIDDEN, embedding_kind)
    for layer in range(LAYERS):
        p = f"blk.{layer}."
        vector(p + "attn_norm.weight", HIDDEN)
        matrix(p + "attn_q.weight", query_rows, HIDDEN, kind, model.heads)
        matrix(p + "attn_k.weight", kv_rows, HIDDEN, kind, model.kv_heads)
        matrix(p + "attn_v.weight", kv_rows, HIDDEN, kind)
        matrix(p + "attn_output.weight", HIDDEN, query_rows, kind)
        bias(p + "attn_q.bias", query_rows, model.heads)
        bias(p + "attn_k.bias", kv_rows, model.kv_heads)
        bias(p + "attn_v.bias", kv_rows)
        bias(p + "attn_output.bias", HIDDEN)
        vector(p + "ffn_norm.weight", HIDDEN)
        matrix(p + "ffn_gate.weight", ffn, HIDDEN, kind)
        matrix(p + "ffn_up.weight", ffn, HIDDEN, kind)
        matrix(p + "ffn_down.weight", HIDDEN, ffn, kind)
    vector("output_norm.weight", HIDDEN)
    if model.own_output:
        matrix("output.weight", VOCAB, HIDDEN, embedding_kind)

    ids = rng.integers(0, VOCAB, NUM_IDS)
    write_gguf(HERE / f"tiny-llama-{name}.gguf", name, model, tensors)
    golden = {"ids": ids.tolist(), "positions": CHECKED_POSITIONS}
    for cache in model.caches:
        logits = forward(weights, ids, model, cache)
        rows = [[round(float(value), 7) for value in logits[position]] for position in CHECKED_POSITIONS]
        golden["logits" if cache == "f16" else f"logits_{cache}"] = rows
    (HERE / f"tiny-llama-{name}.json").write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    for model_name, model_shape in MODELS.items():
        make(model_name, model_shape)
