#!/usr/bin/env python3
"""Records what every module of a PyTorch model returns, in the format of `lockstep ... --record FILE --record-modules`.

In a program:

    from record_torch import Recorder
    with Recorder(model, "torch.rec"):
        model(x)

or from the command line, with a model that a function or class without arguments makes:

    python3 tools/record_torch.py --model torchvision.models:resnet18 --weights resnet18.pth --input x.npy --out torch.rec

Then `lockstep diff torch.rec ours.rec --tolerance 1e-4` names the first module whose outputs part beyond rounding.

Needs torch and numpy; with the package xxhash the hashes are those of Tensor::hash, so that equal bits are seen as such.
"""
import argparse
import importlib
import json
import math
import sys

import numpy
import torch

try:
    import xxhash
except ImportError:
    xxhash = None

FORMAT = "lockstep-record-1"
SAMPLE = 256  # kRecordedSample of lockstep/recorder.h
DTYPES = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
          torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool"}


def hash_of(tensor):
    """XXH3-64 of the little-endian bits, every NaN as the quiet one (src/core/hash.h)."""
    if xxhash is None:
        return "0" * 16
    if tensor.is_floating_point():
        tensor = torch.where(torch.isnan(tensor), torch.full_like(tensor, math.nan), tensor)
    data = tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
    return f"{xxhash.xxh3_64_intdigest(data):016x}"


def sample_of(tensor):
    """Elements i * n / count of n, as numbers, or texts where JSON has none."""
    n = tensor.numel()
    count = min(n, SAMPLE)
    places = [i * n // count for i in range(count)]
    values = tensor.flatten()[places].to(torch.float64).tolist() if count else []
    return [v if math.isfinite(v) else "nan" if math.isnan(v) else "inf" if v > 0 else "-inf" for v in values]


class Recorder:
    """While it is entered, each module of `model` that returns one tensor leaves a line at each of its calls."""

    def __init__(self, model, path):
        self.model, self.path, self.lines, self.hooks = model, path, [], []

    def __enter__(self):
        for name, module in self.model.named_modules():
            self.hooks.append(module.register_forward_hook(self.hook_of(name)))
        return self

    def hook_of(self, name):
        def hook(module, inputs, output):
            if not isinstance(output, torch.Tensor) or output.dtype not in DTYPES:
                return
            output = output.detach().cpu()
            line = {"ops": type(module).__name__, "module": name, "dtype": DTYPES[output.dtype], "shape": list(output.shape),
                    "hash": hash_of(output), "device": "torch", "file": type(module).__module__, "line": 0}
            if output.is_floating_point():
                line["sample"] = sample_of(output)
            self.lines.append(line)
        return hook

    def __exit__(self, kind, error, trace):
        for hook in self.hooks:
            hook.remove()
        if kind is not None:
            return
        head = {"format": FORMAT, "version": f"torch {torch.__version__}", "kernels": len(self.lines)}
        with open(self.path, "w", encoding="utf-8") as file:
            for line in [head, *self.lines]:
                file.write(json.dumps(line, allow_nan=False) + "\n")


def main():
    parser = argparse.ArgumentParser(description="Record what every module of a PyTorch model returns.")
    parser.add_argument("--model", required=True, help="MODULE:CALLABLE that makes the model")
    parser.add_argument("--weights", help="a state dictionary, .pth or .safetensors; the model's own without it")
    parser.add_argument("--input", required=True, action="append", help="a .npy file for each argument of forward")
    parser.add_argument("--out", required=True, help="the recording")
    options = parser.parse_args()
    module, _, name = options.model.partition(":")
    sys.path.insert(0, ".")
    model = getattr(importlib.import_module(module), name)().eval()
    if options.weights:
        if options.weights.endswith(".safetensors"):
            from safetensors.torch import load_file
            model.load_state_dict(load_file(options.weights))
        else:
            model.load_state_dict(torch.load(options.weights, map_location="cpu", weights_only=True))
    inputs = [torch.from_numpy(numpy.load(path)) for path in options.input]
    with torch.no_grad(), Recorder(model, options.out) as recorder:
        model(*inputs)
    print(f"{options.out}: {len(recorder.lines)} outputs of modules recorded", file=sys.stderr)


if __name__ == "__main__":
    main()
