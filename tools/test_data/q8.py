"""Products in q8 numerics (docs/numerics.md section 14) by exact fractions; ggml's own Python package reads the weights."""
from fractions import Fraction
from importlib.metadata import version

import gguf
import numpy as np

from .files import save_safetensors
from .packed import HALVES

K = 512
ROWS = 4
COLUMNS = 5


def rounded(x, bits=24, least=-149):
    """The nearest f32, ties to even."""
    if x == 0:
        return Fraction(0)
    exponent = abs(x).numerator.bit_length() - abs(x).denominator.bit_length() - bits - 1
    while abs(x) >= Fraction(2) ** (exponent + bits):
        exponent += 1
    step = Fraction(2) ** max(exponent, least)
    return round(x / step) * step


def read(blocks, name):
    with np.errstate(invalid="ignore", over="ignore"):
        return gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[name.upper()])


def integers(blocks, name):
    """Of each element: what a scale of 1 and no offset make of it, and the other way round."""
    parts = []
    for which in range(2):
        ones = blocks.copy()
        for number, byte in enumerate(HALVES[name]):
            ones[:, byte:byte + 2] = np.array([0, 0x3c if number == which else 0], np.uint8)
        if name == "mxfp4":
            ones[:, 0] = 128
        parts.append(read(ones, name).reshape(COLUMNS, K // 32, 32))
    if len(HALVES[name]) < 2:
        parts[1] = None
    return parts


def scales(blocks, name, number):
    each = COLUMNS * K // 32 // len(blocks)
    if name == "mxfp4":
        found = [Fraction(2) ** (int(byte) - 128) for byte in blocks[:, 0]]
    else:
        byte = HALVES[name][number]
        found = [Fraction(float(half)) for half in blocks[:, byte:byte + 2].copy().view("<f2")[:, 0]]
    return np.repeat(np.array(found, object), each).reshape(COLUMNS, K // 32)


def activations(x):
    """Codes and scales of blocks of 32."""
    codes, found = [], []
    for block in x.reshape(-1, 32):
        part = np.float32(np.abs(block).max()) * np.float32(1 / 127)
        scale = ((part.view(np.uint32) + np.uint32(0x7ff)) & np.uint32(0xfffff800)).view(np.float32)
        inverse = Fraction(float(np.float32(1) / scale)) if scale > 0 else 0
        codes.append([round(Fraction(float(value)) * inverse) for value in block])
        found.append(Fraction(float(scale)))
    return codes, found


def product(x, blocks, name):
    codes, own = activations(x)
    weights, offsets = integers(blocks, name)
    factor = scales(blocks, name, 0)
    below = None if offsets is None else scales(blocks, name, 1)
    results = []
    for column in range(COLUMNS):
        total = None
        for first in range(0, K // 32, 8):
            partial = Fraction(0)
            for block in range(first, first + 8):
                dot = sum(int(w) * q for w, q in zip(weights[column, block], codes[block]))
                partial = rounded(dot * factor[column, block] * own[block] + partial)
                if offsets is not None:
                    dot = sum(int(w) * q for w, q in zip(offsets[column, block], codes[block]))
                    partial = rounded(dot * below[column, block] * own[block] + partial)
            total = partial if total is None else rounded(total + partial)
        results.append(float(total))
    return results


def write(out):
    random = np.random.default_rng(8)
    tensors = {}
    x = random.standard_normal((ROWS, K)).astype(np.float32)
    x[1] *= np.exp(2 * random.standard_normal(K)).astype(np.float32)
    x[2, 64:128] = 0
    x[3] *= 1e-5
    tensors["x"] = x
    for name in HALVES:
        elements, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name.upper()]]
        blocks = random.integers(0, 256, (COLUMNS * K // elements, size)).astype(np.uint8)
        for byte in HALVES[name]:
            halves = (0.02 * random.standard_normal(len(blocks))).astype("<f2")
            blocks[:, byte:byte + 2] = halves.view(np.uint8).reshape(-1, 2)
        if name == "mxfp4":
            blocks[:, 0] = random.integers(115, 125, len(blocks))
        tensors[name + ".blocks"] = blocks.reshape(-1)
        tensors[name + ".product"] = np.array([product(row, blocks, name) for row in x], np.float32)
    save_safetensors(out / "q8.safetensors", tensors, {
        "names": "x [rows, k] f32, <encoding>.blocks u8 of weights [columns, k], <encoding>.product [rows, columns] f32",
        "source": f"exact fractions of Python; codes by gguf {version('gguf')}, gguf.quants.dequantize",
    })
