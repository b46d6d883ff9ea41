#!/usr/bin/env python3
"""Makes what the decoders of GGUF's block types are made of and tested with, from the Python package gguf (0.19.0).

    src/io/block_grids.h                the tables of the IQ types
    tests/data/blocks.safetensors       random blocks of all 23 types, and the values that gguf decodes them to; of Q1_0 and
                                        Q2_0, which it cannot read, those that ggml does
    tests/data/encoded.safetensors      values, and the blocks that gguf encodes them to; of K and IQ types, which it cannot
                                        write, those of ggml_quantize_chunk in the package xllamacpp (2026.10)

    make_block_types.py --compare LIBRARY [N]   compares N blocks of the K and IQ types with those that a shared library
        encodes: `void enc(int type, const float* values, uint8_t* blocks, long count)`

Blocks are random bytes; where a block's scale would be an infinity or NaN, its highest exponent bit is cleared.
Needs: gguf, numpy, safetensors, xllamacpp.
"""
import ctypes
import importlib.util
import pathlib
import sys

import numpy as np
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T
from safetensors.numpy import save_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
GRIDS = {"kGridIq2Xxs": quants.IQ2_XXS, "kGridIq2Xs": quants.IQ2_XS, "kGridIq2S": quants.IQ2_S,
         "kGridIq3Xxs": quants.IQ3_XXS, "kGridIq3S": quants.IQ3_S, "kGridIq1": quants.IQ1_S}
HEAD = """// The tables of the IQ types of GGUF files, as the format fixes them: the entries that groups of 8 (or 4) values are.
// An entry holds a number below 4 for each value in two bits, the first in the lowest (IQ3: below 8, in four bits).
// Made by tools/make_block_types.py.
#pragma once

#include <cstdint>

// clang-format off
namespace lockstep {
inline namespace v0 {
namespace io {
"""
TAIL = "\n}  // namespace io\n}  // namespace v0\n}  // namespace lockstep\n"

# Where the f16 scales of a block stand, in bytes.
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "TQ1_0": [52], "TQ2_0": [64], "MXFP4": [], "NVFP4": [],
          "IQ4_NL": [0], "IQ4_XS": [0], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0],
          "IQ1_S": [0], "IQ1_M": None}


def entries(kind):
    kind.init_grid()
    numbers = np.searchsorted(np.array(kind.grid_map), kind.grid.reshape(kind.grid_shape))
    width = 16 // kind.grid_shape[1]
    return [sum(int(n) << (width * i) for i, n in enumerate(row)) for row in numbers]


def write_grids():
    text = HEAD
    for name, kind in GRIDS.items():
        values = [str(v) for v in entries(kind)]
        text += f"\ninline constexpr std::uint16_t {name}[{len(values)}] = {{\n"
        text += "".join("  " + ",".join(values[i:i + 20]) + ",\n" for i in range(0, len(values), 20)) + "};\n"
    (ROOT / "src/io/block_grids.h").write_text(text + TAIL)


def ggml():
    folder = pathlib.Path(importlib.util.find_spec("xllamacpp").origin).parent
    return ctypes.CDLL(next(folder.glob("xllamacpp*.so")))


class Traits(ctypes.Structure):
    """Of ggml.h: ggml_type_traits, as far as it is needed."""
    _fields_ = [("name", ctypes.c_char_p), ("elements", ctypes.c_int64), ("interleaved", ctypes.c_int64),
                ("bytes", ctypes.c_size_t), ("quantized", ctypes.c_bool),
                ("to_float", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64))]


def ggml_decoded(blocks, number):
    library = ggml()
    library.ggml_get_type_traits.restype = ctypes.POINTER(Traits)
    traits = library.ggml_get_type_traits(number).contents
    values = np.zeros((len(blocks), traits.elements), np.float32)
    traits.to_float(blocks.ctypes.data, values.ctypes.data, values.size)
    return values


def write_blocks():
    random = np.random.default_rng(7)
    tensors = {}
    for name, scales in SCALES.items():
        elements, size = GGML_QUANT_SIZES[T[name]]
        blocks = random.integers(0, 256, (512 // elements, size), dtype=np.uint8)
        if scales is None:  # IQ1_M: the highest nibble is that of the last word of scales
            blocks[:, 55] &= 0xBF
        else:
            for at in scales:
                blocks[:, at + 1] &= 0xBF
        with np.errstate(all="ignore"):
            values = quants.dequantize(blocks, T[name])
        tensors[f"{name}.blocks"] = blocks
        tensors[f"{name}.values"] = np.ascontiguousarray(values.astype(np.float32))
    for name, number, elements in (("Q1_0", 41, 128), ("Q2_0", 42, 64)):
        blocks = random.integers(0, 256, (512 // elements, 18), dtype=np.uint8)
        blocks[:, 1] &= 0xBF
        tensors[f"{name}.blocks"], tensors[f"{name}.values"] = blocks, ggml_decoded(blocks, number)
    save_file(tensors, ROOT / "tests/data/blocks.safetensors")


def values_to_encode():
    """Weights of many sizes, ties between codes, values beside powers of two, zeros."""
    random = np.random.default_rng(11)
    rows = [random.standard_normal((48, 32)) * 2.0 ** random.integers(-12, 8, (48, 1)),
            random.integers(-16, 17, (24, 32)) / 2.0,  # ties
            np.abs(random.standard_normal((8, 32))) + 3, -np.abs(random.standard_normal((8, 32))) - 3,
            np.zeros((1, 32)), np.full((1, 32), -0.75), random.standard_normal((4, 32)) * 2.0**-26]
    for power in range(-14, 15, 2):  # the logarithm rounds to a whole number, or does not
        row = random.uniform(-0.9, 0.9, (8, 32)) * 2.0**power
        row[:, 5] = (1 - 2.0**-24 * np.arange(8)) * 2.0**power
        rows.append(row)
    return np.concatenate(rows).astype(np.float32)


def ggml_encoded(values, name):
    """The blocks of rows of 256 values."""
    library = ggml()
    library.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_void_p]
    elements, size = GGML_QUANT_SIZES[T[name]]
    blocks = np.zeros((values.size // elements, size), np.uint8)
    library.ggml_quantize_chunk(int(T[name]), values.ctypes.data, blocks.ctypes.data, 0, len(values), values.shape[1], None)
    return blocks


SEARCHED = ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS")


def rows_of_256(count, seed):
    """Sixteen kinds of them: weights, tiny and large ones, heavy tails, zeros, one sign, ties, constants, sparse ones."""
    r = np.random.default_rng(seed)
    rows = r.standard_normal((count, 256)).astype(np.float32)
    changes = [lambda x: x, lambda x: x * 1e-6, lambda x: r.standard_t(2, 256), lambda x: x * 0, np.abs,
               lambda x: np.round(x * 4) / 4, lambda x: -np.abs(x), lambda x: np.where(np.arange(256) // 32 == 1, 0, x),
               lambda x: x * 1e3, lambda x: r.integers(-2, 3, 256), lambda x: x * 1e-20, lambda x: x * 0 + 0.37,
               lambda x: x * (r.random(256) < 0.05), lambda x: x * 1e-8, lambda x: x + 3,
               lambda x: np.where(np.arange(256) // 32 == 2, 1.5, x)]
    for i in range(count):
        rows[i] = changes[i % len(changes)](rows[i])
    return rows


def compare(library, count):
    ours = ctypes.CDLL(library)
    for name in SEARCHED:
        values = rows_of_256(count, int(T[name]))
        expected = ggml_encoded(values, name)
        blocks = np.zeros_like(expected)
        ours.enc(int(T[name]), ctypes.c_void_p(values.ctypes.data), ctypes.c_void_p(blocks.ctypes.data), ctypes.c_long(len(blocks)))
        print(f"{name}: {len(blocks)} blocks, {int((blocks != expected).any(1).sum())} different")


def write_encoded():
    values = values_to_encode()
    tensors = {"values": values, "values_of_256": rows_of_256(32, 3)}
    for name in SEARCHED:
        tensors[f"{name}.blocks"] = ggml_encoded(tensors["values_of_256"], name)
    for name in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4"):
        tensors[f"{name}.blocks"] = quants.quantize(values, T[name])
    save_file(tensors, ROOT / "tests/data/encoded.safetensors")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--compare"]:
        compare(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 4096)
    else:
        write_grids()
        write_blocks()
        write_encoded()
