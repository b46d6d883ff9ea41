#!/usr/bin/env python3
"""Compares the meaning of Lockstep's ops, dtype by dtype, with PyTorch's and NumPy's on the CPU, as a Markdown table.

Every (op, dtype, group of operands) becomes a case file for `lockstep replay --json`; the expected result is PyTorch's
own in that dtype, or NumPy's where the group says so (PyTorch raises on integer division by zero, and rounds some casts
twice). A group is either "plain", which must agree, or one of DESIGN, where docs/numerics.md decides otherwise on
purpose; what is decided there is a plain case too, with exact fractions as the truth. Elementary functions and reductions may differ by rounding: one unit in the last place of the largest
magnitude for f16 and bf16, 4 for f32 and f64 (16 for reductions; PyTorch's lgamma and digamma need 256). Zeros of either sign count as equal.

Needs torch and numpy. docs/semantics.md is its last result: semantics.py build/release/bin/lockstep > docs/semantics.md
Exit status 1 if something differs that no rule explains.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import zlib
from fractions import Fraction

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from test_data.files import save_safetensors  # noqa: E402

INF, NAN = float("inf"), float("nan")
FLOATS = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}
INTEGERS = {"u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64}
DTYPES = {**FLOATS, **INTEGERS, "bool": torch.bool}
UNIT = {"f16": 2.0 ** -10, "bf16": 2.0 ** -7, "f32": 4 * 2.0 ** -23, "f64": 4 * 2.0 ** -52}

DESIGN = {
    "subnormal": "f32 and bf16 subnormals read and are written as zero; f16 and f64 keep theirs",
    "division by zero": "integer x / 0 and x % 0 are 0 (PyTorch raises; NumPy gives 0)",
    "smallest / -1": "integer MIN / -1 is MIN and its remainder 0 (as NumPy)",
    "saturation": "float to integer saturates, NaN gives 0 (C++ leaves it undefined; PyTorch and NumPy wrap or differ by machine)",
    "one rounding": "every cast rounds once from the exact value (PyTorch goes by way of f32)",
    "inexact floor": "floor_divide is the floor of the exact quotient; PyTorch rounds a difference and a quotient",
    "huge quotient": "remainder is exact for all operands; PyTorch's is NaN or off where the quotient is huge",
    "sign of NaN": "sign(NaN) is NaN (as NumPy; PyTorch gives 0)",
    "half products": "products of f16 and bf16 are taken in f32 and rounded once (PyTorch rounds each)",
    "shift count": "a shift by a negative count, or past the width, moves every bit out",
}


def random(dtype, *shape, seed):
    generator = torch.Generator().manual_seed(zlib.crc32(seed.encode()))
    if dtype in FLOATS:
        return (torch.randn(shape, generator=generator, dtype=torch.float64) * 4).to(FLOATS[dtype])
    if dtype == "bool":
        return torch.rand(shape, generator=generator) < 0.5
    info = torch.iinfo(INTEGERS[dtype])
    return torch.randint(info.min, info.max, shape, generator=generator, dtype=torch.int64).to(INTEGERS[dtype])


def pairs(values, dtype):
    """All pairs of the values, as two operands."""
    tensor = torch.tensor(values, dtype=torch.float64 if dtype in FLOATS else torch.int64).to(DTYPES[dtype])
    return tensor.repeat_interleave(len(values)), tensor.repeat(len(values))


def special(dtype):
    large = torch.finfo(FLOATS[dtype]).max
    return [0.0, -0.0, 1.0, -1.0, 2.0, -2.5, 0.5, 3.0, INF, -INF, NAN, large, -large, float(torch.finfo(FLOATS[dtype]).smallest_normal) * 4]


class Cases:
    def __init__(self, folder):
        self.folder = folder
        self.known = {}

    def add(self, op, dtype, inputs, expected, attrs=None, group="plain", tolerance=0.0, row=None):
        if not isinstance(expected, (tuple, list)):
            expected = [expected]
        names = [f"in{i}" for i in range(len(inputs))]
        outs = [f"out{i}" for i in range(len(expected))]
        path = self.folder / f"{len(self.known):05}.safetensors"
        self.known[str(path)] = (row or op, dtype, group)
        limit = 0.0
        if tolerance:
            for tensor in expected:
                if tensor.is_floating_point():
                    finite = tensor[tensor.isfinite()].double().abs()
                    limit = max(limit, tolerance * (finite.max().item() if finite.numel() else 0.0))
        save_safetensors(path, dict(zip(names, inputs)) | dict(zip(outs, expected)), {
            "format": "lockstep-case-1", "op": op, "attrs": json.dumps(attrs or {}), "inputs": json.dumps(names),
            "outputs": json.dumps(outs), "cotangents": "{}", "grads": "[]", "atol_output": repr(limit), "atol_grad": "0.0"})


def by_fractions(rule, *operands):
    """The exact result of the rule for finite operands, rounded to their dtype."""
    values = [float(rule(*map(Fraction, numbers))) for numbers in zip(*(x.double().tolist() for x in operands))]
    return torch.tensor(values, dtype=torch.float64).to(operands[0].dtype)


def saturated(x, dtype):
    info = torch.iinfo(INTEGERS[dtype])
    whole = [0 if v != v else info.max if v >= info.max else info.min if v <= info.min else int(v) for v in x.double().tolist()]
    return torch.tensor(whole, dtype=torch.int64).to(INTEGERS[dtype])


def normal_only(dtype, *tensors):
    """Keeps the positions at which no operand and no result is subnormal, where subnormals do not exist here."""
    if dtype not in ("f32", "bf16"):
        return tensors
    keep = torch.ones(tensors[0].shape, dtype=torch.bool)
    for tensor in tensors:
        if tensor.is_floating_point():
            keep &= (tensor == 0) | (tensor.abs() > torch.finfo(tensor.dtype).smallest_normal) | tensor.isnan()
    return tuple(tensor[keep] for tensor in tensors)


def elementwise(cases):
    exact1 = ["neg", "abs", "sign", "floor", "ceil", "trunc", "round", "reciprocal", "sqrt", "relu"]
    functions = ["exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
                 "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erfinv", "sigmoid", "lgamma", "digamma", "rsqrt"]
    exact2 = ["add", "sub", "mul", "div", "maximum", "minimum", "fmod", "remainder", "eq", "ne", "lt", "le", "gt", "ge"]
    for dtype in FLOATS:
        a, b = pairs(special(dtype), dtype)
        a = torch.cat([a, random(dtype, 4000, seed=dtype + "a")])
        b = torch.cat([b, random(dtype, 4000, seed=dtype + "b")])
        for op in exact2 + ["floor_divide", "atan2", "hypot", "logaddexp", "pow"]:
            tolerance = 0.0 if op in exact2 + ["floor_divide"] else UNIT[dtype]
            x, y, run = a, b, getattr(torch, op)
            if op == "pow":
                x, y = torch.cat([a[:196], a[196:].abs()]), b
            if op in ("remainder", "fmod"):
                huge = (x / y).abs() >= 1 / UNIT[dtype]
                wide = normal_only(dtype, x[huge], y[huge], run(x[huge], y[huge]))
                cases.add(op, dtype, list(wide[:2]), wide[2], group="huge quotient")
                usable = wide[0].isfinite() & wide[1].isfinite() & (wide[1] != 0)
                wide = [wide[0][usable], wide[1][usable]]
                if op == "remainder":
                    cases.add(op, dtype, wide, by_fractions(lambda p, q: p % q, *wide))
                x, y = x[~huge], y[~huge]
            if op == "floor_divide":  # where PyTorch's quotient is exact
                keep = ((x / y).abs() < 1 / UNIT[dtype] / 64) | ~(x / y).isfinite()
                x, y = x[keep], y[keep]
            x, y, result = normal_only(dtype, x, y, run(x, y))
            if op in ("atan2", "hypot", "logaddexp", "pow"):  # errors in proportion, not to the largest result
                moderate = (result.abs() < 256) | ~result.isfinite()
                x, y, result = x[moderate], y[moderate], result[moderate]
            cases.add(op, dtype, [x, y], result, tolerance=tolerance)
        for op in exact1 + functions:
            x = a[::7] if op in exact1 else torch.cat([a[:196:14], a[196:]])
            result = getattr(torch, op)(x)
            if op == "sqrt" and dtype in ("f32", "f64"):  # PyTorch's is not correctly rounded everywhere
                result = torch.from_numpy(np.sqrt(x.numpy()))
            if op == "sign":
                cases.add(op, dtype, [x[x.isnan()]], result[x.isnan()], group="sign of NaN")
                cases.add(op, dtype, [x[x.isnan()]], x[x.isnan()])
                x, result = x[~x.isnan()], result[~x.isnan()]
            x, result = normal_only(dtype, x, result)
            if op not in exact1:
                moderate = (result.abs() < 64) | ~result.isfinite()
                x, result = x[moderate], result[moderate]
            unit = UNIT[dtype] * (64 if op in ("lgamma", "digamma") and dtype in ("f32", "f64") else 1)
            cases.add(op, dtype, [x], result, tolerance=0.0 if op in exact1 else unit)
        tiny = torch.tensor([0.25, 0.5, -0.75], dtype=torch.float64) * float(torch.finfo(FLOATS[dtype]).smallest_normal)
        tiny = tiny.to(FLOATS[dtype])
        cases.add("add", dtype, [tiny, tiny], tiny + tiny, group="subnormal")
        if dtype in ("f32", "bf16"):
            cases.add("add", dtype, [tiny, tiny], torch.zeros_like(tiny))
        cases.add("mul", dtype, [tiny, torch.ones_like(tiny)], tiny, group="subnormal")
        x, y = random(dtype, 20000, seed="fd" + dtype) * 50, random(dtype, 20000, seed="fe" + dtype) / 3
        cases.add("floor_divide", dtype, [x, y], torch.floor_divide(x, y), group="inexact floor")
        cases.add("floor_divide", dtype, [x, y], by_fractions(lambda p, q: p // q, x, y))
    for dtype in INTEGERS:
        info = torch.iinfo(INTEGERS[dtype])
        a, b = random(dtype, 4000, seed=dtype + "a"), random(dtype, 4000, seed=dtype + "b")
        edge, other = pairs(sorted({info.min, info.max, 0, 1, max(info.min, -1), 2, 7, max(info.min, -7)}), dtype)
        a, b = torch.cat([edge, a]), torch.cat([other, b])
        for op in ["add", "sub", "mul", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge", "bitwise_and", "bitwise_or",
                   "bitwise_xor"]:
            cases.add(op, dtype, [a, b], getattr(torch, op)(a, b))
        for op in ["neg", "abs", "sign", "bitwise_not"]:
            cases.add(op, dtype, [a], getattr(torch, op)(a))
        width = torch.iinfo(INTEGERS[dtype]).bits
        count = (b % width).to(a.dtype)
        far = torch.where(b % 2 == 0, torch.tensor(width, dtype=a.dtype), torch.tensor(width + 3, dtype=a.dtype))
        for op in ["bitwise_left_shift", "bitwise_right_shift"]:
            cases.add(op, dtype, [a, count], getattr(torch, op)(a, count))
            cases.add(op, dtype, [a, far], getattr(torch, op)(a, far), group="shift count")
            if info.min < 0:
                cases.add(op, dtype, [a, -1 - count], getattr(torch, op)(a, -1 - count), group="shift count")
        safe = (b != 0) & ~((a == info.min) & (b == -1)) if info.min < 0 else b != 0
        for op in ["floor_divide", "remainder", "fmod"]:
            cases.add(op, dtype, [a[safe], b[safe]], getattr(torch, op)(a[safe], b[safe]))
            numpy_op = {"floor_divide": np.floor_divide, "remainder": np.remainder, "fmod": np.fmod}[op]
            zero = torch.zeros_like(a)
            cases.add(op, dtype, [a, zero], torch.from_numpy(numpy_op(a.numpy(), zero.numpy())), group="division by zero")
            if info.min < 0:
                low, minus = torch.full((5,), info.min, dtype=a.dtype), torch.full((5,), -1, dtype=a.dtype)
                cases.add(op, dtype, [low, minus], torch.from_numpy(numpy_op(low.numpy(), minus.numpy())), group="smallest / -1")
        power = (b % 6).to(a.dtype)
        cases.add("pow", dtype, [a, power], torch.pow(a, power))


def casts(cases):
    for source in DTYPES:
        for target in DTYPES:
            op, attrs = f"to {target}", {"dtype": target}
            x = random(source, 2000, seed="cast" + source)
            if source in FLOATS and target in INTEGERS:
                info = torch.iinfo(INTEGERS[target])
                values = random(source, 2000, seed="cast" + source).double() * 20
                x = values.clamp(max(info.min, -1000), min(info.max, 1000)).to(FLOATS[source])
                wild = torch.tensor([NAN, INF, -INF, 1e4, -1e4, 6e4, -6e4, 300.0, -300.0, 1e10, -1e10, 1e30, -1e30]).to(FLOATS[source])
                cases.add("to", source, [wild], wild.to(DTYPES[target]), attrs, group="saturation", row=op)
                cases.add("to", source, [wild], saturated(wild, target), attrs, row=op)
            elif source in FLOATS:
                x = torch.cat([x, torch.tensor(special(source)).to(FLOATS[source])])
                if target in ("f32", "bf16"):
                    x, _ = normal_only(target, x, x.to(DTYPES[target]))
                if source == "f64" and target in ("f16", "bf16"):
                    twice = torch.from_numpy(1 + 2.0 ** -11 + np.array([2.0 ** -40, -(2.0 ** -40)]))
                    if target == "f16":
                        cases.add("to", source, [twice], torch.from_numpy(twice.numpy().astype(np.float16)), attrs,
                                  group="one rounding", row=op)
                    x = x.float().double()
            elif target in ("f16", "bf16", "f32") and source in ("i32", "i64"):
                if target == "f16" and source == "i64":  # between two halves, above by less than f32 can say
                    between = torch.tensor([(1 << 15) + 16 + 0, 2049, 4099, 65519, 65520], dtype=torch.int64)
                    cases.add("to", source, [between], torch.from_numpy(between.numpy().astype(np.float16)), attrs,
                              group="one rounding", row=op)
                x = x % (1 << 24)
            cases.add("to", source, [x], x.to(DTYPES[target]), attrs, row=op)


def reductions(cases):
    for dtype in FLOATS:
        x = random(dtype, 6, 700, seed="reduce" + dtype)
        unit = UNIT[dtype] * (4 if dtype in ("f32", "f64") else 1)
        for op in ["sum", "mean", "var", "std", "logsumexp", "softmax", "log_softmax", "cumsum", "cumprod"]:
            y = x / 64 if op == "cumprod" else x
            native = getattr(torch, op)(y, dim=1)
            cases.add(op, dtype, [y], native, {"dim": 1}, tolerance=unit)
        small = (torch.rand(6, 40, generator=torch.Generator().manual_seed(1)) + 0.5).to(FLOATS[dtype])
        product = torch.prod(small.double(), dim=1).to(small.dtype)
        cases.add("prod", dtype, [small], product, {"dim": 1}, tolerance=unit)
        if dtype in ("f16", "bf16"):
            cases.add("prod", dtype, [small], torch.prod(small, dim=1), {"dim": 1}, tolerance=unit, group="half products")
        ones = torch.ones(4096, dtype=FLOATS[dtype])
        cases.add("sum", dtype, [ones], ones.sum())
        wild = torch.tensor([1, INF, 2, -1], dtype=FLOATS[dtype])
        cases.add("cumsum", dtype, [wild], wild.cumsum(0), {"dim": 0})
        with_nan = x.clone()
        with_nan[0, 5] = with_nan[2, 0] = with_nan[3, 699] = NAN
        with_nan[1] = torch.round(with_nan[1])
        with_nan[4, 7:20] = INF
        for op in ["amax", "amin"]:
            cases.add(op, dtype, [with_nan], getattr(torch, op)(with_nan, dim=1), {"dim": 1})
        for op in ["argmax", "argmin"]:  # PyTorch promises no place among ties
            cases.add(op, dtype, [with_nan[[0, 2, 3]]], getattr(torch, op)(with_nan[[0, 2, 3]], dim=1), {"dim": 1})
        for op in ["cummax", "cummin"]:
            cases.add(op, dtype, [with_nan[:4]], getattr(torch, op)(with_nan[:4], dim=1).values, {"dim": 1})
        for descending in (False, True):
            values = torch.sort(with_nan, dim=1, stable=True, descending=descending)
            cases.add("sort", dtype, [with_nan], list(values), {"dim": 1, "descending": descending})
    for dtype in {**INTEGERS, "bool": torch.bool}:
        x = random(dtype, 6, 700, seed="reduce" + dtype)
        for op in ["sum", "cumsum", "cumprod"]:
            cases.add(op, dtype, [x], getattr(torch, op)(x, dim=1), {"dim": 1})
        cases.add("prod", dtype, [x[:, :9]], torch.prod(x[:, :9], dim=1), {"dim": 1})
        if dtype != "bool":
            for op in ["amax", "amin"]:
                cases.add(op, dtype, [x], getattr(torch, op)(x, dim=1), {"dim": 1})
            for descending in (False, True):
                values = torch.sort(x, dim=1, stable=True, descending=descending)
                cases.add("sort", dtype, [x], list(values), {"dim": 1, "descending": descending})


def replay(executable, folder):
    done = subprocess.run([executable, "replay", "--json", "--device", "cpu", str(folder)], stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


WORDS = ["-", "equal", "rounding", "by design", "DIFFERENT"]


def grouped(cells):
    """Ops by their dtypes: "a, b (f16 f32), c (i8)"."""
    by_op, by_dtypes = {}, {}
    for op, dtype in cells:
        by_op.setdefault(op, set()).add(dtype)
    for op, dtypes in by_op.items():
        by_dtypes.setdefault(" ".join(dtype for dtype in DTYPES if dtype in dtypes), []).append(op)
    return "; ".join(f"{', '.join(ops)} ({dtypes})" for dtypes, ops in by_dtypes.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lockstep", help="the executable")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cases = Cases(pathlib.Path(folder))
        with np.errstate(all="ignore"):
            for make in (elementwise, casts, reductions):
                make(cases)
        lines = replay(options.lockstep, folder)
    table, details, reasons, unsupported = {}, [], {}, []
    for line in lines:
        row, dtype, group = cases.known[line["case"]]
        if line["status"] == "unsupported" or "does not take" in line.get("detail", ""):
            state = 0
            unsupported.append((row, dtype))
        elif line["status"] == "pass":
            state = 1 if line["max_error"] == 0 else 2
        elif group != "plain":
            state = 3
            reasons.setdefault(group, []).append((row, dtype))
        else:
            state = 4
            details.append(f"{row} {dtype}: {line.get('detail', '').splitlines()[0]}")
        table.setdefault(row, {})
        table[row][dtype] = max(state, table[row].get(dtype, 0))
    print("# Meaning, beside PyTorch and NumPy\n")
    print(f"The output of bench/peers/semantics.py: {len(lines)} cases against PyTorch {torch.__version__.split('+')[0]} and NumPy {np.__version__}. equal: every "
          "value; rounding: within the tolerance of the script; by design: differs only where a rule below says so; "
          "-: no such op or dtype here, or in PyTorch.\n")
    print("| op | " + " | ".join(DTYPES) + " |\n|" + "---|" * (len(DTYPES) + 1))
    for row, cells in table.items():
        print(f"| {row} | " + " | ".join(WORDS[cells.get(dtype, 0)] for dtype in DTYPES) + " |")
    print("\nDiffers by design:\n")
    for group, where in reasons.items():
        print(f"* {DESIGN[group]}: {grouped(where)}.")
    agree = [text for group, text in DESIGN.items() if group not in reasons]
    if agree:
        print("\nRules on which all agree:\n")
        for text in agree:
            print(f"* {text}.")
    if unsupported:
        print(f"\nNot supported: {grouped(unsupported)}.")
    for text in details:
        print(f"DIFFERENT: {text}", file=sys.stderr)
    return 1 if details else 0


if __name__ == "__main__":
    sys.exit(main())
