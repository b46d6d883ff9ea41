#!/usr/bin/env python3
"""Times a peer on the CPU, which Lockstep's benchmarks of the same names are held against: PyTorch, ONNX Runtime, OpenBLAS
(inside NumPy) or oneDNN with blocked layouts (inside PyTorch).

Prints one JSON object per line, {"name", "seconds", "threads"}, where seconds is the median over repeated runs of
one forward pass, one operation or one training step, after warming up; the version goes to standard error.
Everything is f32, and but for training in eval mode and without gradients; weights and inputs are random, since values
do not change the work. With --runtime onnxruntime, networks are exported to ONNX and run with its own optimisations;
names that a runtime does not have are left out.

Names: resnet20_b1, resnet20_b128 (3x32x32 images), resnet18_b1, resnet50_b1, resnet50_b8, squeezenet_b1, mobilenet_v3_b1,
vit_b16_b1 (3x224x224, torchvision's but for resnet18), encoder_b1, encoder_b8 (a transformer of 6 layers, width 512, 128 tokens),
bert_base_b1 (the 12 layers of BERT-base, 128 tokens), gpt2_prefill_128 (GPT-2 of 124 M, 128 tokens to the logits of the last),
gpt2_decode (one token after 128), mobile_sam_encoder (3x1024x1024), copy_4096 (into memory that exists
already, so that it shows the memory's speed); training steps: train_lenet_b64 and train_resnet20_b128 (SGD with momentum),
train_transformer_16x128 (6 layers, width 256, AdamW); and the single kernels of kernel_cases.py.
"""
import argparse
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

import kernel_cases
import torch_gpt2
from torch_tiny_vit import mobile_sam_encoder


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut: option A (pad with zeros) or a projection."""

    def __init__(self, inputs, outputs, stride, project):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        changes = stride != 1 or inputs != outputs
        self.padding = outputs // 4 if changes and not project else 0
        self.downsample = None
        if changes and project:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.downsample:
            x = self.downsample(x)
        elif self.padding:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.padding, self.padding))
        return F.relu(out + x)


def stages(channels, blocks, project):
    """One Sequential of all stages; each stage after the first halves the image."""
    layers, inputs = [], channels[0]
    for stage, outputs in enumerate(channels):
        for block in range(blocks):
            layers.append(BasicBlock(inputs, outputs, 2 if stage and not block else 1, project))
            inputs = outputs
    return nn.Sequential(*layers)


def resnet20():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        stages([16, 32, 64], 3, project=False),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def resnet18():
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        stages([64, 128, 256, 512], 2, project=True),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


class TransformerBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.permute(0, 2, 1, 3).reshape(n, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    """A causal language model over sequences of 128 bytes."""

    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(256, 256), nn.Parameter(torch.randn(128, 256) * 0.02)
        self.blocks = nn.Sequential(*[TransformerBlock(256, 4) for _ in range(6)])
        self.norm, self.head = nn.LayerNorm(256), nn.Linear(256, 256, bias=False)

    def forward(self, ids):
        return self.head(self.norm(self.blocks(self.tokens(ids) + self.positions))).flatten(0, 1)


def prepared(net, inputs, compiles):
    """The network and its inputs in their fastest form: pictures in channels_last."""
    if any(isinstance(part, nn.Conv2d) for part in net.modules()):
        net, inputs = net.to(memory_format=torch.channels_last), [x.to(memory_format=torch.channels_last) for x in inputs]
    return torch.compile(net) if compiles else net, inputs


def training(net, optimizer, x, y, compiles):
    """One step of training."""
    net, (x,) = prepared(net(), [x], compiles)
    optimizer = optimizer(net.parameters())

    def step():
        with torch.enable_grad():
            F.cross_entropy(net(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def median_seconds(run, budget, clock=time.perf_counter):
    """Median time of `run` over at least 5 runs and about `budget` seconds, after two warm-up runs."""
    run(), run()
    times, began = [], time.perf_counter()
    while len(times) < 5 or (time.perf_counter() - began < budget and len(times) < 2000):
        start = clock()
        run()
        times.append(clock() - start)
    return statistics.median(times)


NETWORKS = ("resnet", "squeezenet", "mobile", "vit", "encoder", "bert", "gpt2")


def networks(onnx_threads=0, compiles=False):
    """Name -> function that builds the case and returns what to time; built one at a time to bound memory."""
    def run_of(net, inputs):
        net = net().eval()
        if onnx_threads:
            return kernel_cases.onnx_run(net, inputs, onnx_threads)
        net, inputs = prepared(net, inputs, compiles)
        return lambda: net(*inputs)

    def step_of(net, optimizer, x, y):
        return lambda: training(net, optimizer, x, y, compiles)

    def model(net, *shape):
        return run_of(net, [torch.randn(shape)])

    def vision(name):
        import torchvision

        return getattr(torchvision.models, name)

    def encoder():
        layer = nn.TransformerEncoderLayer(512, 8, 2048, activation="gelu", batch_first=True, norm_first=True)
        return nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)

    def bert():
        layer = nn.TransformerEncoderLayer(768, 12, 3072, activation="gelu", batch_first=True)
        return nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)

    def copy():
        target, x = torch.empty(4096, 4096), torch.randn(4096, 4096)
        return lambda: target.copy_(x)

    def sgd(parameters):
        return torch.optim.SGD(parameters, lr=0.01, momentum=0.9)

    return {
        "train_lenet_b64": step_of(lenet, sgd, torch.randn(64, 1, 28, 28), torch.randint(10, (64,))),
        "train_resnet20_b128": step_of(resnet20, sgd, torch.randn(128, 3, 32, 32), torch.randint(10, (128,))),
        "train_transformer_16x128": step_of(Transformer, lambda p: torch.optim.AdamW(p, lr=1e-3),
                                            torch.randint(256, (16, 128)), torch.randint(256, (2048,))),
        "resnet20_b1": lambda: model(resnet20, 1, 3, 32, 32),
        "resnet20_b128": lambda: model(resnet20, 128, 3, 32, 32),
        "resnet18_b1": lambda: model(resnet18, 1, 3, 224, 224),
        "resnet50_b1": lambda: model(vision("resnet50"), 1, 3, 224, 224),
        "resnet50_b8": lambda: model(vision("resnet50"), 8, 3, 224, 224),
        "squeezenet_b1": lambda: model(vision("squeezenet1_1"), 1, 3, 224, 224),
        "mobilenet_v3_b1": lambda: model(vision("mobilenet_v3_large"), 1, 3, 224, 224),
        "vit_b16_b1": lambda: model(vision("vit_b_16"), 1, 3, 224, 224),
        "encoder_b1": lambda: model(encoder, 1, 128, 512),
        "encoder_b8": lambda: model(encoder, 8, 128, 512),
        "bert_base_b1": lambda: model(bert, 1, 128, 768),
        "gpt2_prefill_128": lambda: run_of(torch_gpt2.Gpt2, torch_gpt2.inputs(128, 0)),
        "gpt2_decode": lambda: run_of(torch_gpt2.Gpt2, torch_gpt2.inputs(1, 128)),
        "mobile_sam_encoder": lambda: model(mobile_sam_encoder, 1, 3, 1024, 1024),
        "copy_4096": copy,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0, help="time spent on each case")
    parser.add_argument("--cpu", action="store_true", help="processor time of all threads")
    parser.add_argument("--runtime", choices=("torch", "compiled", "onnxruntime", "openblas", "onednn"), default="torch",
                        help="compiled: PyTorch with torch.compile")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="run these cases only")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    if options.runtime == "compiled":
        from torch._dynamo import config
        config.recompile_limit = 100  # for each function: cases share some
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads", file=sys.stderr)
    known = kernel_cases.cases(options.runtime, options.threads)
    if options.runtime in ("torch", "compiled"):
        known |= networks(compiles=options.runtime == "compiled")
    elif options.runtime == "onnxruntime":
        known |= {name: case for name, case in networks(options.threads).items() if name.startswith(NETWORKS)}
    unknown = set(options.only or []) - set(networks()) - set(kernel_cases.CASES)
    if unknown:
        parser.error(f"unknown case {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    with torch.no_grad():
        for name in options.only or known:
            run = known[name]() if name in known else None
            if run is None:
                continue
            seconds = median_seconds(run, options.seconds, time.process_time if options.cpu else time.perf_counter)
            print(json.dumps({"name": name, "seconds": seconds, "threads": options.threads}), flush=True)


if __name__ == "__main__":
    main()
