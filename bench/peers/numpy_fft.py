#!/usr/bin/env python3
"""Fourier transforms of Lockstep beside NumPy's (pocketfft), in turn, on one machine.

  bench/peers/numpy_fft.py build/release/bin/bench/fft_bench [--only REGEX] [--rounds 3] [--cpu]

Prints each side's fastest run of a few milliseconds, in microseconds per call, and NumPy's time divided by Lockstep's.
NumPy uses one thread, and f64 for f32. Lockstep uses as many as LOCKSTEP_NUM_THREADS says. --cpu compares the processor
time of one thread each, which other programs on the machine disturb less.
"""
import argparse
import json
import os
import re
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
    x = {"Fft": lambda: pairs(count, n), "Rfft": lambda: noise(count, n), "Irfft": lambda: pairs(count, n // 2 + 1)}[kind]()
    return {"Fft": lambda: np.fft.fft(x), "Rfft": lambda: np.fft.rfft(x), "Irfft": lambda: np.fft.irfft(x)}[kind]


def time_of(call, clock):
    """Microseconds per call: the fastest of up to 40 runs of at least 5 ms, in 0.3 s."""
    call()
    count, taken = 1, 0.0
    while taken < 0.005:
        start = clock()
        for _ in range(count):
            call()
        taken = clock() - start
        if taken < 0.005:
            count *= 2
    times = []
    while sum(times) < 0.3 and len(times) < 40:
        start = clock()
        for _ in range(count):
            call()
        times.append(clock() - start)
    return min(times) / count * 1e6


def measured(program, only, cpu):
    environment = dict(os.environ) | ({"LOCKSTEP_NUM_THREADS": "1"} if cpu else {})
    output = subprocess.run([program, f"--benchmark_filter={only}", "--benchmark_format=json",
                             "--benchmark_repetitions=12"], check=True, capture_output=True, text=True,
                            env=environment).stdout
    best = {}
    for row in json.loads(output)["benchmarks"]:
        if row["run_type"] == "iteration":
            best[row["run_name"]] = min(best.get(row["run_name"], 1e30), row["cpu_time" if cpu else "real_time"])
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--only", default=".")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cpu", action="store_true")
    arguments = parser.parse_args()
    rng = np.random.default_rng(1)
    ours, theirs = {}, {}
    for _ in range(arguments.rounds):
        for name, microseconds in measured(arguments.program, arguments.only, arguments.cpu).items():
            ours.setdefault(name, []).append(microseconds)
        for name in ours:
            theirs.setdefault(name, []).append(time_of(call_of(name, rng), time.process_time if arguments.cpu else time.perf_counter))
    print(f"NumPy {np.__version__}")
    for name in ours:
        mine, other = min(ours[name]), min(theirs[name])
        print(f"{name.split('/min_time')[0]:34} {mine:11.1f} us {other:11.1f} us   ratio {other / mine:.2f}", flush=True)


if __name__ == "__main__":
    main()
