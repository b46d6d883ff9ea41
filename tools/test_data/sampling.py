#!/usr/bin/env python3
"""Writes tests/data/language/sampling.json: what mirostat 2 draws by llama.cpp's formulas, in f64 with numpy.

    tools/test_data/sampling.py LOGITS.npy

The logits, [1, L, vocabulary], are those of stories260K for the tokens of tests/data/language/generation.json
(lockstep logits --tokens ... --out LOGITS.npy); the first rows are the steps, again and again. llama_sampler_mirostat_v2_apply: softmax of the sorted
logits, those whose surprise, in bits, is above mu go (but the first one), softmax again, one is drawn, and mu moves by eta times
what its surprise differs from tau. Draws are those of docs/numerics.md, section 8: Philox4x32-10, Random123.
"""
import json
import pathlib
import sys

import numpy as np

ROWS, SMALL = 12, 2  # decimals of the logits in the file
STEPS = 150  # the rows again and again


def philox(counter, key):
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * counter[0], 2**32)
        high1, low1 = divmod(0xCD9E8D57 * counter[2], 2**32)
        counter = [high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0]
        key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
    return counter


def uniform(seed, draw):
    """The first element of rand in f64: 27 upper bits of one draw, and 26 of the next."""
    word = [philox([0, 0, (draw + i) % 2**32, (draw + i) >> 32], [seed % 2**32, seed >> 32])[0] for i in (0, 1)]
    return ((word[0] >> 5) * 2**26 + (word[1] >> 6)) / 2**53


def mirostat2(rows, tau, eta, temperature, seed):
    mu, tokens, surprises = 2 * tau, [], []
    for position in range(STEPS):
        logits = rows[position % ROWS]
        scaled = logits / temperature
        order = np.argsort(-scaled, kind="stable")
        p = np.exp(scaled[order] - scaled.max())
        p /= p.sum()
        bits = -np.log2(p)
        above = np.nonzero(bits > mu)[0]
        kept = max(1, int(above[0]) if len(above) else len(p))
        q = p[:kept] / p[:kept].sum()
        u = uniform(seed, position)
        at = min(int(np.searchsorted(np.cumsum(q), u, side="right")), kept - 1)
        surprise = -np.log2(q[at])
        mu -= eta * (surprise - tau)
        tokens.append(int(order[at]))
        surprises.append(mu)
    return {"tau": tau, "eta": eta, "temperature": temperature, "seed": seed, "tokens": tokens, "mu": surprises}


def main():
    logits = np.load(sys.argv[1])[0]
    rows = np.round(logits[:ROWS].astype(np.float64), SMALL)
    rows = rows.astype(np.float32).astype(np.float64)  # what a reader of f32 has
    cases = [mirostat2(rows, *case) for case in ((3.0, 0.1, 5.0, 7), (5.0, 0.3, 4.0, 11), (1.0, 0.5, 3.0, 3), (2.0, 0.1, 8.0, 2**40 + 5), (3.0, 0.1, 1.0, 7))]
    path = pathlib.Path(__file__).resolve().parent.parent.parent / "tests/data/language/sampling.json"
    text = [[float(f"{x:.{SMALL}f}") for x in row] for row in rows]
    path.write_text(json.dumps({"logits": text, "mirostat2": cases}, separators=(",", ":")) + "\n")
    print(path, path.stat().st_size)


if __name__ == "__main__":
    main()
