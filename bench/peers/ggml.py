#!/usr/bin/env python3
"""Products of f32 matrices as ggml computes them, by the names of kernel_cases.py; called by compare.py.

ggml comes inside of the package xllamacpp, as a part of llama.cpp, and is called through ctypes with a pool of threads that
stays. Its product takes both operands with k last, which is how it wants weights; what it computes is compared with NumPy.

Prints a line of JSON for each case, as torch_models.py does.
"""
import argparse
import ctypes
import json
import os
import statistics
import time

import numpy
import xllamacpp

# name -> (rows of weights, rows of inputs, k, batch)
N = 4096
CASES = {
    **{f"matmul_{n}": (n, n, n, 1) for n in (256, 512, 1024, 2048)},
    "matmul_64_batch256": (64, 64, 64, 256),
    "matrix_vector_4096": (N, 1, N, 1),
    "linear_4096_b1": (N, 1, N, 1),
}
F32 = 0  # of enum ggml_type


class InitParams(ctypes.Structure):
    _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


class ThreadpoolParams(ctypes.Structure):
    _fields_ = [("cpumask", ctypes.c_bool * 512), ("n_threads", ctypes.c_int), ("prio", ctypes.c_int), ("poll", ctypes.c_uint32),
                ("strict_cpu", ctypes.c_bool), ("paused", ctypes.c_bool)]


def load():
    """The functions of ggml inside of xllamacpp, with pointers as results."""
    library = ctypes.CDLL(os.path.join(os.path.dirname(xllamacpp.__file__), "xllamacpp.abi3.so"))
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    for name, result, *arguments in [
        ("ggml_version", ctypes.c_char_p),
        ("ggml_init", pointer, InitParams),
        ("ggml_free", None, pointer),
        ("ggml_new_tensor_3d", pointer, pointer, ctypes.c_int, *[ctypes.c_int64] * 3),
        ("ggml_mul_mat", pointer, *[pointer] * 3),
        ("ggml_new_graph", pointer, pointer),
        ("ggml_build_forward_expand", None, pointer, pointer),
        ("ggml_backend_cpu_init", pointer),
        ("ggml_backend_cpu_set_n_threads", None, pointer, ctypes.c_int),
        ("ggml_backend_cpu_set_threadpool", None, pointer, pointer),
        ("ggml_threadpool_params_default", ThreadpoolParams, ctypes.c_int),
        ("ggml_threadpool_new", pointer, ctypes.POINTER(ThreadpoolParams)),
        ("ggml_backend_alloc_ctx_tensors", pointer, pointer, pointer),
        ("ggml_backend_buffer_free", None, pointer),
        ("ggml_backend_tensor_set", None, pointer, pointer, size, size),
        ("ggml_backend_tensor_get", None, pointer, pointer, size, size),
        ("ggml_backend_graph_compute", ctypes.c_int, pointer, pointer),
    ]:
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def median_seconds(ggml, backend, case, seconds):
    rows, columns, k, batch = CASES[case]
    weights, inputs = (numpy.random.randn(batch, n, k).astype(numpy.float32) for n in (rows, columns))
    context = ggml.ggml_init(InitParams(1 << 20, None, True))
    tensors = [ggml.ggml_new_tensor_3d(context, F32, k, n, batch) for n in (rows, columns)]
    product = ggml.ggml_mul_mat(context, *tensors)
    graph = ggml.ggml_new_graph(context)
    ggml.ggml_build_forward_expand(graph, product)
    buffer = ggml.ggml_backend_alloc_ctx_tensors(context, backend)
    for tensor, values in zip(tensors, (weights, inputs)):
        ggml.ggml_backend_tensor_set(tensor, values.ctypes.data, 0, values.nbytes)

    times = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        if ggml.ggml_backend_graph_compute(backend, graph) != 0:
            raise SystemExit(f"ggml.py: {case} failed")
        times.append(time.perf_counter() - start)
    result = numpy.empty((batch, columns, rows), numpy.float32)
    ggml.ggml_backend_tensor_get(product, result.ctypes.data, 0, result.nbytes)
    numpy.testing.assert_allclose(result, inputs @ weights.transpose(0, 2, 1), rtol=1e-3, atol=1e-2 * k**0.5)
    ggml.ggml_backend_buffer_free(buffer)
    ggml.ggml_free(context)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0, help="time spent on each case")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="run these cases only; names that ggml has not are left out")
    options = parser.parse_args()
    ggml = load()
    backend = ggml.ggml_backend_cpu_init()
    ggml.ggml_backend_cpu_set_n_threads(backend, options.threads)
    pool = ggml.ggml_threadpool_params_default(options.threads)
    ggml.ggml_backend_cpu_set_threadpool(backend, ggml.ggml_threadpool_new(ctypes.byref(pool)))
    for name in CASES:
        if not options.only or name in options.only:
            seconds = median_seconds(ggml, backend, name, options.seconds)
            print(json.dumps({"name": name, "seconds": seconds, "threads": options.threads}), flush=True)


if __name__ == "__main__":
    main()
