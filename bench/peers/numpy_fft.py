#!/usr/bin/env python3
"""Fourier transforms of Lockstep beside NumPy's (pocketfft), in turn, on one machine.

  bench/peers/numpy_fft.py build/release/bin/bench/fft_bench [--only REGEX] [--rounds 3]

Prints the median of each side's rounds in microseconds, and NumPy's time divided by Lockstep's. NumPy uses one thread,
Lockstep as many as LOCKSTEP_NUM_THREADS says.
"""
import argparse
import json
import re
import statistics
import subprocess
import time

import numpy as np


def frames(signal, window):
    """stft as a user of NumPy writes it: reflected ends, windows of 400, 160 apart."""
    padded = np.pad(signal, 200, mode="reflect")
    parts = np.lib.stride_tricks.sliding_window_view(padded, 400)[::160]
    return np.ascontiguousarray(np.fft.rfft(parts * window).T)


def call_of(name, rng):
    """The NumPy call of a case of fft_bench, by its name."""
    kind, dtype, sizes = re.match(r"BM_(\w+)<DType::(f\d\d)>/?([\d/]*)", name).groups()
    real = np.float32 if dtype == "f32" else np.float64
    pair = np.complex64 if dtype == "f32" else np.complex128
    numbers = [int(size) for size in sizes.split("/") if size]

    def noise(*shape):
        return rng.standard_normal(shape).astype(real)

    def pairs(*shape):
        return noise(*shape, 2).view(pair)[..., 0]

    if kind == "Stft":
        signal, window = noise(160000), noise(400)
        return lambda: frames(signal, window)
    n, count = numbers
    if kind == "Fft2":
        x = pairs(count, n, n)
        return lambda: np.fft.fft2(x)
    kind = kind.replace("Pairs", "")
    x = {"Fft": lambda: pairs(count, n), "Rfft": lambda: noise(count, n), "Irfft": lambda: pairs(count, n // 2 + 1)}[kind]()
    return {"Fft": lambda: np.fft.fft(x), "Rfft": lambda: np.fft.rfft(x), "Irfft": lambda: np.fft.irfft(x)}[kind]


def time_of(call):
    """Microseconds per call: the median of runs of at least 5 ms, 0.2 s in all."""
    call()
    count, taken = 1, 0.0
    while taken < 0.005:
        start = time.perf_counter()
        for _ in range(count):
            call()
        taken = time.perf_counter() - start
        if taken < 0.005:
            count *= 2
    times = []
    while sum(times) < 0.2 and len(times) < 100:
        start = time.perf_counter()
        for _ in range(count):
            call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) / count * 1e6


def measured(program, only):
    output = subprocess.run([program, f"--benchmark_filter={only}", "--benchmark_format=json"], check=True,
                            capture_output=True, text=True).stdout
    return {row["name"]: row["real_time"] for row in json.loads(output)["benchmarks"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--only", default=".")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    rng = np.random.default_rng(1)
    ours, theirs = {}, {}
    for _ in range(arguments.rounds):
        for name, microseconds in measured(arguments.program, arguments.only).items():
            ours.setdefault(name, []).append(microseconds)
        for name in ours:
            theirs.setdefault(name, []).append(time_of(call_of(name, rng)))
    print(f"NumPy {np.__version__}")
    for name in ours:
        mine, other = statistics.median(ours[name]), statistics.median(theirs[name])
        print(f"{name.split('/min_time')[0]:34} {mine:11.1f} us {other:11.1f} us   ratio {other / mine:.2f}", flush=True)


if __name__ == "__main__":
    main()
