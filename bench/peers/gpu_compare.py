#!/usr/bin/env python3
"""Times PyTorch on a CUDA GPU under the names of bench/gpu_bench and prints both as one table.

    gpu_compare.py GPU_BENCH [--device cuda:0] [--filter TEXT]

Medians; work is started many times and waited for once, on both sides. TF32 is off. "of copy" is the share of the
device-to-device copy bandwidth that bytes which must move are moved at; "ratio" is PyTorch's time by ours, so that more
than 1 is faster than PyTorch. layer_norm_chain is held against torch.compile, where that works.
"""
import argparse
import json
import subprocess
import sys
import time

import torch
import torch.nn.functional as F


def median_seconds(step):
    step()
    step()
    torch.cuda.synchronize()
    start = time.perf_counter()
    step()
    torch.cuda.synchronize()
    repeats = max(1, min(200, int(0.05 / (time.perf_counter() - start))))
    times, began = [], time.perf_counter()
    while len(times) < 3 or (time.perf_counter() - began < 0.4 and len(times) < 15):
        start = time.perf_counter()
        for _ in range(repeats):
            step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / repeats)
    return sorted(times)[len(times) // 2]


def bottleneck(inputs, width, stride):
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            conv, norm = torch.nn.Conv2d, torch.nn.BatchNorm2d
            self.body = torch.nn.Sequential(
                conv(inputs, width, 1, bias=False), norm(width), torch.nn.ReLU(),
                conv(width, width, 3, stride, 1, bias=False), norm(width), torch.nn.ReLU(),
                conv(width, 4 * width, 1, bias=False), norm(4 * width))
            self.shortcut = torch.nn.Sequential(conv(inputs, 4 * width, 1, stride, bias=False), norm(4 * width)) \
                if stride != 1 or inputs != 4 * width else torch.nn.Identity()

        def forward(self, x):
            return F.relu(self.body(x) + self.shortcut(x))
    return Block()


def resnet50():
    layers = [torch.nn.Conv2d(3, 64, 7, 2, 3, bias=False), torch.nn.BatchNorm2d(64), torch.nn.ReLU(),
              torch.nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, (width, blocks) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)]):
        for block in range(blocks):
            layers.append(bottleneck(inputs, width, 2 if stage and not block else 1))
            inputs = 4 * width
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(2048, 1000))


def cases():
    def randn(*shape, dtype=torch.float32):
        return torch.randn(shape, device="cuda").to(dtype)

    def with_operands(operation, *shapes, dtype=torch.float32):
        operands = [randn(*shape, dtype=dtype) for shape in shapes]
        return lambda: operation(*operands)

    big = (16384, 4096)
    result = {}

    def chain(x, r, b, w):
        return F.layer_norm(F.gelu(x + b) + r, (4096,), w, b)

    for suffix, dtype in (("", torch.float32), ("_bf16", torch.bfloat16), ("_f16", torch.float16)):
        def add(name, operation, *shapes, dtype=dtype, suffix=suffix):
            result[name + suffix] = lambda: with_operands(operation, *shapes, dtype=dtype)
        add("copy", lambda to, x: to.copy_(x), big, big)
        add("multiply", lambda x: x * 2.0, big)
        add("gelu_add_mul", lambda x, r, b: F.gelu(x + b) * r, big, big, (4096,))
        add("layer_norm_chain", torch.compile(chain), big, big, (4096,), (4096,))
        add("layer_norm_chain_eager", chain, big, big, (4096,), (4096,))
        add("softmax", lambda x: torch.softmax(x, -1), big)
        add("sum", torch.sum, big)
        add("sum_rows", lambda x: x.sum(1), big)
        add("sum_columns", lambda x: x.sum(0), big)
        add("softmax_short", lambda x: torch.softmax(x, -1), (1048576, 64))
        add("matvec_8192", torch.matmul, (8192, 8192), (8192, 1))
        add("vecmat_8192", torch.matmul, (1, 8192), (8192, 8192))

    def adam():
        parameter = torch.nn.Parameter(randn(100_000_000))
        parameter.grad = randn(100_000_000)
        return torch.optim.Adam([parameter], fused=True).step
    result["adam_100m"] = adam
    for n in (512, 1024, 2048, 4096, 8192):
        result[f"matmul_{n}"] = lambda n=n: with_operands(torch.matmul, (n, n), (n, n))
    for n in (1024, 2048, 4096, 8192):  # beside ours, whose bits are the same everywhere, on floating-point tensor cores
        for numerics in ("blocked", "fast"):
            result[f"matmul_{n}_bf16_{numerics}"] = lambda n=n: with_operands(
                torch.matmul, (n, n), (n, n), dtype=torch.bfloat16)
    for width in (64, 128):
        result[f"attention_8x16x2048x{width}_bf16_fast"] = lambda width=width: with_operands(
            F.scaled_dot_product_attention, *[(8, 16, 2048, width)] * 3, dtype=torch.bfloat16)
    result["linear_16x4096x4096_bf16_blocked"] = result["linear_16x4096x4096_bf16_fast"] = lambda: with_operands(
        F.linear, (16, 4096), (4096, 4096), dtype=torch.bfloat16)
    result["linear_2048x4096x11008_bf16_blocked"] = result["linear_2048x4096x11008_bf16_fast"] = lambda: with_operands(
        F.linear, (2048, 4096), (11008, 4096), dtype=torch.bfloat16)
    result["linear_4096"] = lambda: with_operands(F.linear, (4096, 4096), (4096, 4096), (4096,))
    result["matmul_batched_64x512"] = lambda: with_operands(torch.matmul, (64, 512, 512), (64, 512, 512))
    for name, images, channels, side, outputs, kernel, stride, groups in (
            ("conv3x3_64_56_b32", 32, 64, 56, 64, 3, 1, 1), ("conv1x1_256_64_56_b32", 32, 256, 56, 64, 1, 1, 1),
            ("conv1x1_512_2048_7_b32", 32, 512, 7, 2048, 1, 1, 1), ("conv3x3_512_7_b32", 32, 512, 7, 512, 3, 1, 1),
            ("conv3x3_512_7_b1", 1, 512, 7, 512, 3, 1, 1), ("conv7x7_3_224_b32", 32, 3, 224, 64, 7, 2, 1),
            ("depthwise3x3_256_56_b32", 32, 256, 56, 256, 3, 1, 256)):
        result[name] = lambda a=(images, channels, side, side), b=(outputs, channels // groups, kernel, kernel), \
            s=stride, p=kernel // 2, g=groups: with_operands(lambda x, w: F.conv2d(x, w, None, s, p, 1, g), a, b)

    def inference(images, dtype=torch.float32, layout=torch.contiguous_format):
        model = resnet50().cuda().eval().to(dtype).to(memory_format=layout)
        x = randn(images, 3, 224, 224, dtype=dtype).to(memory_format=layout)

        def step():
            with torch.no_grad():
                model(x)
        return step
    for images in (1, 32):
        result[f"resnet50_b{images}"] = lambda images=images: inference(images)
    result["resnet50_b256_bf16_fast"] = lambda: inference(256, torch.bfloat16, torch.channels_last)

    def training(autocast=False, layout=torch.contiguous_format):
        model = resnet50().cuda().train().to(memory_format=layout)
        x = randn(64, 3, 224, 224).to(memory_format=layout)
        y = torch.randint(0, 1000, (64,), device="cuda")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

        def step():
            optimizer.zero_grad()
            with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
                loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        return step
    result["resnet50_train_b64"] = training
    result["resnet50_train_b64_bf16_fast"] = lambda: training(True, torch.channels_last)

    def launches():
        x = randn(16)

        def step():
            for _ in range(100):
                x * 2.0
        return step
    result["launch"] = launches
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--filter", default="")
    parser.add_argument("--no-torch", action="store_true")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    peers = {}
    for name, prepare in cases().items():
        if options.filter not in name and not name.startswith("copy"):
            continue
        if options.no_torch and not name.startswith("copy"):
            continue
        try:
            peers[name] = median_seconds(prepare())
        except Exception as error:  # e.g. torch.compile without a C compiler
            print(f"torch {name}: {type(error).__name__}: {str(error)[:100]}", file=sys.stderr)
        torch.cuda.empty_cache()
    torch.cuda.empty_cache()
    copy = 2 * 4 * 16384 * 4096 / peers["copy"]
    print(f"torch {torch.__version__} on {torch.cuda.get_device_name()}, copy {copy / 1e12:.2f} TB/s")
    print(f"| {'name':26} | {'ours ms':>9} | {'torch ms':>9} | ratio | of copy | TFLOP/s | torch | first s |")
    print("|---|---|---|---|---|---|---|---|")
    bench = subprocess.Popen([options.bench, options.device, options.filter], stdout=subprocess.PIPE, text=True)
    for line in bench.stdout:
        row = json.loads(line)
        if "error" in row:
            print(f"| {row['name']:26} | {row['error'][:300]}")
            continue
        seconds, peer = row["seconds"], peers.get(row["name"]) or peers.get(row["name"] + "_eager")
        rate = f"{row['bytes'] / seconds / copy:7.2f}" if row["bytes"] and not row["flops"] else " " * 7
        flops = f"{row['flops'] / seconds / 1e12:7.2f}" if row["flops"] else " " * 7
        theirs = f"{row['flops'] / peer / 1e12:5.1f}" if row["flops"] and peer else " " * 5
        torch_ms, ratio = (f"{1e3 * peer:9.4f}", f"{peer / seconds:5.2f}") if peer else (" " * 9, " " * 5)
        print(f"| {row['name']:26} | {1e3 * seconds:9.4f} | {torch_ms} | {ratio} | {rate} | {flops} | {theirs} | "
              f"{row['first']:7.3f} |", flush=True)


if __name__ == "__main__":
    main()
