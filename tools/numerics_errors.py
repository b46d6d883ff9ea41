#!/usr/bin/env python3
"""Errors of products against the f64 product, for four kinds of data: blocked numerics (docs/numerics.md section 12,
computed here by its definition with NumPy) beside PyTorch's bf16 and TF32 on an NVIDIA GPU. Writes a table and a plot.

    python3 tools/numerics_errors.py docs/numerics_errors.svg

Needs NumPy and matplotlib, and PyTorch with CUDA for its two lines.
"""

import sys

import numpy as np

# Of the left and the right operand; large channels are those of activations.
KINDS = {
    "normal": 2 * [lambda g, s: g.standard_normal(s)],
    "1 % of the channels x 100": [
        lambda g, s: g.standard_normal(s) * np.where(np.arange(s[-1]) % 100 == 7, 100.0, 1.0),
        lambda g, s: g.standard_normal(s),
    ],
    "lognormal, sigma 2": 2 * [lambda g, s: np.exp(2 * g.standard_normal(s)) * np.where(g.random(s) < 0.5, -1, 1)],
    "Student t, 2 degrees of freedom": 2 * [lambda g, s: g.standard_t(2, s)],
}
LENGTHS = [128, 256, 512, 1024, 2048, 4096, 8192]
ROWS = 256
BLOCK = 128


def to_bf16(x):
    """x (f32) rounded to the nearest bf16, ties to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def digits(x):
    """The integers of each block of a row, and its exponent: [blocks, rows, BLOCK], [blocks, rows]."""
    blocks = x.reshape(x.shape[0], -1, BLOCK).transpose(1, 0, 2).astype(np.float64)
    exponents = np.maximum(np.frexp(np.abs(blocks).max(axis=2))[1], -106)
    return np.minimum(np.rint(np.ldexp(blocks, 14 - exponents[:, :, None])), 16383), exponents


def blocked(a, b):
    """a [m, k] times b [n, k] transposed, in f32."""
    (qa, ea), (qb, eb) = digits(a), digits(b)
    sums = np.zeros((a.shape[0], b.shape[0]), np.float32)
    for i in range(qa.shape[0]):
        product = np.floor((qa[i] @ qb[i].T + 64) / 128).astype(np.float32)  # below 2^36 before: exact in f64
        scaled = np.ldexp(product.astype(np.float64), ea[i][:, None] + eb[i][None, :] - 21)
        sums = (sums.astype(np.float64) + scaled).astype(np.float32)
    return sums


def error(got, exact):
    return float(np.linalg.norm(got.astype(np.float64) - exact) / np.linalg.norm(exact))


def measure(torch):
    found = {}
    for kind, draws in KINDS.items():
        for k in LENGTHS:
            generator = np.random.default_rng(k)
            a, b = (draw(generator, (ROWS, k)).astype(np.float32) for draw in draws)
            narrow_a, narrow_b = to_bf16(a), to_bf16(b)
            exact = narrow_a.astype(np.float64) @ narrow_b.astype(np.float64).T
            sums = blocked(narrow_a, narrow_b)
            lines = {
                "blocked, before the last rounding": error(sums, exact),
                "blocked, bf16": error(to_bf16(sums), exact),
                "exact, rounded to bf16": error(to_bf16(exact.astype(np.float32)), exact),
            }
            if torch is not None:
                x, y = (torch.from_numpy(t).cuda() for t in (a, b))
                result = (x.bfloat16() @ y.bfloat16().T).float().cpu().numpy()
                lines["PyTorch, bf16"] = error(result, exact)
                torch.backends.cuda.matmul.allow_tf32 = True
                wide = a.astype(np.float64) @ b.astype(np.float64).T
                lines["PyTorch, f32 operands in TF32"] = error((x @ y.T).cpu().numpy(), wide)
            for line, value in lines.items():
                found.setdefault(kind, {}).setdefault(line, []).append(value)
    return found


def plot(found, path):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "lockstep"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(9, 6.5), sharex=True, sharey=True)
    marks = {"blocked, before the last rounding": "o-", "blocked, bf16": "s-", "exact, rounded to bf16": "x:"}
    for axis, (kind, lines) in zip(axes.flat, found.items()):
        for line, values in lines.items():
            axis.loglog(LENGTHS, values, marks.get(line, "--"), label=line, markersize=4, base=10)
        axis.set_title(kind, fontsize=10)
        axis.grid(alpha=0.3)
        axis.set_xticks(LENGTHS, [str(k) for k in LENGTHS], minor=False)
        axis.minorticks_off()
    for axis in axes[1]:
        axis.set_xlabel("k")
    for axis in axes[:, 0]:
        axis.set_ylabel("|error| / |product|")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=3, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    figure.savefig(path, metadata={"Date": None})


def main():
    try:
        import torch

        torch = torch if torch.cuda.is_available() else None
    except ImportError:
        torch = None
    found = measure(torch)
    lines = list(next(iter(found.values())))
    print("| data, k = 4096 | " + " | ".join(lines) + " |")
    print("|---|" + "---:|" * len(lines))
    at = LENGTHS.index(4096)
    for kind, values in found.items():
        print(f"| {kind} | " + " | ".join(f"{values[line][at]:.2e}" for line in lines) + " |")
    if len(sys.argv) > 1:
        plot(found, sys.argv[1])


if __name__ == "__main__":
    main()
