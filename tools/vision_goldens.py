#!/usr/bin/env python3
"""Makes tests/data/vision.safetensors: what networks of torchvision compute in float64, for small versions of them.

Neither weights nor pictures are stored: both sides make them by the formula of `noise` from a name, exactly. So a key that
means another tensor, or another order of elements, gives other results. Per network `<name>`: the logits, and in the
metadata under `<name>` the keys of its state dict with their shapes (JSON).

Needs: torch, torchvision, safetensors. The same versions write the same bytes.
"""
import json
import pathlib

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn
from torchvision.models import convnext, efficientnet, mobilenetv2, mobilenetv3, regnet, vgg, vision_transformer

CLASSES = 5


def noise(name, count):
    """`count` multiples of 2^-23 in [-1, 1): element i of `name` is a hash of both. FNV-1a, then murmur's finaliser."""
    seed = 2166136261
    for byte in name.encode():
        seed = (seed ^ byte) * 16777619 % 2**32
    x = (seed + np.arange(count, dtype=np.uint64) * 0x9E3779B9) % 2**32
    x ^= x >> 16
    x = x * 0x85EBCA6B % 2**32
    x ^= x >> 13
    x = x * 0xC2B2AE35 % 2**32
    x ^= x >> 16
    return (x >> 8).astype(np.float32) / np.float32(2**23) - np.float32(1)


def value_of(name, shape):
    """A weight that keeps activations of the order of 1: f32."""
    values = noise(name, int(np.prod(shape)) if shape else 1)
    if name.endswith("running_var") or len(shape) == 1 and name.endswith("weight"):
        values = np.float32(1) + np.float32(0.25) * values
    elif len(shape) < 2 or name.endswith("layer_scale"):
        values = np.float32(0.25) * values
    else:
        # 2 / sqrt(fan_in), rounded to a power of two so that products are exact.
        fan_in = int(np.prod(shape[1:]))
        values = np.float32(2.0 ** -((fan_in.bit_length() - 1) // 2)) * np.float32(1.5) * values
    return torch.from_numpy(values.reshape(shape))


def networks():
    v2 = mobilenetv2.MobileNetV2(CLASSES, inverted_residual_setting=[[1, 8, 1, 1], [6, 16, 2, 2], [3, 16, 1, 1]])
    v3 = mobilenetv3.InvertedResidualConfig
    v3_blocks = [v3(16, 3, 16, 16, True, "RE", 2, 1, 1), v3(16, 5, 40, 24, False, "HS", 1, 1, 1),
                 v3(24, 5, 96, 24, True, "HS", 1, 1, 1), v3(24, 3, 72, 32, True, "RE", 2, 1, 1)]
    mb = efficientnet.MBConvConfig
    stages = [mb(1, 3, 1, 16, 8, 1), mb(6, 3, 2, 8, 16, 2), mb(4, 5, 2, 16, 24, 2)]
    cn = convnext.CNBlockConfig
    blocks = [cn(8, 16, 1), cn(16, 24, 1), cn(24, 32, 2), cn(32, None, 1)]
    params = regnet.BlockParams.from_init_params
    small_vgg = vgg.VGG(vgg.make_layers([8, "M", 16, 16, "M"]), CLASSES, init_weights=False)
    small_vgg.classifier[0] = nn.Linear(16 * 7 * 7, 24)
    small_vgg.classifier[3] = nn.Linear(24, 24)
    small_vgg.classifier[6] = nn.Linear(24, CLASSES)
    return {
        "mobilenet_v2": (v2, 40, 36),
        "mobilenet_v3": (mobilenetv3.MobileNetV3(v3_blocks, 48, CLASSES), 40, 36),
        "efficientnet": (efficientnet.EfficientNet(stages, 0.2, num_classes=CLASSES), 40, 36),
        "convnext": (convnext.ConvNeXt(blocks, num_classes=CLASSES), 64, 96),
        "vision_transformer": (vision_transformer.VisionTransformer(32, 8, 2, 3, 24, 40, num_classes=CLASSES), 32, 32),
        "vgg": (small_vgg, 32, 36),
        "regnet_x": (regnet.RegNet(params(6, 24, 24.48, 2.54, 16), CLASSES, stem_width=16), 64, 72),
        "regnet_y": (regnet.RegNet(params(5, 16, 10.5, 1.8, 8, se_ratio=0.25), CLASSES, stem_width=16), 64, 72),
    }


@torch.no_grad()
def main():
    torch.set_num_threads(1)
    tensors, keys = {}, {}
    for name, (model, height, width) in networks().items():
        model.eval()
        shapes = {}
        for key, value in model.state_dict().items():
            if key.endswith("num_batches_tracked"):
                continue
            shapes[key] = list(value.shape)
            value.copy_(value_of(key, tuple(value.shape)))
        picture = torch.from_numpy(2 * noise("picture", 2 * 3 * height * width).reshape(2, 3, height, width))
        logits = model.double()(picture.double())
        print(name, sum(p.numel() for p in model.parameters()), logits)
        tensors[name], keys[name] = logits.float().contiguous(), json.dumps({"picture": [height, width], "keys": shapes})
    path = pathlib.Path(__file__).resolve().parent.parent / "tests/data/vision.safetensors"
    save_file(tensors, path, metadata=keys)
    print(path, path.stat().st_size)


if __name__ == "__main__":
    main()
