#!/usr/bin/env python3
"""PyTorch's DistributedDataParallel, or FSDP2 (--sharded), on the training steps of bench/dist_bench.cpp.

  torchrun --nproc-per-node 2 torch_ddp.py --model resnet50 --batch 64 [--bf16] [--sharded] [--steps 20]

Every rank has --batch examples. Rank 0 prints one JSON object, with the median over the steps after warming up. In f32
products are exact f32, not TF32, as Lockstep's are; --bf16 is autocast, for pictures with channels last.
"""
import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, words=50304, length=1024, width=768, heads=12, depth=12):
        super().__init__()
        self.tokens = nn.Embedding(words, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return F.linear(self.norm(self.blocks(self.tokens(x) + self.positions.weight)), self.tokens.weight)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=["resnet50", "gpt124m"], default="resnet50")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--sharded", action="store_true", help="fully_shard: each block, and the rest")
    options = parser.parse_args()

    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
    if size > 1:
        dist.init_process_group("nccl", device_id=device)
    torch.manual_seed(rank)
    torch.backends.cudnn.allow_tf32 = False
    pictures = options.model == "resnet50"
    if pictures:
        import torchvision
        model = torchvision.models.resnet50().to(device)
        x = torch.randn(options.batch, 3, 224, 224, device=device)
        y = torch.randint(0, 1000, (options.batch,), device=device)
        if options.bf16:
            model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    else:
        model = Gpt().to(device)
        x = torch.randint(0, 50304, (options.batch, 1024), device=device)
        y = torch.randint(0, 50304, (options.batch, 1024), device=device)
    if size > 1 and options.sharded:
        from torch.distributed.fsdp import fully_shard
        blocks = [*model.layer1, *model.layer2, *model.layer3, *model.layer4] if pictures else model.blocks
        for block in blocks:
            fully_shard(block)
        fully_shard(model)
    elif size > 1:
        model = nn.parallel.DistributedDataParallel(model, device_ids=[device.index])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def step():
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=options.bf16):
            out = model(x)
            loss = F.cross_entropy(out if pictures else out.flatten(0, 1), y if pictures else y.flatten())
        loss.backward()
        optimizer.step()
        return loss.item()

    for _ in range(5):
        step()
    seconds = []
    torch.cuda.reset_peak_memory_stats()
    for _ in range(options.steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    if rank == 0:
        print(json.dumps({"model": options.model, "torch": torch.__version__, "dtype": "bf16" if options.bf16 else "f32",
                          "ranks": size, "batch": options.batch, "sharded": options.sharded,
                          "peak_mb": round(torch.cuda.max_memory_allocated() / 1e6, 1),
                          "median_ms": round(1e3 * statistics.median(seconds), 3)}),
              flush=True)
    if size > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
