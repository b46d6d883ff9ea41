#!/usr/bin/env python3
"""Times PyTorch's scaled_dot_product_attention on the shapes of bench/attention_bench.cpp: milliseconds, best of many."""
import time

import torch
import torch.nn.functional as F


def best(call, seconds=2.0):
    call()
    shortest, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest * 1e3


for threads in (1, 2):
    torch.set_num_threads(threads)
    for heads, queries, keys, features, causal in ((8, 1024, 1024, 64, False), (8, 1024, 1024, 64, True),
                                                   (32, 1, 1024, 128, False)):
        q = torch.rand(1, heads, queries, features)
        k, v = torch.rand(1, heads, keys, features), torch.rand(1, heads, keys, features)
        with torch.no_grad():
            taken = best(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal))
        print(f"heads {heads} queries {queries} keys {keys} features {features} causal {int(causal)} threads {threads}: "
              f"{taken:.2f} ms")
