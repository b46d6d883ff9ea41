"""Synthetic pictures: ramps, an edge, a disc and some noise, so that every resampling and coding fault shows."""
import numpy as np


def picture(height, width, channels, seed, noise=20):
    """[H, W, C] u8."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    y, x = (y + 0.5) / height, (x + 0.5) / width
    layers = []
    for c in range(channels):
        ramp = 255 * (x if c % 2 else y)
        disc = (x - 0.35 - 0.1 * c) ** 2 + (y - 0.5) ** 2 < 0.06
        edge = x + 0.6 * y > 1.1 + 0.1 * c
        layers.append(np.where(disc, 255, np.where(edge, 20 * c, ramp)))
    layers = np.stack(layers, -1) + rng.normal(0, noise, (height, width, channels))
    return np.clip(layers, 0, 255).astype(np.uint8)
