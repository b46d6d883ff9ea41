#!/usr/bin/env python3
"""NumPy's times for the cases of bench/fft_bench.cpp, in microseconds of processor time per call, under the same names."""
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import time  # noqa: E402
import timeit  # noqa: E402

import numpy as np  # noqa: E402

ELEMENTS = 1 << 17


def report(name, call):
    call()
    timer = timeit.Timer(call, timer=time.process_time)
    count, _ = timer.autorange()
    best = min(timer.repeat(5, max(1, count // 5))) / max(1, count // 5)
    print(f"{name:40} {best * 1e6:12.1f} us", flush=True)


def transforms(rng):
    for kind in ("Fft", "Rfft", "Irfft"):
        for dtype in (np.float32, np.float64):
            for n in (64, 256, 1024, 4096, 1000, 1009, 65536):
                batch = max(1, ELEMENTS // n)
                word = "f32" if dtype == np.float32 else "f64"
                real = rng.standard_normal((batch, n)).astype(dtype)
                pairs = rng.standard_normal((batch, n, 2)).astype(dtype)
                signal = pairs.view(np.complex64 if dtype == np.float32 else np.complex128)[..., 0]
                half = np.ascontiguousarray(signal[:, :n // 2 + 1])
                call = {"Fft": lambda: np.fft.fft(signal), "Rfft": lambda: np.fft.rfft(real),
                        "Irfft": lambda: np.fft.irfft(half)}[kind]
                report(f"BM_{kind}<{word}>/{n}", call)


def matrices(rng):
    calls = {"Solve": lambda a: np.linalg.solve(a, a[:, :, :1]), "Cholesky": np.linalg.cholesky,
             "Qr": lambda a: np.linalg.qr(a)[0], "Eigh": lambda a: np.linalg.eigh(a)[1],
             "Svd": lambda a: np.linalg.svd(a)[0]}
    for name, call in calls.items():
        for batch, n in ((256, 8), (16, 64), (1, 256), (1, 1024)):
            if n == 1024 and name in ("Eigh", "Svd"):
                continue
            x = rng.standard_normal((batch, n, n))
            a = x @ x.transpose(0, 2, 1) + np.eye(n)
            report(f"BM_{name}/{batch}/{n}", lambda: call(a))


if __name__ == "__main__":
    generator = np.random.default_rng(1)
    transforms(generator)
    matrices(generator)
