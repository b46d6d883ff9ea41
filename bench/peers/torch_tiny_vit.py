"""TinyViT-5M as MobileSAM uses it, in PyTorch: the peer of the benchmark mobile_sam_encoder.

Written after the paper ("TinyViT", Wu et al., 2022) with the fast forms of PyTorch: scaled_dot_product_attention with the
biases as its mask, which are looked up once, as MobileSAM does in evaluation.
"""
import torch
import torch.nn.functional as F
from torch import nn


def conv(inputs, outputs, kernel=1, stride=1, groups=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
                         nn.BatchNorm2d(outputs))


class MBConv(nn.Module):
    def __init__(self, channels):
        super().__init__()
        wide = 4 * channels
        self.layers = nn.Sequential(conv(channels, wide), nn.GELU(), conv(wide, wide, 3, groups=wide), nn.GELU(),
                                    conv(wide, channels))

    def forward(self, x):
        return F.gelu(self.layers(x) + x)


def merging(inputs, outputs, stride):
    return nn.Sequential(conv(inputs, outputs), nn.GELU(), conv(outputs, outputs, 3, stride, outputs), nn.GELU(),
                         conv(outputs, outputs))


class Attention(nn.Module):
    def __init__(self, channels, heads, window):
        super().__init__()
        self.heads, self.window = heads, window
        self.norm, self.qkv = nn.LayerNorm(channels), nn.Linear(channels, 3 * channels)
        self.proj = nn.Linear(channels, channels)
        self.register_buffer("biases", torch.randn(heads, window * window, window * window))

    def forward(self, x):
        n, height, width, channels = x.shape
        size = self.window
        below, right = -height % size, -width % size
        y = F.pad(x, (0, 0, 0, right, 0, below)) if below + right else x
        rows, columns = y.shape[1] // size, y.shape[2] // size
        y = y.view(n, rows, size, columns, size, channels).transpose(2, 3).reshape(-1, size * size, channels)
        qkv = self.qkv(self.norm(y)).view(-1, size * size, self.heads, 3 * channels // self.heads)
        q, k, v = qkv.permute(0, 2, 1, 3).chunk(3, -1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.biases)
        y = self.proj(y.transpose(1, 2).reshape(-1, size * size, channels))
        y = y.view(n, rows, columns, size, size, channels).transpose(2, 3)
        return y.reshape(n, rows * size, columns * size, channels)[:, :height, :width]


class Block(nn.Module):
    def __init__(self, channels, heads, window):
        super().__init__()
        self.attention = Attention(channels, heads, window)
        self.local = conv(channels, channels, 3, groups=channels)
        self.mlp = nn.Sequential(nn.LayerNorm(channels), nn.Linear(channels, 4 * channels), nn.GELU(),
                                 nn.Linear(4 * channels, channels))

    def forward(self, x):
        x = x.permute(0, 2, 3, 1)
        x = x + self.attention(x)
        x = self.local(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return (x + self.mlp(x)).permute(0, 3, 1, 2)


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def mobile_sam_encoder():
    """[N, 3, 1024, 1024] to [N, 256, 64, 64]."""
    layers = [conv(3, 32, 3, 2), nn.GELU(), conv(32, 64, 3, 2), MBConv(64), MBConv(64), merging(64, 128, 2)]
    for channels, depth, heads, window, following, stride in ((128, 2, 4, 7, 160, 2), (160, 6, 5, 14, 320, 1),
                                                              (320, 2, 10, 7, None, 1)):
        layers += [Block(channels, heads, window) for _ in range(depth)]
        if following:
            layers.append(merging(channels, following, stride))
    layers += [nn.Conv2d(320, 256, 1, bias=False), LayerNorm2d(256, eps=1e-6),
               nn.Conv2d(256, 256, 3, padding=1, bias=False), LayerNorm2d(256, eps=1e-6)]
    return nn.Sequential(*layers)
