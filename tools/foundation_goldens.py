#!/usr/bin/env python3
"""Makes tests/data/foundation.safetensors: what CLIP and DINOv2 of transformers, and a YOLOv8 written here, compute in
float64, for small versions of them; and which boxes torchvision's batched_nms keeps.

Neither weights nor pictures are stored: both sides make them by a formula (vision_goldens.py). In the metadata under
`<network>` stand the keys of its state dict with their shapes (JSON).

Needs: torch, torchvision, transformers, safetensors. The same versions write the same bytes.
"""
import json
import pathlib

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn
from torchvision.ops import batched_nms
from transformers import CLIPConfig, CLIPModel, Dinov2Config, Dinov2Model

from vision_goldens import noise, value_of


class Conv(nn.Module):
    def __init__(self, a, b, k=1, s=1):
        super().__init__()
        self.conv = nn.Conv2d(a, b, k, s, k // 2, bias=False)
        self.bn = nn.BatchNorm2d(b, eps=1e-3)

    def forward(self, x):
        return nn.functional.silu(self.bn(self.conv(x)))


class Bottleneck(nn.Module):
    def __init__(self, c, add):
        super().__init__()
        self.cv1, self.cv2, self.add = Conv(c, c, 3), Conv(c, c, 3), add

    def forward(self, x):
        y = self.cv2(self.cv1(x))
        return x + y if self.add else y


class C2f(nn.Module):
    def __init__(self, a, b, n, add):
        super().__init__()
        self.cv1, self.cv2 = Conv(a, b), Conv((2 + n) * (b // 2), b)
        self.m = nn.ModuleList(Bottleneck(b // 2, add) for _ in range(n))

    def forward(self, x):
        parts = list(self.cv1(x).chunk(2, 1))
        for m in self.m:
            parts.append(m(parts[-1]))
        return self.cv2(torch.cat(parts, 1))


class Pool(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.cv1, self.cv2, self.pool = Conv(c, c // 2), Conv(2 * c, c), nn.MaxPool2d(5, 1, 2)

    def forward(self, x):
        y = [self.cv1(x)]
        for _ in range(3):
            y.append(self.pool(y[-1]))
        return self.cv2(torch.cat(y, 1))


class Head(nn.Module):
    def __init__(self, classes, channels):
        super().__init__()
        b, c = max(16, channels[0] // 4, 64), max(channels[0], min(classes, 100))
        self.cv2 = nn.ModuleList(nn.Sequential(Conv(a, b, 3), Conv(b, b, 3), nn.Conv2d(b, 64, 1)) for a in channels)
        self.cv3 = nn.ModuleList(nn.Sequential(Conv(a, c, 3), Conv(c, c, 3), nn.Conv2d(c, classes, 1)) for a in channels)
        self.dfl = nn.Module()
        self.dfl.conv = nn.Conv2d(16, 1, 1, bias=False)

    def forward(self, levels):
        boxes, scores, centres, strides = [], [], [], []
        for stride, level, cv2, cv3 in zip((8, 16, 32), levels, self.cv2, self.cv3):
            boxes.append(cv2(level).flatten(2))
            scores.append(cv3(level).flatten(2))
            y, x = torch.meshgrid(torch.arange(level.shape[2]), torch.arange(level.shape[3]), indexing="ij")
            centres.append(torch.stack((x.flatten(), y.flatten())) + 0.5)
            strides.append(torch.full((1, x.numel()), stride))
        bins = torch.cat(boxes, 2).unflatten(1, (4, 16)).transpose(1, 2).softmax(1)
        sides, centre = self.dfl.conv(bins).squeeze(1), torch.cat(centres, 1).double()
        low, high = centre - sides[:, :2], centre + sides[:, 2:]
        return torch.cat((torch.cat(((low + high) / 2, high - low), 1) * torch.cat(strides, 1), torch.cat(scores, 2).sigmoid()), 1)


class Yolo(nn.Module):
    """Layers 10, 11, 13, 14, 17 and 20 of the list (upsampling and concatenation) have no weights."""

    def __init__(self, classes, c):
        super().__init__()
        layers = {0: Conv(3, c[0], 3, 2), 1: Conv(c[0], c[1], 3, 2), 2: C2f(c[1], c[1], 1, True), 3: Conv(c[1], c[2], 3, 2),
                  4: C2f(c[2], c[2], 2, True), 5: Conv(c[2], c[3], 3, 2), 6: C2f(c[3], c[3], 2, True),
                  7: Conv(c[3], c[4], 3, 2), 8: C2f(c[4], c[4], 1, True), 9: Pool(c[4]), 12: C2f(c[4] + c[3], c[3], 1, False),
                  15: C2f(c[3] + c[2], c[2], 1, False), 16: Conv(c[2], c[2], 3, 2), 18: C2f(c[2] + c[3], c[3], 1, False),
                  19: Conv(c[3], c[3], 3, 2), 21: C2f(c[3] + c[4], c[4], 1, False), 22: Head(classes, c[2:])}
        self.model = nn.ModuleDict({str(i): layer for i, layer in layers.items()})

    def forward(self, x):
        m = lambda i, y: self.model[str(i)](y)
        up = lambda y: nn.functional.interpolate(y, scale_factor=2)
        p3 = m(4, m(3, m(2, m(1, m(0, x)))))
        p4 = m(6, m(5, p3))
        p5 = m(9, m(8, m(7, p4)))
        d4 = m(12, torch.cat((up(p5), p4), 1))
        o3 = m(15, torch.cat((up(d4), p3), 1))
        o4 = m(18, torch.cat((m(16, o3), d4), 1))
        return m(22, [o3, o4, m(21, torch.cat((m(19, o4), p5), 1))])


def published(key):
    """transformers 5 calls the parts of DINOv2's attention otherwise than the published files do."""
    for old, name in (("q_proj", "attention.query"), ("k_proj", "attention.key"), ("v_proj", "attention.value"),
                      ("o_proj", "output.dense")):
        key = key.replace(f".attention.{old}.", f".attention.{name}.")
    return key


def set_weights(model):
    shapes = {}
    for key, value in model.state_dict().items():
        if key.endswith(("num_batches_tracked", "position_ids")):
            continue
        key = published(key)
        shapes[key] = list(value.shape)
        value.copy_(torch.arange(16.0).reshape(1, 16, 1, 1) if key.endswith("dfl.conv.weight") else
                    value_of(key, tuple(value.shape)))
    return model.double().eval(), json.dumps(shapes)


def pictures(height, width):
    return torch.from_numpy(2 * noise("picture", 2 * 3 * height * width).reshape(2, 3, height, width)).double()


@torch.no_grad()
def main():
    torch.set_num_threads(1)
    tensors, keys = {}, {}
    yolo, keys["yolo"] = set_weights(Yolo(5, [8, 16, 32, 64, 128]))
    tensors["yolo"] = yolo(pictures(64, 96))

    tower = dict(num_hidden_layers=2, num_attention_heads=2, attn_implementation="eager")
    clip, keys["clip"] = set_weights(CLIPModel(CLIPConfig(
        text_config=dict(hidden_size=24, intermediate_size=40, vocab_size=50, max_position_embeddings=12, eos_token_id=49,
                         bos_token_id=48, **tower),
        vision_config=dict(hidden_size=32, intermediate_size=48, image_size=24, patch_size=8, **tower), projection_dim=16)))
    tokens = torch.tensor([[48, 3, 7, 49, 49, 49], [48, 10, 2, 30, 31, 49], [48, 49, 49, 49, 49, 49]])
    result = clip(input_ids=tokens, pixel_values=pictures(24, 24))
    tensors["clip"], tensors["clip.tokens"] = result.logits_per_image, tokens

    dino, keys["dinov2"] = set_weights(Dinov2Model(Dinov2Config(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=2, mlp_ratio=2, image_size=28, patch_size=7,
        attn_implementation="eager")))
    tensors["dinov2"] = dino(pictures(28, 28)).last_hidden_state
    tensors["dinov2.resized"] = dino(pictures(35, 21)).last_hidden_state

    r = np.random.default_rng(1)
    corner, size = r.uniform(0, 60, (200, 2)), r.uniform(5, 40, (200, 2))
    boxes = torch.from_numpy(np.concatenate((corner, corner + size), 1).astype(np.float32))
    scores = torch.from_numpy(r.integers(0, 40, 200).astype(np.float32) / 64)  # with equal ones
    labels = torch.from_numpy(r.integers(0, 3, 200))
    scores = scores + torch.arange(200, 0, -1) / 2**20  # torchvision's order of equal ones is not said
    tensors |= {"nms.boxes": boxes, "nms.scores": scores, "nms.labels": labels}
    for iou in (0.3, 0.7):
        tensors[f"nms.kept {iou}"] = batched_nms(boxes.double(), scores.double(), labels, iou)

    tensors = {k: (v.float() if v.dtype == torch.float64 else v).contiguous() for k, v in tensors.items()}
    for name, value in tensors.items():
        print(name, tuple(value.shape), value.flatten()[:4].tolist())
    path = pathlib.Path(__file__).resolve().parent.parent / "tests/data/foundation.safetensors"
    save_file(tensors, path, metadata=keys)
    print(path, path.stat().st_size)


if __name__ == "__main__":
    main()
