#!/usr/bin/env python3
"""What a data-parallel step costs on 8 to 1,024 GPUs, from bandwidths that were measured: docs/distributed.md, "Many GPUs".

  tools/simulate_ranks.py [--model resnet50|gpt124m] [--bucket MIB] [--plot docs/images/many_gpus.svg]

A step computes for `compute` seconds; gradients of `bytes` leave in buckets, from the last layers on, while the backward
pass (two thirds of it) goes on, one exchange after another. Ours is an all-to-all of slices, a tree sum of what came, and
an all-gather. It sends R - 1 messages twice; a rank whose shards are no single aligned subtree sends as many slices as
they have subtrees. Each exchange cuts the backward pass, which costs time of its own. `ring` is NCCL's all-reduce by rings, 2 (R - 1) steps long, `tree` its double tree. Between nodes each
GPU has a network card of its own.
"""
import argparse
import math

# Measured on two H100 with NV18 (NCCL 2.28, multicast off): all-to-all 286 GB/s, 47 us for 1 MiB; all-reduce 305 GB/s
# of bus. Memory: 3 TB/s. Assumed: 400 Gb/s cards at 90 %, 5 us for a message's way, of which 0.8 us are spent sending.
INSIDE, BUS, MEMORY, CARD = 286e9, 305e9, 3.0e12, 45e9
START, WAY, SEND = 40e-6, 5e-6, 0.8e-6
NODE = 8
# Compute of a step (one H100, docs/performance/several_gpus.md), bytes of gradients.
# The last row: a step as fast as PyTorch's in bf16.
MODELS = {"resnet50": (80.5e-3, 102e6), "gpt124m": (186.6e-3, 498e6), "gpt124m-fast": (29.5e-3, 498e6)}
BUCKET = 128 * 2**20
# What a further bucket adds to the backward pass: ResNet-50 on two H100 in five and in one, with our sums and NCCL's.
CUT, CUT_OF_SUMS = 4.7e-3 / 5, 2.0e-3 / 5


def subtrees(first, end):
    count = 0
    while first < end:
        size = 1
        while first % (2 * size) == 0 and first + 2 * size <= end:
            size *= 2
        first += size
        count += 1
    return count


def most_subtrees(shards, ranks):
    cuts = [shards * r // ranks for r in range(ranks + 1)]
    return max(subtrees(cuts[r], cuts[r + 1]) for r in range(ranks))


def ours(size, ranks, shards):
    pieces = most_subtrees(shards, ranks)
    total = sum(subtrees(shards * r // ranks, shards * (r + 1) // ranks) for r in range(ranks))
    slice_bytes = size / ranks
    inside = min(ranks, NODE) - 1
    outside = ranks - 1 - inside
    def exchange(each):
        time = START + (ranks - 1) * SEND + (WAY if outside else 0)
        return time + max(inside * each / INSIDE, outside * each / CARD)
    add = slice_bytes * (total + 1) / MEMORY
    return exchange(pieces * slice_bytes) + add + START / 4 + exchange(slice_bytes)


def ring(size, ranks):
    crosses = ranks > NODE
    return START + 2 * (ranks - 1) * (WAY if crosses else 1e-6) + 2 * (ranks - 1) / ranks * size / (
        min(BUS, CARD * NODE) if crosses else BUS)


def tree(size, ranks):
    depth = math.ceil(math.log2(ranks))
    nodes = max(1, ranks // NODE)
    return START + 2 * depth * WAY + 2 * size / (BUS if nodes == 1 else min(BUS, CARD * NODE) * 0.9)


def step(compute, size, exchange, cut):
    """The exchanges run one after another, each from when its gradients are there."""
    count = math.ceil(size / BUCKET)
    compute += cut * (count - 1)
    forward, backward = compute / 3, compute * 2 / 3
    free = 0.0
    for bucket in range(count):
        part = min(BUCKET, size - bucket * BUCKET)
        free = max(free, forward + backward * min(1.0, (bucket + 1) * BUCKET / size)) + exchange(part)
    return max(compute, free)


def efficiencies(model, ranks, shards=None):
    compute, size = MODELS[model]
    shards = shards or 1 << (ranks - 1).bit_length()
    fast = lambda n: min(ring(n, ranks), tree(n, ranks))
    return [compute / step(compute, size, f, cut) for f, cut in ((lambda n: ours(n, ranks, shards), CUT), (fast, CUT_OF_SUMS))]


def plot(path):
    lines = [[(r, *efficiencies(m, r)) for r in (8, 16, 32, 64, 128, 256, 512, 1024)] for m in MODELS]
    x = lambda r: 60 + 60 * (math.log2(r) - 3)
    y = lambda e: 30 + 240 * (1 - e) / 0.5
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 320" font-family="sans-serif" font-size="12">',
           '<rect width="640" height="320" fill="white"/>']
    for e in (1.0, 0.9, 0.8, 0.7, 0.6, 0.5):
        out.append(f'<path d="M60 {y(e):.1f}H480" stroke="#ddd"/><text x="52" y="{y(e) + 4:.1f}" text-anchor="end">{e:.1f}</text>')
    for r in (8, 16, 32, 64, 128, 256, 512, 1024):
        out.append(f'<text x="{x(r):.0f}" y="290" text-anchor="middle">{r}</text>')
    for name, line, colour in zip(MODELS, lines, ("#1f77b4", "#2ca02c", "#d62728")):
        for column, dash, what in ((1, "", "ours"), (2, ' stroke-dasharray="5 4"', "NCCL's sums")):
            points = " ".join(f"{x(p[0]):.1f},{y(p[column]):.1f}" for p in line)
            out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
            out.append(f'<text x="488" y="{y(line[-1][column]) + 4:.1f}" fill="{colour}">{name}, {what}</text>')
    out.append('<text x="270" y="312" text-anchor="middle">GPUs; weak scaling of a step, simulated</text></svg>')
    with open(path, "w") as file:
        file.write("\n".join(out) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, action="append")
    parser.add_argument("--bucket", type=int, metavar="MIB", help="instead of the default of ParallelOptions::bucket_bytes")
    parser.add_argument("--plot")
    options = parser.parse_args()
    if options.bucket:
        globals()["BUCKET"] = options.bucket << 20
    for model in options.model or MODELS:
        print(f"{model}: GPUs, shards, most subtrees of a rank, weak scaling ours, with NCCL's sums, exchange of a bucket in us")
        for ranks in (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024):
            for shards in {1 << (ranks - 1).bit_length(), 8 << (ranks - 1).bit_length()} if ranks & (ranks - 1) else {ranks}:
                a, b = efficiencies(model, ranks, shards)
                fast = min(ring(BUCKET, ranks), tree(BUCKET, ranks))
                print(f"{ranks:5} {shards:5} {most_subtrees(shards, ranks):2}  {a:.3f}  {b:.3f}  {1e6 * ours(BUCKET, ranks, shards):7.0f} "
                      f"{1e6 * fast:7.0f}")
    if options.plot:
        plot(options.plot)


if __name__ == "__main__":
    main()
