#!/usr/bin/env python3
"""Writes test/golden/tensor-types/<type>.bin: blocks of each storage type, and the weights they stand for.

The weights are those of the gguf package, which this project did not write. Blocks are random bytes whose halves are
finite, and then those at the edges: scales of zero, minus zero, subnormal, the largest, negative ones, and quants that
are all zeros, all ones, or go through every byte. A file is the blocks, one after the other, and then their weights as
floats; how many there are follows from its size.

    python3 -m venv v && v/bin/pip install gguf==0.19.0 && v/bin/python test/golden/make_tensor_types.py
"""

import pathlib

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

# Where a block has halves. MXFP4 has a byte of an exponent, of which every one is a number.
HALVES = {
    "F16": [0],
    "BF16": [],
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q8_0": [0],
    "Q2_K": [80, 82],
    "Q3_K": [108],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
    "IQ4_NL": [0],
    "IQ4_XS": [0],
    "MXFP4": [],
}
EDGES = [0x0000, 0x8000, 0x0001, 0x83FF, 0x3C00, 0x7BFF, 0xFBFF]


def with_half(block: np.ndarray, offset: int, half: int) -> None:
    block[offset : offset + 2] = np.array([half], dtype=np.uint16).view(np.uint8)


def blocks_of(name: str, rng: np.random.Generator) -> np.ndarray:
    weights, num_bytes = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    count = {1: 512, 32: 40, 256: 12}[weights]
    blocks = rng.integers(0, 256, (count, num_bytes), dtype=np.uint8)
    blocks[-1] = 0xFF
    blocks[-2] = 0x00
    blocks[-3] = np.arange(num_bytes) * 7 % 256
    blocks[-4] = 255 - np.arange(num_bytes) * 3 % 256
    for i, block in enumerate(blocks):
        for offset in HALVES[name]:
            half = int(block[offset : offset + 2].view(np.uint16)[0])
            # An exponent of all ones is no number.
            with_half(block, offset, half & 0xFBFF if half & 0x7C00 == 0x7C00 else half)
            if i < len(EDGES):
                with_half(block, offset, EDGES[(i + (offset % 4)) % len(EDGES)])
    if name == "BF16":
        values = blocks.view(np.uint16)
        values[(values & 0x7F80) == 0x7F80] &= 0xBFFF
    if name == "MXFP4":
        blocks[: len(EDGES) * 2, 0] = [0, 1, 2, 3, 126, 127, 128, 129, 250, 251, 252, 253, 254, 255]
    return blocks


def main() -> None:
    folder = pathlib.Path(__file__).parent / "tensor-types"
    folder.mkdir(exist_ok=True)
    for name in HALVES:
        blocks = blocks_of(name, np.random.default_rng(list(name.encode())))
        with np.errstate(over="ignore"):
            weights = dequantize(blocks, GGMLQuantizationType[name]).astype(np.float32)
        (folder / f"{name.lower()}.bin").write_bytes(blocks.tobytes() + weights.tobytes())


if __name__ == "__main__":
    main()
