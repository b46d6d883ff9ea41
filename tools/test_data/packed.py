"""Blocks of packed weights and the values that ggml's own Python package reads from them."""
from importlib.metadata import version

import gguf
import numpy as np

from .files import save_safetensors

# Scales: zeros, the smallest and largest subnormal, the smallest normal, 1, ones that round, the largest, infinities, NaN.
SCALES = np.array([0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x0400, 0x3c00, 0x3555, 0xb6db, 0x2e66, 0x7bff, 0xfbff, 0x7c00,
                   0xfc00, 0x7e00, 0xfe01], dtype="<u2")
# Where the f16 numbers of a block stand, in bytes: include/lockstep/encodings.def.
HALVES = {"q8_0": [0], "q4_0": [0], "q4_1": [0, 2], "q5_0": [0], "q5_1": [0, 2], "q2_k": [80, 82], "q3_k": [108],
          "q4_k": [0, 2], "q5_k": [0, 2], "q6_k": [208], "iq4_nl": [0], "iq4_xs": [0], "mxfp4": []}


def blocks_of(name, random):
    elements, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name.upper()]]
    count = 40 if elements == 32 else 18
    blocks = random.integers(0, 256, (count, size)).astype(np.uint8)
    for number, byte in enumerate(HALVES[name]):
        ordinary = random.integers(0x1000, 0x7000, count) | random.integers(0, 2, count) << 15
        special = np.roll(SCALES, 5 * number)[:count]
        ordinary[: len(special)] = special
        blocks[:, byte:byte + 2] = ordinary.astype("<u2").view(np.uint8).reshape(-1, 2)
    if name == "mxfp4":
        blocks[:8, 0] = [0, 1, 2, 3, 127, 252, 254, 255]
    return blocks


def write(out):
    random = np.random.default_rng(21)
    tensors = {}
    for name in HALVES:
        blocks = blocks_of(name, random)
        with np.errstate(invalid="ignore", over="ignore"):
            values = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[name.upper()])
        tensors[name + ".blocks"] = blocks
        tensors[name + ".values"] = values.astype(np.float32)
    save_safetensors(out / "packed.safetensors", tensors, {
        "names": "<encoding>.blocks [blocks, bytes] u8, <encoding>.values [blocks, elements] f32",
        "source": f"gguf {version('gguf')}, gguf.quants.dequantize",
    })
