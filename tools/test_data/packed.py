"""Blocks of packed weights and the values that ggml's own Python package reads from them."""
from importlib.metadata import version

import gguf
import numpy as np

from .files import save_safetensors

# Scales: zeros, the smallest and largest subnormal, the smallest normal, 1, ones that round, the largest, infinities, NaN.
SCALES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x0400, 0x3c00, 0x3555, 0xb6db, 0x2e66, 0x7bff, 0xfbff, 0x7c00, 0xfc00,
          0x7e00, 0xfe01]


def q8_0_blocks():
    random = np.random.default_rng(21)
    scales = np.concatenate([SCALES, random.integers(0, 0x7c00, 24)]).astype("<u2")
    codes = random.integers(-128, 128, (len(scales), 32)).astype(np.int8)
    codes[:, :4] = [-128, 127, 0, -1]
    made = gguf.quants.quantize(random.normal(0, 0.02, (8, 32)).astype(np.float32), gguf.GGMLQuantizationType.Q8_0)
    return np.concatenate([np.concatenate([scales.view(np.uint8).reshape(-1, 2), codes.view(np.uint8)], axis=1), made])


def write(out):
    blocks = q8_0_blocks()
    with np.errstate(invalid="ignore"):
        values = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType.Q8_0)
    save_safetensors(out / "packed.safetensors", {"q8_0.blocks": blocks, "q8_0.values": values.astype(np.float32)}, {
        "names": "<encoding>.blocks [blocks, bytes] u8, <encoding>.values [blocks, elements] f32",
        "source": f"gguf {version('gguf')}, gguf.quants.dequantize",
    })
