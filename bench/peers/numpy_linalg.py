#!/usr/bin/env python3
"""NumPy's times for the cases of bench/linalg_bench.cpp, in microseconds of processor time per call.

With the path of linalg_bench as argument: both in turn, and the ratio of speeds (above 1, Lockstep is faster), each by the
best of its rounds.
"""
import json
import os
import subprocess
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import time  # noqa: E402

import numpy as np  # noqa: E402

SIZES = ((256, 8), (16, 64), (1, 256), (1, 512))
CALLS = {"Solve": lambda a: np.linalg.solve(a, a[:, :, :1]), "Inv": np.linalg.inv, "Cholesky": np.linalg.cholesky,
         "Qr": lambda a: np.linalg.qr(a)[0], "Eigh": lambda a: np.linalg.eigh(a)[1], "Eigvalsh": np.linalg.eigvalsh,
         "Svd": lambda a: np.linalg.svd(a)[0], "Svdvals": lambda a: np.linalg.svd(a, compute_uv=False)}
ROUNDS = 3


def times_of_numpy():
    generator = np.random.default_rng(1)
    result = {}
    for name, call in CALLS.items():
        for batch, n in SIZES:
            x = generator.standard_normal((batch, n, n))
            a = x @ x.transpose(0, 2, 1) + np.eye(n)
            best = float("inf")
            end = time.process_time() + 0.3
            while best == float("inf") or time.process_time() < end:
                start = time.process_time()
                call(a)
                best = min(best, time.process_time() - start)
            result[f"BM_{name}/{batch}/{n}"] = best * 1e6
    return result


def times_of_lockstep(program):
    text = subprocess.run([program, "--benchmark_format=json", "--benchmark_min_time=0.05", "--benchmark_repetitions=3"],
                          env=os.environ | {"LOCKSTEP_NUM_THREADS": "1"}, check=True, capture_output=True).stdout
    result = {}
    for row in json.loads(text)["benchmarks"]:
        if row["run_type"] == "iteration":
            name = row["run_name"]
            result[name] = min(result.get(name, float("inf")), row["cpu_time"])
    return result


def best_of(rounds):
    return {name: min(times[name] for times in rounds) for name in rounds[0]}


def main():
    if len(sys.argv) == 1:
        for name, time_of in times_of_numpy().items():
            print(f"{name:24} {time_of:12.1f} us")
        return
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(times_of_lockstep(sys.argv[1]))
        theirs.append(times_of_numpy())
    ours, theirs = best_of(ours), best_of(theirs)
    for name in theirs:
        print(f"{name:24} {ours[name]:12.1f} us  NumPy {theirs[name]:12.1f} us  ratio {theirs[name] / ours[name]:.2f}")


if __name__ == "__main__":
    main()
